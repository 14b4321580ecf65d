"""Axes with labels for keys: through a wider head they are what the specification says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.attention import decode, labels, sdpa
from musictx.attention.api import attend
from musictx.attention.chunked import plan
from musictx.attention.terms import Axis, Span, Terms, Waves
from tests.attention import cases
from tests.attention.chunked_cases import Largest
from tests.oracles import attention as loops

PITCHES = torch.tensor([60, 7, 62, 67, 900])  # in no order, with gaps


def labelled(named: cases.Named, heads: int, size: int, order: str = "table") -> Terms:
    """Pitch by a table and a bias, both clipped; voice by a shared table; what else there is."""
    pitch = Axis(
        table=cases.learned(named, "pitch_table", heads, 9, size),
        bias=cases.learned(named, "pitch_bias", heads, 9),
        low=-5,
        high=3,
        coordinate=1,
        labels=PITCHES,
    )
    voice = Axis(
        table=cases.learned(named, "voice_table", 1, 7, size),
        low=-3,
        high=3,
        coordinate=2,
        labels=torch.arange(4),
    )
    axes = [pitch, voice]
    if order == "table":
        table = cases.learned(named, "table", heads, 5, size)
        axes.insert(1, Axis(table, cases.learned(named, "bias", heads, 5), low=-1, high=3))
    if order == "waves":
        waves = Waves(torch.tensor([1.0, 0.3, 0.01]), cases.learned(named, "P", heads, 6, size))
        axes.append(Axis(table=waves.table(-20, 20), low=-20, high=20, waves=waves))
    return Terms(
        scale=0.6,
        axes=tuple(axes),
        content_bias=cases.learned(named, "u", heads, size),
        position_bias=cases.learned(named, "v_bias", heads, size),
    )


def places(rows: int, start: int, count: int) -> tuple[Span | Tensor, ...]:
    """Order, pitches (now and then one that is no label), voices (the same in every row)."""
    pitches = torch.cat([PITCHES, torch.tensor([61, -4])])
    return (
        Span(start, count),
        pitches[torch.randint(len(pitches), (rows, count))],
        torch.arange(start, start + count) % 4,
    )


MODES = {
    "causal": (11, 11, 0, True),
    "the last of longer keys": (7, 13, 6, True),
    "one query": (1, 9, 8, True),
    "full": (11, 11, 0, False),
    "cross": (9, 13, -2, False),
}


def job(mode: str, order: str, packed: bool = False):
    queries, keys, start, causal = MODES[mode]
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, queries, keys, 4)
    terms = labelled(named, 2, 4, order)
    how = {
        "query_positions": places(2, start, queries),
        "key_positions": places(2, 0, keys),
        "causal": causal,
    }
    if packed:
        how["key_pieces"] = torch.tensor([[0] * 4 + [1] * (keys - 4), [2] * (keys - 2) + [3] * 2])
        how["query_pieces"] = torch.randint(4, (2, queries))  # some see nothing
        how["query_pieces"][:, -1] = torch.tensor([1, 2])  # the last one something
    return named, (q, k, v, terms), how


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(plan, "BLOCK", 4)
    monkeypatch.setattr(plan, "BUDGET", 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("order", ["none", "table", "waves"])
def test_every_implementation_that_accepts_equals_plain_loops(mode, packed, order, small_blocks):
    torch.manual_seed(0)
    named, args, how = job(mode, order, packed)
    want = loops.attend(*args, **how)
    reasons = cases.reasons(
        args[3], how["query_positions"], how["key_positions"], how["causal"], args[0]
    )
    able = [name for name, reason in reasons.items() if not reason]
    wanted = {"reference", "chunked"}
    if order != "table" and mode not in ("the last of longer keys",):
        wanted.add("sdpa")
    assert set(able) == wanted
    up = torch.randn_like(want)
    for implementation in (*able, "auto"):
        if implementation == "sdpa" and packed:
            continue  # torch's kernel has no answer for a query that sees nothing
        got = attend(*args, **how, implementation=implementation)
        errors = cases.differences(got, want, named, up)
        assert max(errors.values()) < 1e-11, (implementation, errors)


def test_sdpa_keeps_pieces_apart():
    torch.manual_seed(0)
    named, args, how = job("causal", "waves")
    pieces = torch.tensor([[0] * 4 + [1] * 7, [0] * 11])
    how |= {"query_pieces": pieces, "key_pieces": pieces}
    got = attend(*args, **how, implementation="sdpa")
    want = loops.attend(*args, **how)
    assert max(cases.differences(got, want, named, torch.randn_like(got)).values()) < 1e-11


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_lengths_and_starts_agree_with_the_reference(data):
    draw = data.draw
    torch.manual_seed(draw(st.integers(0, 99)))
    causal = draw(st.booleans(), "causal")
    queries, keys = draw(st.integers(1, 20), "queries"), draw(st.integers(1, 20), "keys")
    start = draw(st.integers(-5, 5), "queries begin")
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, queries, keys, 4)
    terms = labelled(named, 2, 4, draw(st.sampled_from(["none", "table"]), "order"))
    at, over = places(2, start, queries), places(2, 0, keys)
    how = {"query_positions": at, "key_positions": over, "causal": causal}
    got = attend(q, k, v, terms, **how, implementation="chunked")
    want = attend(q, k, v, terms, **how, implementation="reference")
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
    up = torch.randn_like(got)
    found, wanted = cases.gradients(got, named, up), cases.gradients(want, named, up)
    for name in named:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-9, atol=1e-10, msg=name)


def test_a_key_with_no_label_gets_no_term():
    """Then plain attention is all there is to it."""
    torch.manual_seed(0)
    _, (q, k, v, _), how = job("causal", "none")
    axis = Axis(torch.randn(2, 9, 4).double(), low=-4, high=4, coordinate=1, labels=PITCHES)
    terms = Terms(0.5, (axis,))
    where = {"query_positions": how["query_positions"]}
    where["key_positions"] = (Span(0, 11), torch.full((2, 11), 61))
    plain = attend(q, k, v, Terms(0.5), query_positions=Span(0, 11), key_positions=Span(0, 11))
    for implementation in ("reference", "chunked", "sdpa"):
        got = attend(q, k, v, terms, **where, implementation=implementation)
        torch.testing.assert_close(got, plain)


def test_a_wrong_row_of_the_table_would_be_seen(monkeypatch):
    """The comparisons of this file can fail."""
    torch.manual_seed(0)
    _, args, how = job("causal", "table")
    want = loops.attend(*args, **how)
    right = labels.by_key
    monkeypatch.setattr(labels, "by_key", lambda *a: right(*a).roll(1, dims=-1))
    got = attend(*args, **how, implementation="chunked")
    assert (got - want).abs().max() > 1e-2


@pytest.mark.parametrize("order", ["none", "table"])
def test_dropout_drops_whole_weights_and_nothing_else(order, small_blocks):
    """With values 1, 0, 0, ... the output is the weights, which shows what was dropped; output and
    gradients follow from the weights of the specification under that mask."""
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, 9, 9, 9)
    terms = labelled(named, 2, 9, order)
    how = {"query_positions": places(2, 0, 9), "key_positions": places(2, 0, 9)}

    def dropped(values: Tensor) -> Tensor:
        torch.manual_seed(5)
        return attend(q, k, values, terms, **how, dropout=0.5, implementation="chunked")

    kept = dropped(torch.eye(9).double().expand_as(v)).detach() != 0
    weights = cases.weights(q, k, terms, **how)
    assert 0.3 < kept[weights > 0].double().mean() < 0.7
    got, want = dropped(v), (weights * kept / 0.5) @ v
    assert max(cases.differences(got, want, named, torch.randn_like(got)).values()) < 1e-11


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("mode", ["causal", "one query"])
def test_the_dtype_stays_and_the_sums_are_precise(dtype, mode):
    torch.manual_seed(0)
    _, (q, k, v, terms), how = job(mode, "table")
    exact = cases.dense(*(x.to(dtype).double() for x in (q, k, v)), terms, **how)
    low = replace(
        terms, axes=tuple(replace(a, table=a.table.float()) for a in terms.axes)
    )  # tables as a model's parameters are
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = attend(*(x.to(dtype) for x in (q, k, v)), low, **how, implementation="chunked")
    assert got.dtype == dtype
    limit = {torch.bfloat16: 2**-8, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(got.double(), exact, rtol=limit, atol=limit)


def test_gradients_pass_gradcheck():
    torch.manual_seed(0)
    named, _, how = job("causal", "table")

    def run(*tensors: Tensor) -> Tensor:
        mine = iter(tensors[3:])

        class Given(dict):
            """Hands out the tensors under test in the order in which terms ask for them."""

        original = cases.learned
        try:
            cases.learned = lambda *_, **__: next(mine)
            terms = labelled(Given(), 2, 4, "table")
        finally:
            cases.learned = original
        return attend(*tensors[:3], terms, **how, implementation="chunked")

    assert torch.autograd.gradcheck(run, tuple(named.values()))


def test_decode_copies_no_keys():
    """A step of sampling reads the cache and writes numbers for each key only."""
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 4, 1, 500, 32, dtype=torch.float32)
    terms = Terms(
        0.2,
        (Axis(torch.randn(4, 9, 32), low=-4, high=4, coordinate=1, labels=torch.arange(60)),),
    )
    at, over = (Span(499, 1), torch.tensor([[5]])), (Span(0, 500), torch.randint(60, (1, 500)))
    with torch.no_grad(), Largest() as seen:
        cases.directly(decode)(q, k, v, terms, query_positions=at, key_positions=over)
    assert seen.numbers <= k.numel()  # the largest memory in sight is the cache itself


@pytest.mark.parametrize("implementation", ["chunked", "reference"])
def test_memory_is_linear_in_length(implementation):
    def largest(length: int) -> int:
        torch.manual_seed(0)
        named: cases.Named = {}
        q, k, v = cases.qkv(named, 1, 2, length, length, 8, dtype=torch.float32)
        axis = {"low": -20, "high": 20, "coordinate": 1, "labels": torch.arange(21)}
        terms = Terms(
            0.3,
            (
                Axis(cases.learned(named, "table", 2, 64, 8, dtype=torch.float32), high=63),
                Axis(cases.learned(named, "pitch", 2, 41, 8, dtype=torch.float32), **axis),
            ),
        )
        where = (Span(0, length), torch.randint(21, (1, length)))
        how = {"query_positions": where, "key_positions": where}
        with Largest() as seen:
            attend(q, k, v, terms, **how, implementation=implementation).sum().backward()
        return seen.numbers

    half, whole = largest(512), largest(1024)
    if implementation == "chunked":
        assert whole <= 2.03 * half
        assert whole < 2 * 1024 * 1024 / 4
    else:
        assert whole >= 2 * 1024 * 1024, "this test can fail"


def test_labels_are_refused_where_they_have_no_meaning():
    table = torch.zeros(1, 3, 4)
    labels = torch.arange(3)
    with pytest.raises(ValueError, match="labels are for further coordinates"):
        Axis(table, high=2, labels=labels)
    with pytest.raises(ValueError, match=r"labels are torch.float32 \(3,\), expected int64"):
        Axis(table, high=2, coordinate=1, labels=labels.float())
    axis = Axis(table, high=2, coordinate=1, labels=labels)
    with pytest.raises(ValueError, match="value_table is for distances"):
        Terms(0.5, (axis,), value_table=table)
    where = (Span(0, 3), torch.zeros(3).long())
    reasons = cases.reasons(Terms(0.5, (axis,)), where, where)
    assert {name for name, reason in reasons.items() if reason} == {"skew"}
    assert cases.why_not(sdpa, Terms(0.5, (axis,)), where, where, True) is None
