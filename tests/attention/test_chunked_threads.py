"""Heads side by side in threads: the same bits as in turn, and nothing else changes."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.chunked import plan, threads
from musictx.attention.terms import Axis, Blocks, Terms
from tests.attention import cases

#: Operations on one thread here as there, so that they give the same bits.
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def small_calls_too(monkeypatch):
    """Two threads for calls of any size, one head at a time."""
    monkeypatch.setattr(threads, "available", lambda: 2)
    monkeypatch.setattr(plan, "ENOUGH", 0)
    monkeypatch.setattr(plan, "OWN_BUDGET", 1)
    monkeypatch.setattr(plan, "BLOCK", 16)


def in_turn(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The same shares of heads, but all of them here."""
    monkeypatch.setattr(threads, "each", lambda work, jobs, number: [work(job) for job in jobs])
    return monkeypatch


def everything(dropout: float = 0.0, upstream: bool = True, dtype=torch.float32) -> list[Tensor]:
    """Output and gradients of a call with all terms and pieces, 4 heads, 40 queries, 45 keys."""
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 3, 4, 40, 45, 8, dtype=dtype)
    table = cases.learned(named, "table", 1, 30, 8, dtype=dtype)
    bias = cases.learned(named, "bias", 4, 30, dtype=dtype)
    u = cases.learned(named, "u", 4, 8, dtype=dtype)
    v_bias = cases.learned(named, "v_bias", 4, 8, dtype=dtype)
    values = cases.learned(named, "V", 4, 30, 8, dtype=dtype)
    terms = Terms(0.4, (Axis(table, bias, high=29),), u, v_bias, values, Blocks(17))
    ids = torch.arange(45).expand(3, -1) // 20
    out = cases.directly(chunked)(
        *(q, k, v, terms),
        query_pieces=ids[:, 5:],
        key_pieces=ids,
        dropout=dropout,
    )
    if not upstream:
        return [out]
    return [out, *torch.autograd.grad(out, list(named.values()), torch.randn_like(out))]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_side_by_side_gives_the_same_bits_as_in_turn(dropout, small_calls_too, monkeypatch):
    names = []
    right = threads.each

    def spy(work, jobs, number):
        def spied(job):
            names.append(threading.current_thread().name)
            work(job)

        right(spied, jobs, number)

    with monkeypatch.context() as patch:
        patch.setattr(threads, "each", spy)
        found = [everything(dropout) for _ in range(5)]
    assert len(names) == 5 * 2 * 4, "five times two passes over four heads"
    assert all(name.startswith("musictx") for name in names)
    with monkeypatch.context() as patch:
        in_turn(patch)
        want = everything(dropout)
    assert all(x.abs().max() > 0 for x in want)
    for got in found:
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("mode", ["no_grad", "inference", "autocast", "float64 as default"])
def test_the_callers_modes_hold(mode, small_calls_too, monkeypatch):
    def run() -> list[Tensor]:
        if mode == "float64 as default":
            torch.set_default_dtype(torch.float64)
        context = {
            "no_grad": torch.no_grad,
            "inference": torch.inference_mode,
            "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
        }
        with context.get(mode, nullcontext)():
            return everything(upstream=mode not in ("no_grad", "inference"))

    default = torch.get_default_dtype()
    try:
        got = run()
        in_turn(monkeypatch)
        want = run()
    finally:
        torch.set_default_dtype(default)
    assert got[0].is_inference() == (mode == "inference")
    assert got[0].requires_grad == (mode not in ("no_grad", "inference"))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype == torch.float32
        assert torch.equal(a, b)


def test_only_the_workers_keep_to_one_thread():
    """The number of the caller stays, and so does the one that other threads begin with."""
    threads._pool.cache_clear()
    torch.set_num_threads(3)
    seen = []
    threads.each(lambda job: seen.append(torch.get_num_threads()), range(8), 2)
    other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert seen == [1] * 8 + [3]
    assert torch.get_num_threads() == 3


def test_what_a_worker_raises_reaches_the_caller():
    def work(job: int) -> None:
        if job == 1:
            raise ValueError("job 1")
        done.append(job)

    done: list[int] = []
    with pytest.raises(ValueError, match="job 1"):
        threads.each(work, range(3), 2)
    threads.each(done.append, [7], 2)
    assert 7 in done, "the threads live on"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own warning of fork, from 3.12
def test_a_forked_process_starts_threads_of_its_own(small_calls_too):
    want = everything()
    child = os.fork()
    if child == 0:
        same = all(torch.equal(a, b) for a, b in zip(everything(), want))
        os._exit(0 if same else 1)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the forked process waits for threads that it does not have")
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.filterwarnings("ignore:`torch.jit.trace`:DeprecationWarning")
def test_who_watches_the_operations_sees_them_all():
    torch.set_num_threads(2)
    assert threads.available() == 2
    with cases.Largest():
        assert threads.available() == 1
    seen = []

    def traced(x: Tensor) -> Tensor:
        seen.append(threads.available())
        return x + 1

    torch.jit.trace(traced, (torch.zeros(1),), check_trace=False)
    compiled = torch.compile(lambda x: x + threads.available(), backend="eager")
    assert seen == [1]
    assert compiled(torch.zeros(1)) == 1
    assert threads.available() == 2


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_torch_compile_leaves_it_as_it_is():
    torch.manual_seed(0)
    inputs = [torch.randn(1, 2, 20, 4, requires_grad=True) for _ in range(3)]
    table, values = (torch.randn(2, 9, 4, requires_grad=True) for _ in range(2))

    def run(q, k, v, table, values):
        terms = Terms(0.5, (Axis(table, high=8),), value_table=values)
        return cases.directly(chunked)(q, k, v, terms) * 2

    inputs += [table, values]
    outs = [f(*inputs) for f in (run, torch.compile(run, backend="aot_eager"))]
    assert torch.equal(*outs)
    grads = [torch.autograd.grad(out.square().sum(), inputs) for out in outs]
    assert all(torch.equal(a, b) for a, b in zip(*grads))


def test_which_calls_are_worth_threads():
    def shares(batch: int, heads: int, length: int, available: int, device: str = "cpu"):
        q = torch.empty(1, device=device).expand(batch, heads, length, 64)
        found = plan.Shares.of(q, length, available)
        assert [x for share in found.heads for x in range(heads)[share]] == list(range(heads))
        return found.threads, len(found.heads)

    assert shares(1, 8, 1024, 2) == (2, 4)
    assert shares(1, 8, 4096, 2) == (2, 8)
    assert shares(4, 8, 512, 2)[0] == 2
    assert shares(1, 8, 512, 2)[0] == 1, "too small"
    assert shares(1, 9, 4096, 2)[0] == 1, "one thread would wait for the other's last head"
    assert shares(1, 4, 4096, 16)[0] == 1, "more threads than heads"
    assert shares(1, 8, 4096, 1)[0] == 1
    assert shares(1, 8, 4096, 2, "meta") == (1, 1)
