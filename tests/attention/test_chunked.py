"""The attention by blocks: gradcheck, comparisons that can fail, heads in groups.

That it computes what the specification says: test_conformance.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.chunked import plan
from musictx.attention.terms import Axis, Blocks, Span, Terms
from tests.attention import cases


def errors() -> dict[str, float]:
    """Of output and every gradient, against the specification."""
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 20, 20, 4)
    terms = cases.huang(named, 2, 4)
    got = cases.directly(chunked)(q, k, v, terms)
    return cases.differences(got, cases.dense(q, k, v, terms), named, torch.randn_like(got))


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_gradients_of_everything_pass_gradcheck(causal, small_blocks):
    torch.manual_seed(0)
    named: cases.Named = {}
    cases.qkv(named, 1, 1, 9, 10, 2)
    cases.everything(named, 1, 2)
    where = {"query_positions": Span(2, 9), "key_positions": Span(0, 10), "causal": causal}

    def run(*tensors: Tensor) -> Tensor:
        q, k, v, table, bias, u, v_bias, values = tensors
        axis = Axis(table, bias, low=-2, high=2)
        return cases.directly(chunked)(
            q, k, v, Terms(0.7, (axis,), u, v_bias, values, Blocks(4)), **where
        )

    assert torch.autograd.gradcheck(run, tuple(named.values()))


def test_a_broken_skew_is_noticed(small_blocks, monkeypatch):
    """The comparison fails for a table that is one distance off, and without the mask over the
    summed logits: cells of the next row would be read."""
    assert max(errors().values()) < 1e-12
    descending, begin = Axis.descending, plan.Plan.__init__
    with monkeypatch.context() as patch:
        patch.setattr(Axis, "descending", lambda *a: descending(*a).roll(1, dims=1))
        assert min(errors().values()) > 1e-3

    def unmasked(self, *args):
        begin(self, *args)
        self.later = torch.zeros_like(self.later)

    monkeypatch.setattr(plan.Plan, "__init__", unmasked)
    assert min(errors().values()) > 1e-3


@pytest.mark.parametrize("shared", [False, True])
def test_heads_taken_in_groups_change_nothing(monkeypatch, shared):
    """Four heads, two at a time, against all at once: output and every gradient."""
    generator = torch.Generator().manual_seed(5)
    q, k, v, up = torch.randn(4, 2, 4, 21, 6, generator=generator, dtype=torch.float64)
    table = torch.randn(1 if shared else 4, 9, 6, generator=generator, dtype=torch.float64)
    found = {}
    for several in (4, 2, 1):
        monkeypatch.setattr(plan, "heads_at_once", lambda q, keys, n=several: n)
        leaves = [x.clone().requires_grad_() for x in (q, k, v, table)]
        out = cases.directly(chunked)(*leaves[:3], Terms(0.4, (Axis(table=leaves[3], high=8),)))
        found[several] = [out, *torch.autograd.grad(out, leaves, up)]
    for several in (2, 1):
        for name, got, wanted in zip(("out", "q", "k", "v", "table"), found[several], found[4]):
            assert wanted.abs().max() > 0
            torch.testing.assert_close(got, wanted, msg=f"{several} heads at a time: {name}")


def test_groups_of_heads_drop_different_weights(monkeypatch):
    """Equal heads must not become equal noise: each group draws its own."""
    monkeypatch.setattr(plan, "heads_at_once", lambda q, keys: 1)
    one = torch.randn(1, 1, 40, 6, generator=torch.Generator().manual_seed(1))
    same = one.expand(1, 2, 40, 6)
    first, second = cases.directly(chunked)(same, same, same, Terms(0.4), dropout=0.5)[0]
    assert not torch.allclose(first, second)


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
