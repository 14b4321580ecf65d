"""The compiled operator against the specification, in value and gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attention.native_cases import both, everything, tensors
from torch import Tensor

from musictx.attention import native
from musictx.attention.native import build, library, op
from musictx.attention.terms import Axis, Terms
from tests.attention import cases

pytestmark = pytest.mark.usefixtures("one_cache")


def packed(key_pieces: Tensor, queries: int) -> dict[str, Tensor]:
    return {
        "key_pieces": key_pieces,
        "query_pieces": key_pieces[:, key_pieces.shape[1] - queries :],
    }


def runs(rows: int, length: int) -> Tensor:
    """Pieces packed in rows: runs of equal ids, differing from row to row."""
    begins = torch.rand(rows, length) < 3 / length
    return begins.long().cumsum(1) if length > 8 else torch.zeros(rows, length, dtype=torch.long)


def excess(named: cases.Named, make_terms, **pieces: Tensor) -> dict[str, float]:
    """Error of the operator in float32 as a share of what float32 may cost: must be below 1.

    The truth is the reference in float64; the budget is four times the error that the reference
    makes in float32, and rounding at the size of the largest number: for tables, whose gradients
    add up parts that may cancel, of every part.
    """
    rows, heads, queries, _ = named["q"].shape
    upstream = torch.randn(named["q"].shape)

    def ours(q: Tensor, k: Tensor, v: Tensor, **own: Tensor) -> Tensor:
        return cases.directly(native)(q, k, v, make_terms(**own), **pieces)

    def theirs(q: Tensor, k: Tensor, v: Tensor, **own: Tensor) -> Tensor:
        return cases.dense(q, k, v, make_terms(**own), **pieces)

    exact = everything(theirs, named, upstream, torch.float64)
    plain = everything(theirs, named, upstream, torch.float32)
    got = everything(ours, named, upstream, torch.float32)
    scale = max(float(x.abs().max()) for x in exact.values())
    shares = {}
    for name, truth in exact.items():
        assert got[name].shape == truth.shape
        budget = 4 * float((plain[name] - truth).norm())
        parts = rows * heads * queries if name in ("table", "bias") else 1
        budget += 4 * 2**-24 * scale * math.sqrt(truth.numel() * parts)
        error = float((got[name] - truth).norm())
        shares[name] = error / budget if math.isfinite(error) else math.inf
    return shares


@pytest.mark.parametrize("is_packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("distances", [1, 40, 1000], ids="table of {}".format)
@pytest.mark.parametrize(
    ("queries", "keys"),
    [(1, 1), (2, 2), (127, 127), (128, 128), (129, 129), (300, 300), (5, 260), (140, 260)],
)
def test_native_equals_reference_around_the_block_size(kernel, queries, keys, distances, is_packed):
    torch.manual_seed(queries + keys)
    named = tensors(2, 2, queries, keys, 8)
    own = named if distances > 1 else {}  # softmax ignores what is equal for all distances
    table = cases.learned(own, "table", 2, distances, 8, dtype=torch.float32)
    bias = cases.learned(own, "bias", 2, distances, dtype=torch.float32)

    def terms(table: Tensor = table, bias: Tensor = bias) -> Terms:
        return Terms(0.4, (Axis(table.to(bias.dtype), bias, high=distances - 1),))

    pieces = packed(runs(2, keys), queries) if is_packed else {}
    shares = excess(named, terms, **pieces)
    assert max(shares.values()) < 1, shares


def test_several_panels_of_the_usual_size(kernel):
    torch.manual_seed(0)
    named = tensors(1, 2, 200, 2 * op.RUN + 50, 8)
    cases.learned(named, "table", 2, 1500, 8, dtype=torch.float32)
    shares = excess(named, both)
    assert max(shares.values()) < 1, shares


@pytest.mark.parametrize("scheme", ["table", "shared table", "bias", "plain"])
def test_every_kind_of_term_alone(kernel, scheme):
    torch.manual_seed(0)
    named = tensors(3, 2, 150, 170, 16)
    if "table" in scheme:
        heads = 1 if "shared" in scheme else 2
        cases.learned(named, "table", heads, 90, 16, dtype=torch.float32)
    if scheme == "bias":
        cases.learned(named, "bias", 1, 90, dtype=torch.float32)
    shares = excess(named, (lambda: Terms(0.3)) if scheme == "plain" else both)
    assert max(shares.values()) < 1, shares


@settings(max_examples=60)
@given(data=st.data())
def test_native_equals_reference_whatever_the_shape(kernel, data):
    """Lengths, tables (also two-sided or beginning above 0), sharing, blocks, any piece ids."""
    draw = data.draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(op, "BLOCK", draw(st.integers(1, 9), "block"))
        patch.setattr(op, "RUN", draw(st.sampled_from([1, 1024]), "run"))
        keys = draw(st.integers(1, 30), "keys")
        queries = draw(st.integers(1, keys), "queries")
        rows = draw(st.integers(1, 3), "rows")
        low, distances = draw(st.integers(-3, 3), "low"), draw(st.integers(1, 40), "distances")
        heads = draw(st.sampled_from([1, 3]), "heads of the table")
        use = draw(st.sampled_from(["table", "bias", "both"]))
        torch.manual_seed(draw(st.integers(0, 99)))
        named = tensors(rows, 3, queries, keys, 5)
        if use != "bias":
            cases.learned(named, "table", heads, distances, 5, dtype=torch.float32)
        if use != "table":
            cases.learned(named, "bias", heads, distances, dtype=torch.float32)

        def terms(table: Tensor | None = None, bias: Tensor | None = None) -> Terms:
            return Terms(0.6, (Axis(table, bias, low=low, high=low + distances - 1),))

        ids = torch.randint(-(2**40), 2**40, (3,))[torch.randint(3, (rows, keys))]
        pieces = packed(ids, queries) if draw(st.booleans(), "packed") else {}
        shares = excess(named, terms, **pieces)
        assert max(shares.values()) < 1, shares


BREAKS = {
    "skew off by one": ("float* s = buffer + (m - 1);", "float* s = buffer + m;"),
    "what no logit was read from": ("std::fill(flat, flat + (m - 1), Number(0));", ""),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_skew_is_noticed(kernel, broken, monkeypatch, tmp_path):
    """The comparison of these tests fails for a kernel with one line of the skew wrong."""
    source = tmp_path / "kernel.cpp"
    right, wrong = BREAKS[broken]
    texts = {path.name: path.read_text() for path in library.SOURCE.parent.glob("*.[ch]*")}
    assert sum(text.count(right) for text in texts.values()) == 1
    monkeypatch.setattr(build, "FLAGS", [f.replace("-O3", "-O0") for f in build.FLAGS])  # quick
    for name, text in texts.items():
        (tmp_path / name).write_text(text.replace(right, wrong))
    monkeypatch.setattr(
        library, "_outcome", library.Library(build.built(source), library.products())
    )
    torch.manual_seed(0)
    named = tensors(1, 2, 200, 200, 8)
    cases.learned(named, "table", 2, 200, 8, dtype=torch.float32)
    shares = excess(named, both)
    assert shares["table"] > 100, shares


@pytest.mark.parametrize("strength", [1.0, 3.0])
@pytest.mark.parametrize("instructions", [True, False], ids=["bf16", "converted"])
def test_error_in_bfloat16_is_within_what_plain_bfloat16_does(
    kernel, strength, instructions, monkeypatch
):
    """Against float64 of the same inputs; the budget is the textbook's own error, not a guess."""
    monkeypatch.setattr(kernel, "bf16", kernel.bf16 and instructions)
    torch.manual_seed(0)
    named = tensors(1, 2, 300, 300, 32)
    cases.learned(named, "table", 2, 300, 32, dtype=torch.float32)
    low = {name: (x * strength).to(torch.bfloat16) for name, x in named.items()}
    low["table"] = (named["table"] * 0.3).to(torch.bfloat16)
    upstream = torch.randn(1, 2, 300, 32).to(torch.bfloat16)

    def ours(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        return cases.directly(native)(q, k, v, Terms(32**-0.5, (Axis(table, high=299),)))

    exact = everything(cases.textbook, low, upstream, torch.float64)
    plain = everything(cases.textbook, low, upstream, torch.bfloat16)
    got = everything(ours, low, upstream, torch.bfloat16)
    for name, truth in exact.items():
        budget = float((plain[name].double() - truth).norm())
        error = float((got[name].double() - truth).norm())
        assert 0 < error < budget, (name, error, budget)
        assert got[name].dtype == torch.bfloat16


def test_autocast_gives_bfloat16_out_and_float32_gradients_of_the_table(kernel):
    torch.manual_seed(0)
    named = tensors(1, 2, 150, 150, 8)
    table = cases.learned(named, "table", 2, 60, 8, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        low = [named[n].detach().to(torch.bfloat16).requires_grad_() for n in "qkv"]
        got = cases.directly(native)(*low, Terms(0.3, (Axis(table, high=59),)))
        assert got.dtype == torch.bfloat16
        found = torch.autograd.grad(got.float().square().sum(), [*low, table])
    assert [g.dtype for g in found] == [torch.bfloat16] * 3 + [torch.float32]
    assert all(g.abs().max() > 0 for g in found)


def test_half_precision_is_computed_in_float32(kernel):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 50, 8).half() for _ in range(3))
    with torch.no_grad():
        got = cases.directly(native)(q, k, v, Terms(0.3))
    assert got.dtype == torch.float16
    want = cases.dense(q, k, v, Terms(0.3))
    torch.testing.assert_close(got, want, rtol=2**-10, atol=1e-4)


def test_nothing_leaks_from_the_future_or_from_other_pieces(kernel):
    torch.manual_seed(0)
    named = tensors(1, 2, 300, 300, 4)
    terms = cases.huang({}, 2, 4)
    pieces = packed(torch.tensor([[0] * 110 + [1] * 190]), 300)
    q, k, v = (named[n] for n in "qkv")
    out = cases.directly(native)(q, k, v, terms, **pieces)
    for i in (0, 109, 110, 127, 128, 299):
        _, dk, dv = torch.autograd.grad(out[:, :, i].sum(), (q, k, v), retain_graph=True)
        first = 0 if i < 110 else 110
        for gradient in (dk, dv):
            assert (gradient[:, :, :first] == 0).all()
            assert (gradient[:, :, i + 1 :] == 0).all()
        assert (dv[:, :, first : i + 1] != 0).all()


def test_a_query_that_sees_no_key_gives_zeros_and_the_right_gradients(kernel):
    torch.manual_seed(0)
    named = tensors(2, 2, 200, 200, 4)
    cases.learned(named, "table", 2, 7, 4, dtype=torch.float32)
    pieces = {"key_pieces": torch.zeros(2, 200).long(), "query_pieces": torch.zeros(2, 200).long()}
    pieces["query_pieces"][0, 3] = pieces["query_pieces"][1, 8:] = 7  # one, and a whole block
    terms = both(table=named["table"])
    got = cases.directly(native)(*(named[n] for n in "qkv"), terms, **pieces)
    assert (got[0, :, 3] == 0).all()
    assert (got[1, :, 8:] == 0).all()
    shares = excess(named, both, **pieces)
    assert max(shares.values()) < 1, shares
