// Threads of our own: torch brings an OpenMP along, and a process bears no second one.
//
// Workers are started when first wanted and then sleep between calls; they last as long as the process.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#ifndef _WIN32
#include <pthread.h>
#endif

#ifdef _WIN32
#define MUSICTX_EXPORT extern "C" __declspec(dllexport)
#else
#define MUSICTX_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace {

struct Workers {
  std::mutex in_use;  // held by whoever has work done
  std::mutex guard;   // of what follows
  std::condition_variable wake, done;
  uint64_t round = 0;
  int hired = 0, wanted = 0, left = 0;
  void (*act)(const void*, int) = nullptr;
  const void* what = nullptr;

  void serve(int number, uint64_t seen) {
    std::unique_lock lock(guard);
    for (;;) {
      wake.wait(lock, [&] { return round != seen; });
      seen = round;
      if (number >= wanted) continue;
      lock.unlock();
      act(what, number);
      lock.lock();
      if (!--left) done.notify_one();
    }
  }

  void run(int count, void (*now)(const void*, int), const void* with) {
    {
      const std::lock_guard lock(guard);
      act = now, what = with, wanted = count, left = count - 1;
      for (; hired < count - 1; hired++)
        std::thread(&Workers::serve, this, hired + 1, round).detach();
      round++;
    }
    wake.notify_all();
    now(with, 0);
    std::unique_lock lock(guard);
    done.wait(lock, [&] { return !left; });
  }
};

// Never deleted: the workers of a process that ends may still look at it. A forked child has none of its
// parent's threads, and so begins with workers of its own.
Workers* workers = [] {
#ifndef _WIN32
  pthread_atfork(nullptr, nullptr, [] { workers = new Workers; });
#endif
  return new Workers;
}();

// act(0), .., act(count - 1), each in a thread of its own, the first in this one; returns when all are
// done. One after the other in this thread while the workers are busy for another one. No act may throw.
template <class Act>
void parallel(int count, const Act& act) {
  std::unique_lock lock(workers->in_use, std::defer_lock);
  if (count > 1 && lock.try_lock())
    workers->run(count, [](const void* it, int n) { (*static_cast<const Act*>(it))(n); }, &act);
  else
    for (int n = 0; n < count; n++) act(n);
}

}  // namespace
