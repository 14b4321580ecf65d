"""The chunked attention in low precision: errors within those of plain low precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.terms import Axis, Terms
from tests.attention import cases


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("strength", [1.0, 3.0])
def test_error_is_within_what_plain_low_precision_does(dtype, strength):
    """Against float64 of the same inputs; the budget is the textbook's own error, not a guess.

    In float32 sums of another order may be a few times off; in bfloat16 products and softmax in
    float32 must be clearly better than the textbook.
    """
    torch.manual_seed(0)
    shape = (1, 2, 300, 32)
    inputs = [(torch.randn(shape) * strength).to(dtype) for _ in range(3)]
    inputs.append((torch.randn(2, 300, 32) * 0.3).to(dtype))
    upstream = torch.randn(shape).to(dtype)
    names = ("q", "k", "v", "table")

    def run(function, dtype) -> dict[str, Tensor]:
        tensors = [x.to(dtype).requires_grad_() for x in inputs]
        out = function(*tensors)
        grads = torch.autograd.grad(out, tensors, upstream.to(dtype))
        return {"out": out.detach()} | dict(zip(names, grads))

    def ours(q, k, v, table):
        return cases.directly(chunked)(q, k, v, Terms(32**-0.5, (Axis(table, high=299),)))

    exact = run(cases.textbook, torch.float64)
    plain, got = run(cases.textbook, dtype), run(ours, dtype)
    for name, truth in exact.items():
        budget = float((plain[name].double() - truth).norm())
        error = float((got[name].double() - truth).norm())
        assert budget > 0
        assert error < budget * (3 if dtype == torch.float32 else 1), (name, error, budget)
        assert got[name].dtype == dtype


def test_autocast_gives_bfloat16_out_and_float32_gradients_of_the_table():
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 150, 150, 8, dtype=torch.float32)
    table = cases.learned(named, "table", 2, 60, 8, dtype=torch.float32)
    terms = Terms(0.3, (Axis(table, high=59),))
    with torch.autocast("cpu", torch.bfloat16):
        low = [x.to(torch.bfloat16) for x in (q, k, v)]
        got = cases.directly(chunked)(*low, terms)
        upstream = torch.randn_like(got)
        assert got.dtype == torch.bfloat16
        found = torch.autograd.grad(got, [*low, table], upstream)  # backward inside autocast
    assert [g.dtype for g in found] == [torch.bfloat16] * 3 + [torch.float32]
    exact = [x.detach().double().requires_grad_() for x in (*low, table)]
    terms = Terms(0.3, (Axis(exact[3], high=59),))
    want = cases.dense(*exact[:3], terms)
    wanted = torch.autograd.grad(want, exact, upstream.double())
    for a, b in zip((got, *found[:3]), (want, *wanted[:3])):
        torch.testing.assert_close(a.double(), b, rtol=2**-7, atol=1e-5)
    torch.testing.assert_close(found[3].double(), wanted[3], rtol=1e-4, atol=1e-4)
