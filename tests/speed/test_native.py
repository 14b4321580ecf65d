"""The compiled operator: panels, threads and NaN. test_conformance.py compares its results with the
specification."""

import ctypes
import os
import signal

import pytest
import torch

from musictx.attention.terms import Terms
from musictx.speed import native
from musictx.speed.native import library
from tests import compiler
from tests.attention import cases
from tests.attention.cases import excess, table_job

pytestmark = compiler.needed


def test_several_panels_of_the_usual_size():
    torch.manual_seed(0)
    shares = excess("native", table_job(200, 2 * native.PANEL + 50, 1500, rows=1))
    assert max(shares.values()) < 1, shares


def test_a_forked_process_has_threads_of_its_own():
    """A child process has none of its parent's threads and must not wait for them."""
    torch.manual_seed(0)
    q = torch.randn(2, 2, 60, 8)
    problem = native._problem(q, q, q, None, None, None, None, None, 0.3, 0.0)
    out, log_sum = torch.empty(q.shape), torch.empty(q.shape[:3])
    problem.point(out=out, log_sum=log_sum)
    problem.threads = 2
    kernel = library.load()
    kernel.run(problem, backward=False)
    child = os.fork()
    if not child:
        signal.alarm(20)
        kernel.run(problem, backward=False)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_nan_is_never_hidden():
    """Training can stop at a NaN only if it reaches the loss."""
    torch.manual_seed(0)
    for name in "qkv":
        named = {n: torch.randn(1, 1, 20, 4) for n in "qkv"}
        named[name][0, 0, 10, 1] = float("nan")
        out = cases.directly(native)(*(named[n] for n in "qkv"), Terms(0.5))
        wrong = torch.isnan(out[0, 0]).all(-1) | torch.isnan(out[0, 0, :, 1])
        assert wrong[10]
        if name != "v":  # later values have weight 0, and 0 times NaN is NaN
            assert not wrong[:10].any()
        if name != "q":
            assert wrong[10:].all()


def test_extreme_logits_give_weights_of_exactly_0_and_1():
    q = torch.full((1, 1, 3, 4), 100.0)
    k = torch.tensor([-100.0, 100.0, 0.0])[None, None, :, None].expand(1, 1, 3, 4)
    v = torch.eye(4)[None, None, :3]
    out = cases.directly(native)(q, k, v, Terms(1.0))[0, 0]
    assert torch.equal(out, v[0, 0, [0, 1, 1]])


def test_the_thread_count_of_torch_is_restored():
    address = library.products().set_threads
    if address is None:
        pytest.skip("torch exports no function that sets the number of threads")
    set_threads = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)
    previous = set_threads(2)
    q = torch.randn(1, 2, 300, 8)
    cases.directly(native)(q, q, q, Terms(0.5))
    assert set_threads(previous) == 2


def test_loading_does_not_flush_subnormal_numbers_to_zero():
    """A library that is linked with -ffast-math makes the whole process do that."""
    assert float(torch.tensor(1e-40) * 0.5) > 0
