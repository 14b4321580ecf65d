// A thread pool. OpenMP is not used, because torch bundles one and two in a process conflict.
//
// Threads are started when first needed, sleep between calls and live as long as the process.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#ifdef _WIN32
#define MUSICTX_EXPORT extern "C" __declspec(dllexport)
#else
#include <pthread.h>
#define MUSICTX_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {

struct ThreadPool {
  using Task = void (*)(const void* argument, int number);

  std::mutex in_use;  // held by the caller of `run`
  std::mutex mutex;   // protects all members below
  std::condition_variable wake, done;
  uint64_t calls = 0;
  int started = 0, active = 0, unfinished = 0;  // numbers of threads; `active` includes the caller
  Task task = nullptr;
  const void* argument = nullptr;

  // The loop of worker `number`, which waits for the first call after `last_call`.
  void work(int number, uint64_t last_call) {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return calls != last_call; });
      last_call = calls;
      if (number >= active) continue;
      lock.unlock();
      task(argument, number);
      lock.lock();
      if (!--unfinished) done.notify_one();
    }
  }

  void run(int count, Task new_task, const void* new_argument) {
    {
      const std::lock_guard lock(mutex);
      task = new_task, argument = new_argument, active = count, unfinished = count - 1;
      for (; started < count - 1; started++)
        std::thread(&ThreadPool::work, this, started + 1, calls).detach();
      calls++;
    }
    wake.notify_all();
    new_task(new_argument, 0);
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return !unfinished; });
  }
};

// Never deleted: workers may still read it while the process ends. A forked child has none of its parent's
// threads and therefore gets a new pool.
ThreadPool* pool = [] {
#ifndef _WIN32
  pthread_atfork(nullptr, nullptr, [] { pool = new ThreadPool; });
#endif
  return new ThreadPool;
}();

// Calls task(0), ..., task(count - 1), each in its own thread, the first in the calling thread; returns when
// all are done. While another thread uses the pool, the calling thread makes all calls. No task may throw.
template <class Task>
void parallel(int count, const Task& task) {
  std::unique_lock lock(pool->in_use, std::defer_lock);
  if (count > 1 && lock.try_lock())
    pool->run(count, [](const void* task, int n) { (*static_cast<const Task*>(task))(n); }, &task);
  else
    for (int n = 0; n < count; n++) task(n);
}

}  // namespace
