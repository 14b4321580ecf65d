"""The compiled operator: dropout, memory layouts, threads, and what torch must know of it."""

from __future__ import annotations

import ctypes
import math

import pytest
import torch
from torch import Tensor

from musictx.attention import attend, native
from musictx.attention.native import library, op
from musictx.attention.terms import Axis, Blocks, Span, Terms
from tests.attention import cases
from tests.attention.native_cases import both, everything, tensors

pytestmark = pytest.mark.usefixtures("one_cache")


def test_the_same_bits_in_every_run_with_any_number_of_threads(kernel):
    def run(threads: int) -> list[Tensor]:
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        named = tensors(3, 2, 300, 300, 16)
        table = cases.learned(named, "table", 2, 50, 16, dtype=torch.float32)
        terms = Terms(0.3, (Axis(table, high=49),))
        out = cases.directly(native)(*(named[n] for n in "qkv"), terms, dropout=0.2)
        return [out, *cases.gradients(out, named, torch.randn_like(out)).values()]

    before = torch.get_num_threads()
    try:
        first = run(1)
        for threads in (1, 2, 2, 3):
            assert all(torch.equal(a, b) for a, b in zip(first, run(threads)))
    finally:
        torch.set_num_threads(before)


def test_a_nan_is_never_hidden(kernel):
    """Training stops at a loss that is not a number only if it comes to be one."""
    torch.manual_seed(0)
    for name in "qkv":
        named = tensors(1, 1, 20, 20, 4)
        with torch.no_grad():
            named[name][0, 0, 10, 1] = float("nan")
        out = cases.directly(native)(*(named[n] for n in "qkv"), Terms(0.5))
        wrong = torch.isnan(out[0, 0]).all(-1) | torch.isnan(out[0, 0, :, 1])
        assert wrong[10]
        if name != "v":  # later values meet weights of 0, and 0 times NaN is NaN
            assert not wrong[:10].any()
        if name != "q":
            assert wrong[10:].all()


def test_logits_far_apart_neither_overflow_nor_leave_dust(kernel):
    q = torch.full((1, 1, 3, 4), 100.0)
    k = torch.tensor([-100.0, 100.0, 0.0])[None, None, :, None].expand(1, 1, 3, 4)
    v = torch.eye(4)[None, None, :3]
    out = cases.directly(native)(q, k, v, Terms(1.0))[0, 0]
    assert torch.equal(out, v[0, 0, [0, 1, 1]])


@pytest.mark.parametrize("kind", ["transposed", "expanded", "sliced"])
def test_any_memory_layout_of_inputs_and_upstream(kernel, kind):
    torch.manual_seed(0)
    named = {n: torch.randn(2, 20, 3, 4).transpose(1, 2).requires_grad_() for n in "qkv"}
    named["table"] = torch.randn(3, 4, 9).transpose(1, 2).requires_grad_()
    assert not named["q"].is_contiguous()
    upstream = {
        "transposed": torch.randn(2, 20, 3, 4).transpose(1, 2),
        "expanded": torch.randn(4).expand(2, 3, 20, 4),  # stride 0
        "sliced": torch.randn(2, 3, 40, 8)[:, :, ::2, 1:5],
    }[kind]
    terms = Terms(0.5, (Axis(named["table"], high=8),))
    got = cases.directly(native)(*(named[n] for n in "qkv"), terms)
    want = cases.dense(*(named[n] for n in "qkv"), terms)
    assert max(cases.differences(got, want, named, upstream).values()) < 1e-5


def test_dropout_is_one_mask_forward_and_backward_however_the_work_is_cut(kernel, monkeypatch):
    """With v = 1 for one key at a time the output is the weights: so the mask shows, and with it
    the formula gives all gradients."""
    torch.manual_seed(0)
    length, share = 96, 0.3
    named = tensors(4, 2, length, length, length)
    cases.learned(named, "table", 2, 30, length, dtype=torch.float32)
    eye = torch.eye(length).expand(4, 2, -1, -1)

    def dropped(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        torch.manual_seed(5)
        return cases.directly(native)(q, k, v, both(table=table * 0.1), dropout=share)

    q, k, _, table = (x.detach() for x in named.values())
    shown = dropped(q, k, eye, table)
    mask = shown != 0
    monkeypatch.setattr(op, "BLOCK", 7)
    monkeypatch.setattr(op, "RUN", 20)
    assert torch.equal(dropped(q, k, eye, table) != 0, mask)

    seen = torch.ones(length, length).tril().bool()
    count = 8 * int(seen.sum())
    observed = 1 - int(mask.sum()) / count
    assert abs(observed - share) < 5 * math.sqrt(share * (1 - share) / count)
    assert not torch.equal(mask[0], mask[1]), "batch rows drop different weights"
    assert not torch.equal(mask[:, 0], mask[:, 1]), "heads drop different weights"
    halves = mask[:, :, 48:64, :48], mask[:, :, 64:80, :48]
    assert not torch.equal(*halves), "and so do queries"
    torch.manual_seed(6)
    again = cases.directly(native)(q, k, eye, both(table=table * 0.1), dropout=share)
    assert not torch.equal(again != 0, mask), "another seed drops others"

    def formula(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        weights = cases.weights(q, k, both(table=table * 0.1))
        return (weights * mask / (1 - share)) @ v

    upstream = torch.randn(4, 2, length, length)
    exact = everything(formula, named, upstream, torch.float64)
    got = everything(dropped, named, upstream, torch.float32)
    for name, truth in exact.items():
        error = float((got[name] - truth).norm() / truth.norm())
        assert error < 1e-5, (name, error)


def test_dropout_keeps_the_mean(kernel):
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, 1, 6, 4) for _ in range(3))
    got = cases.directly(native)(
        *(torch.cat([x] * 4000) for x in (q, k, v)), Terms(0.5), dropout=0.3
    )
    exact = cases.dense(q, k, v, Terms(0.5))
    standard_error = got.std(0) / math.sqrt(4000)
    assert ((got.mean(0) - exact[0]).abs() < 5 * standard_error + 1e-6).all()


def test_dropout_without_gradient_is_the_same(kernel):
    q, k, v = (torch.randn(1, 2, 40, 8, requires_grad=True) for _ in range(3))
    torch.manual_seed(1)
    with torch.no_grad():
        quiet = cases.directly(native)(q, k, v, Terms(0.5), dropout=0.4)
    torch.manual_seed(1)
    assert torch.equal(cases.directly(native)(q, k, v, Terms(0.5), dropout=0.4), quiet)


def test_no_tokens_at_all(kernel):
    q = torch.zeros(2, 2, 0, 4, requires_grad=True)
    out = cases.directly(native)(q, q, q, cases.huang({}, 2, 4))
    assert out.shape == (2, 2, 0, 4)
    out.sum().backward()
    assert q.grad is not None


def test_torch_knows_shapes_and_gradients_of_the_operator(kernel):
    """What compilation and export go by."""
    q, k, v = (torch.randn(2, 2, 9, 4, requires_grad=True) for _ in range(3))
    table, bias = torch.randn(1, 9, 4, requires_grad=True), torch.randn(2, 9, requires_grad=True)
    pieces = torch.zeros(2, 9, dtype=torch.long)
    for args in (
        (q, k, v, table, bias, pieces, pieces, 0.5, 0.1, 3),
        (q, k, v, None, None, None, None, 0.5, 0.0, 0),
    ):
        torch.library.opcheck(
            op.attention,
            args,
            test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
        )
        log_sum = torch.zeros(2, 2, 9)
        torch.library.opcheck(
            op.attention_backward,
            (torch.randn(q.shape), torch.zeros(q.shape), log_sum, *args),
            test_utils=("test_schema", "test_faketensor"),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_it_compiles_without_a_break_in_the_graph(kernel, dtype):
    torch.manual_seed(0)
    named = tensors(1, 2, 20, 20, 4, dtype)
    table = cases.learned(named, "table", 2, 9, 4, dtype=torch.float32)

    def run(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        return cases.directly(native)(q, k, v, Terms(0.5, (Axis(table, high=8),))) * 2

    inputs = [*(named[n] for n in "qkv"), table]
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    upstream = torch.randn(named["q"].shape).to(dtype)
    outs = [f(*inputs) for f in (run, compiled)]
    assert torch.equal(*outs)
    grads = [torch.autograd.grad(out, inputs, upstream) for out in outs]
    assert all(torch.equal(a, b) for a, b in zip(*grads))


def test_torchs_own_threads_are_left_as_they_were(kernel):
    address = library.products().set_threads
    if address is None:
        pytest.skip("torch's products come from another library than MKL")
    set_threads = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)
    before = set_threads(2)
    q = torch.randn(1, 2, 300, 8)
    cases.directly(native)(q, q, q, Terms(0.5))
    assert set_threads(before) == 2


def test_what_it_cannot_do_has_a_reason():
    terms, span = Terms(0.5), Span(0, 4)
    assert cases.why_not(native, terms, span, span, True) is None
    assert cases.why_not(native, terms, Span(7, 2), Span(3, 6), True, torch.zeros(1)) is None
    assert "causal" in (cases.why_not(native, terms, span, span, False) or "")
    assert "last of the keys" in (cases.why_not(native, terms, Span(0, 2), span, True) or "")
    assert "last of the keys" in (cases.why_not(native, terms, Span(0, 6), Span(2, 4), True) or "")
    assert "Span" in (cases.why_not(native, terms, torch.arange(4), span, True) or "")
    for name in ("transformer_xl", "two_axes", "shaw"):
        assert cases.why_not(native, cases.FAMILY[name]({}, 2, 4), span, span, True)
    double = torch.zeros(1, dtype=torch.float64)
    assert "not torch.float64" in (cases.why_not(native, terms, span, span, True, double) or "")
    assert "not on meta" in (
        cases.why_not(native, terms, span, span, True, double.to("meta")) or ""
    )
    with pytest.raises(ValueError, match=r"implementation=native: .* not torch.float64"):
        attend(*[torch.zeros(1, 1, 4, 4).double()] * 3, terms, implementation="native")
    pitch = Terms(0.5, (Axis(torch.zeros(1, 1, 4), coordinate=1),))
    assert "further" in (cases.why_not(native, pitch, (span, span), (span, span), True) or "")
    local = Terms(0.5, blocks=Blocks(3))
    assert "blocks" in (cases.why_not(native, local, span, span, True) or "")


def test_loading_leaves_tiny_numbers_alone(kernel):
    """Linked with -ffast-math, a library makes the whole process round them to zero."""
    assert float(torch.tensor(1e-40) * 0.5) > 0
