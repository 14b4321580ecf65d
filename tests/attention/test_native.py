"""The compiled operator against the specification, in value and gradient."""

from __future__ import annotations

import ctypes
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.attention import attend, native, reference
from musictx.attention.native import build, library, op
from musictx.attention.terms import Axis, Blocks, Span, Terms
from musictx.errors import UserError
from tests.attention import cases


@pytest.fixture(scope="module", autouse=True)
def one_cache(tmp_path_factory):
    """Nothing is built in the user's own cache; what is built serves all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSICTX_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(library, "_outcome", None)
        yield


@pytest.fixture(scope="module")
def kernel(one_cache) -> library.Library:
    try:
        build.compiler()
    except UserError as error:
        pytest.skip(str(error))
    return library.load()


def causal(queries: int, keys: int) -> dict[str, Span]:
    """The queries are the last of the keys."""
    return {"query_positions": Span(keys - queries, queries), "key_positions": Span(0, keys)}


def packed(key_pieces: Tensor, queries: int) -> dict[str, Tensor]:
    return {
        "key_pieces": key_pieces,
        "query_pieces": key_pieces[:, key_pieces.shape[1] - queries :],
    }


def runs(rows: int, length: int) -> Tensor:
    """Pieces packed in rows: runs of equal ids, differing from row to row."""
    begins = torch.rand(rows, length) < 3 / length
    return begins.long().cumsum(1) if length > 8 else torch.zeros(rows, length, dtype=torch.long)


def tensors(
    rows: int, heads: int, queries: int, keys: int, size: int, dtype: torch.dtype = torch.float32
) -> cases.Named:
    named: cases.Named = {}
    cases.qkv(named, rows, heads, queries, keys, size, dtype=dtype)
    return named


def everything(function, named: cases.Named, upstream: Tensor, dtype: torch.dtype) -> cases.Named:
    """Output and all gradients of ``function(**named)``, computed in ``dtype``."""
    inputs = {name: x.detach().to(dtype).requires_grad_() for name, x in named.items()}
    out = function(**inputs)
    wanted = list(inputs.values())
    found = torch.autograd.grad(out, wanted, upstream.to(out.dtype), allow_unused=True)
    zeros = (torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found))
    return {"out": out.detach()} | dict(zip(named, zeros))


def excess(named: cases.Named, make_terms, **pieces: Tensor) -> dict[str, float]:
    """Error of the operator in float32 as a share of what float32 may cost: must be below 1.

    The truth is the reference in float64; the budget is four times the error that the reference
    makes in float32, and rounding at the size of the largest number: for tables, whose gradients
    add up parts that may cancel, of every part.
    """
    rows, heads, queries, _ = named["q"].shape
    keys = named["k"].shape[2]
    upstream = torch.randn(named["q"].shape)

    def ours(q: Tensor, k: Tensor, v: Tensor, **own: Tensor) -> Tensor:
        return cases.directly(native)(q, k, v, make_terms(**own), **pieces)

    def theirs(q: Tensor, k: Tensor, v: Tensor, **own: Tensor) -> Tensor:
        return reference.attend(q, k, v, make_terms(**own), **causal(queries, keys), **pieces)

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


def both(**own: Tensor) -> Terms:
    tables = [x for x in (own.get("table"), own.get("bias")) if x is not None]
    axis = Axis(own.get("table"), own.get("bias"), high=tables[0].shape[1] - 1)
    return Terms(0.4, (axis,))


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

    def textbook(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        delta = torch.arange(300)[:, None] - torch.arange(300)
        relative = (q @ table.transpose(-1, -2)).gather(-1, delta.clamp(0).expand(1, 2, 300, 300))
        logits = (q @ k.transpose(-1, -2) + relative) * 32**-0.5
        return logits.masked_fill(delta < 0, float("-inf")).softmax(-1) @ v

    exact = everything(textbook, low, upstream, torch.float64)
    plain = everything(textbook, low, upstream, torch.bfloat16)
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
    want = reference.attend(q, k, v, Terms(0.3), **causal(50, 50))
    torch.testing.assert_close(got, want, rtol=2**-10, atol=1e-4)


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
    want = reference.attend(*(named[n] for n in "qkv"), terms, **causal(20, 20))
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
        weights = reference.attention_weights(
            q, k, both(table=table * 0.1), **causal(length, length)
        )
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
    exact = reference.attend(q, k, v, Terms(0.5), **causal(6, 6))
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
