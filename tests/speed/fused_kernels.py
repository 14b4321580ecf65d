"""Further tests of the Triton kernels in the interpreter; test_fused.py runs them.

The interpreter must be chosen before Triton is imported, so they need a process of their own:

    TRITON_INTERPRET=1 python -m pytest tests/speed/fused_kernels.py
"""

import pytest
import torch

from musictx.attention.terms import Axis, Span, Terms
from musictx.speed import fused
from musictx.speed.fused import problem
from musictx.speed.fused.problem import Tile, Tiles
from tests.attention import cases
from tests.attention.cases import computed, excess, table_job
from tests.speed import interpreter

assert interpreter.INTERPRETED, __doc__
SIZE = 16


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter.set_tiles(monkeypatch, 16)
    torch.manual_seed(0)


def test_float16_stays_within_its_rounding_with_tiles_of_different_sizes(monkeypatch) -> None:
    small, large = Tile(16, 4, 1), Tile(32, 4, 1)
    monkeypatch.setattr(problem, "choose_tiles", lambda *_: Tiles(small, large, small))
    shares = excess("fused", table_job(40, 40, 9, SIZE, rows=1), torch.float16)
    assert max(shares.values()) < 1, shares


def test_autocast_keeps_a_float32_master_of_the_table() -> None:
    q, k, v = (torch.randn(1, 2, 9, SIZE).half().requires_grad_() for _ in range(3))
    table = torch.randn(2, 9, SIZE, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        out = computed("fused")(q, k, v, Terms(0.25, (Axis(table, high=8),)))
    assert out.dtype == torch.float16
    grads = torch.autograd.grad(out.float().sum(), (q, k, v, table))
    assert [g.dtype for g in grads] == [torch.float16] * 3 + [torch.float32]


def test_the_output_has_the_strides_of_the_queries() -> None:
    q, k, v = (torch.randn(1, 5, 1, SIZE).transpose(1, 2) for _ in range(3))
    out = cases.directly(fused)(q, k, v, Terms(0.25), query_positions=Span(0, 5))
    assert out.stride() == q.stride()
