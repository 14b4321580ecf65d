"""Blocks and the skew by two row lengths against the specification, in value and gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.attention import chunked
from musictx.attention.chunked import plan
from musictx.attention.terms import Axis, Blocks, Span, Terms
from tests.attention import cases
from tests.attention.chunked_cases import causal
from tests.oracles import attention as loops


def runs(rows: int, length: int, seed: int) -> Tensor:
    """Pieces packed in rows: runs of equal ids, differing from row to row."""
    generator = torch.Generator().manual_seed(seed)
    begins = torch.rand(rows, length, generator=generator) < 3 / length
    return begins.long().cumsum(1) if length > 8 else torch.zeros(rows, length, dtype=torch.long)


def both(
    named: cases.Named,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Terms,
    pieces: Tensor | None = None,
) -> dict[str, float]:
    """Errors of chunked against the reference: output and every gradient."""
    queries, keys = q.shape[2], k.shape[2]
    packed = {}
    if pieces is not None:
        packed = {"key_pieces": pieces, "query_pieces": pieces[:, keys - queries :]}
    got = cases.directly(chunked)(q, k, v, terms, **packed)
    want = cases.dense(q, k, v, terms, **packed)
    alone = keys == 1  # a single key has weight 1: no gradient reaches the logits
    silent = ("q", "k", "table", "bias") if alone else ()
    return cases.differences(got, want, named, torch.randn_like(got), silent=silent)


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("mode", ["causal", "full", "cross"])
@pytest.mark.parametrize("scheme", [name for name in cases.FAMILY if name != "two_axes"])
def test_chunked_equals_loops(scheme, mode, packed, small_blocks):
    """11 queries of 13 keys in blocks of 8, tables of 4: every edge at once, from the formula."""
    torch.manual_seed(0)
    where = causal(11, 13)
    if mode == "cross":
        where = {"query_positions": Span(-3, 11), "key_positions": Span(0, 13)}
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, 11, 13, 4)
    terms = cases.FAMILY[scheme](named, 2, 4)
    pieces = {}
    if packed:
        key_pieces = torch.tensor([[0] * 4 + [1] * 8 + [2], [5] * 11 + [6] * 2])
        pieces = {"key_pieces": key_pieces, "query_pieces": key_pieces[:, 2:]}
    options = where | pieces | {"causal": mode == "causal"}
    got = cases.directly(chunked)(q, k, v, terms, **options)
    want = loops.attend(q, k, v, terms, **options)
    errors = cases.differences(got, want, named, torch.randn_like(got))
    assert max(errors.values()) < 1e-12, errors


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("distances", [1, 40, 1000], ids="table of {}".format)
@pytest.mark.parametrize(
    ("queries", "keys"),
    [(1, 1), (2, 2), (127, 127), (128, 128), (129, 129), (300, 300), (5, 260), (140, 260)],
)
def test_chunked_equals_reference_around_the_block_size(queries, keys, distances, packed):
    torch.manual_seed(queries + keys)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, queries, keys, 4)
    table = cases.learned(named, "table", 2, distances, 4)
    bias = cases.learned(named, "bias", 2, distances)
    terms = Terms(0.5, (Axis(table, bias, high=distances - 1),))
    silent = distances == 1  # one vector and number for all distances: softmax ignores it
    if silent:
        del named["table"], named["bias"]
    errors = both(named, q, k, v, terms, runs(2, keys, 1) if packed else None)
    assert max(errors.values()) < 1e-11, errors


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_chunked_equals_reference_whatever_the_shape(data):
    """Lengths, tables (also two-sided or beginning above 0), sharing, batch groups, pieces."""
    draw = data.draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "BLOCK", draw(st.integers(1, 9), "block"))
        patch.setattr(plan, "BUDGET", draw(st.sampled_from([1, 10**3, 10**6]), "budget"))
        keys = draw(st.integers(1, 30), "keys")
        queries = draw(st.integers(1, keys), "queries")
        rows = draw(st.integers(1, 3), "rows")
        low, distances = draw(st.integers(-3, 3), "low"), draw(st.integers(1, 40), "distances")
        named: cases.Named = {}
        torch.manual_seed(draw(st.integers(0, 99)))
        q, k, v = cases.qkv(named, rows, 2, queries, keys, 3)
        own: cases.Named = {}
        heads = draw(st.sampled_from([1, 2]), "heads of the table")
        table = cases.learned(own, "table", heads, distances, 3)
        bias = cases.learned(own, "bias", heads, distances)
        use = draw(st.sampled_from(["table", "bias", "both"]))
        axis = Axis(
            table if use != "bias" else None,
            bias if use != "table" else None,
            low=low,
            high=low + distances - 1,
        )
        pieces = None
        if draw(st.booleans(), "packed"):
            pieces = torch.randint(3, (rows, keys))  # any ids, not only runs
        packed = {}
        if pieces is not None:
            packed = {"key_pieces": pieces, "query_pieces": pieces[:, keys - queries :]}
        named |= {n: t for n, t in own.items() if use in (n, "both")}
        terms = Terms(0.6, (axis,))
        got = cases.directly(chunked)(q, k, v, terms, **packed)
        want = cases.dense(q, k, v, terms, **packed)
        up = torch.randn_like(got)
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12)
        found, wanted = cases.gradients(got, named, up), cases.gradients(want, named, up)
        for name in named:
            torch.testing.assert_close(
                found[name], wanted[name], rtol=1e-11, atol=1e-12, msg=f"gradient of {name}"
            )


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_chunked_equals_reference_wherever_queries_and_keys_stand(data):
    """Causal or not, keys before, around and after the queries, any terms, blocks, pieces."""
    draw = data.draw
    torch.manual_seed(draw(st.integers(0, 99)))
    queries, keys = draw(st.integers(1, 30), "queries"), draw(st.integers(1, 30), "keys")
    start = draw(st.integers(-35, 35), "queries begin")
    batch = draw(st.integers(1, 3), "rows")
    options = st.sampled_from
    used = {n: draw(st.booleans(), n) for n in ("table", "bias", "u", "v_bias", "V")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "BLOCK", draw(options([1, 2, 5, 8, 128]), "block"))
        patch.setattr(plan, "BUDGET", draw(options([1, 10**6]), "budget"))
        named: cases.Named = {}
        q, k, v = cases.qkv(named, batch, 2, queries, keys, 4)
        low = draw(st.integers(-6, 6), "low")
        high = low + draw(st.integers(0, 12), "distances")
        shapes = {
            "table": (options([1, 2]), (high - low + 1, 4)),
            "bias": (options([1, 2]), (high - low + 1,)),
            "V": (options([1, 2]), (high - low + 1, 4)),
            "u": (st.just(2), (4,)),
            "v_bias": (st.just(2), (4,)),
        }
        own: cases.Named = {}
        for name, (heads, shape) in shapes.items():
            if used[name]:
                cases.learned(own, name, draw(heads, f"heads of {name}"), *shape)
        axes = ()
        if used["table"] or used["bias"] or used["V"] or draw(st.booleans(), "an empty axis"):
            axes = (Axis(own.get("table"), own.get("bias"), low=low, high=high),)
        causal = draw(st.booleans(), "causal")
        at: tuple = (Span(start, queries),)
        over: tuple = (Span(0, keys),)
        blocks = None
        if draw(st.booleans(), "blocks"):
            length = draw(st.integers(1, 10), "length of a block")
            blocks = Blocks(length, coordinate=draw(options([0, 1]), "coordinate"))
            at, over = (
                (at[0], torch.randint(40, (queries,))),
                (over[0], torch.randint(40, (1, keys))),
            )
            over = (over[0], over[1].expand(batch, keys))
        terms = Terms(
            0.6,
            axes,
            content_bias=own.get("u"),
            position_bias=own.get("v_bias"),
            value_table=own.get("V"),
            blocks=blocks,
        )
        packed = {}
        if draw(st.booleans(), "packed"):
            packed["query_pieces"] = torch.randint(3, (batch, queries))
            packed["key_pieces"] = torch.randint(3, (batch, keys))
        named |= own
        if not used["table"]:
            named.pop("v_bias", None)  # adds to nothing
        where = {"query_positions": at, "key_positions": over, "causal": causal}
        got = cases.directly(chunked)(q, k, v, terms, **where, **packed)
        want = cases.dense(q, k, v, terms, **where, **packed)
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12)
        up = torch.randn_like(got)
        found, wanted = cases.gradients(got, named, up), cases.gradients(want, named, up)
        for name in named:
            torch.testing.assert_close(
                found[name], wanted[name], rtol=1e-10, atol=1e-11, msg=f"gradient of {name}"
            )


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


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
def test_gradients_pass_gradcheck(packed, small_blocks):
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 10, 11, 2)
    table = cases.learned(named, "table", 2, 6, 2)
    bias = cases.learned(named, "bias", 1, 6)
    pieces = {}
    if packed:
        ids = torch.tensor([[0] * 5 + [1] * 6])
        pieces = {"key_pieces": ids, "query_pieces": ids[:, 1:]}

    def run(*tensors: Tensor) -> Tensor:
        q, k, v, table, bias = tensors
        terms = Terms(0.7, (Axis(table, bias, high=5),))
        return cases.directly(chunked)(q, k, v, terms, **pieces)

    assert torch.autograd.gradcheck(run, (q, k, v, table, bias))


def test_a_broken_skew_is_noticed(small_blocks, monkeypatch):
    """The comparison of these tests fails for a table that is one distance off."""
    right = Axis.descending
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 20, 20, 4)
    terms = cases.huang(named, 2, 4)
    assert max(both(named, q, k, v, terms).values()) < 1e-12
    monkeypatch.setattr(Axis, "descending", lambda *a: right(*a).roll(1, dims=1))
    errors = both(named, q, k, v, terms)
    assert min(errors.values()) > 1e-3, errors


def test_a_skew_that_leaks_across_rows_is_noticed(small_blocks, monkeypatch):
    """Without the mask over the summed logits, cells of the next row would be read."""
    right = plan.Plan.__init__

    def unmasked(self, *args):
        right(self, *args)
        self.later = torch.zeros_like(self.later)

    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 20, 20, 4)
    terms = cases.huang(named, 2, 4)
    monkeypatch.setattr(plan.Plan, "__init__", unmasked)
    assert min(both(named, q, k, v, terms).values()) > 1e-3


@pytest.mark.parametrize("kind", ["transposed", "expanded", "sliced"])
def test_any_memory_layout_of_inputs_and_upstream(kind, small_blocks):
    torch.manual_seed(0)
    base = [torch.randn(2, 20, 3, 4, dtype=torch.float64) for _ in range(3)]
    q, k, v = (x.transpose(1, 2).requires_grad_() for x in base)
    table = torch.randn(3, 4, 9, dtype=torch.float64).transpose(1, 2).requires_grad_()
    assert not q.is_contiguous()
    named = {"q": q, "k": k, "v": v, "table": table}
    terms = Terms(0.5, (Axis(table, high=8),))
    upstream = {
        "transposed": torch.randn(2, 20, 3, 4, dtype=torch.float64).transpose(1, 2),
        "expanded": torch.randn(4, dtype=torch.float64).expand(2, 3, 20, 4),  # stride 0
        "sliced": torch.randn(2, 3, 40, 8, dtype=torch.float64)[:, :, ::2, 1:5],
    }[kind]
    got = cases.directly(chunked)(q, k, v, terms)
    want = cases.dense(q, k, v, terms)
    assert max(cases.differences(got, want, named, upstream).values()) < 1e-12
    got.sum().backward()  # the classic: an upstream gradient of one number, expanded
    assert table.grad.abs().max() > 0


def test_nothing_leaks_from_the_future_or_from_other_pieces(small_blocks):
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 30, 30, 4)
    terms = cases.huang(named, 2, 4)
    pieces = torch.tensor([[0] * 11 + [1] * 19])
    out = cases.directly(chunked)(q, k, v, terms, query_pieces=pieces, key_pieces=pieces)
    for i in (0, 7, 8, 10, 11, 12, 29):
        _, dk, dv = torch.autograd.grad(out[:, :, i].sum(), (q, k, v), retain_graph=True)
        first = 0 if i < 11 else 11
        for gradient in (dk, dv):
            assert (gradient[:, :, :first] == 0).all()
            assert (gradient[:, :, i + 1 :] == 0).all()
        assert (dv[:, :, first : i + 1] != 0).all()


def test_a_query_that_sees_no_key_gives_zeros_and_the_right_gradients(small_blocks):
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, 20, 20, 4)
    terms = cases.table_and_bias(named, 2, 4)
    pieces = {"key_pieces": torch.zeros(2, 20).long(), "query_pieces": torch.zeros(2, 20).long()}
    pieces["query_pieces"][0, 3] = pieces["query_pieces"][1, 8:] = 7  # one, and whole blocks
    got = cases.directly(chunked)(q, k, v, terms, **pieces)
    want = cases.dense(q, k, v, terms, **pieces)
    assert (got[0, :, 3] == 0).all()
    assert (got[1, :, 8:] == 0).all()
    assert max(cases.differences(got, want, named, torch.randn_like(got)).values()) < 1e-12


def test_the_same_inputs_give_the_same_bits():
    def run() -> list[Tensor]:
        torch.manual_seed(0)
        named: cases.Named = {}
        q, k, v = cases.qkv(named, 3, 2, 200, 200, 8, dtype=torch.float32)
        table = cases.learned(named, "table", 2, 50, 8, dtype=torch.float32)
        out = cases.directly(chunked)(q, k, v, Terms(0.3, (Axis(table, high=49),)), dropout=0.2)
        return [out, *cases.gradients(out, named, torch.randn_like(out)).values()]

    assert all(torch.equal(a, b) for a, b in zip(run(), run()))


def test_what_it_cannot_do_has_a_reason():
    terms = Terms(0.5)
    span = Span(0, 4)
    assert cases.why_not(chunked, terms, span, span, True) is None
    assert cases.why_not(chunked, terms, Span(7, 2), Span(3, 6), True) is None
    assert cases.why_not(chunked, terms, Span(0, 2), span, False) is None
    assert cases.why_not(chunked, terms, Span(0, 6), Span(2, 4), True) is None
    assert "Span" in (cases.why_not(chunked, terms, torch.arange(4), span, True) or "")
    both = (span, torch.zeros(2, 4).long())
    two_axes = cases.two_axes({}, 2, 4)
    assert "one axis" in (cases.why_not(chunked, two_axes, both, both, True) or "")
    pitch = Terms(0.5, two_axes.axes[1:])
    assert "order of tokens" in (cases.why_not(chunked, pitch, both, both, True) or "")


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
