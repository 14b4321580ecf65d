"""The specification against quadruple loops, and every scheme against the formula of its own
article; that the other implementations compute the same: test_conformance.py."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from musictx.attention import positions
from musictx.attention.api import attend
from musictx.attention.positions import PositionScheme
from musictx.attention.terms import Axis, Span, Terms
from tests.attention import cases
from tests.oracles import attention as loops
from tests.oracles import schemes as articles

HEADS, SIZE = 2, 4
PITCHES = 5  # pitches 60..64 in the vocabulary of ``two_d``
TOKENS = {
    "kind": "tokens",
    "size": 4 + 2 * PITCHES,
    "steps": [[1, 3, 1], [3, 4, 5]],
    "pitches": [[4, 4 + PITCHES, 60], [4 + PITCHES, 4 + 2 * PITCHES, 60]],
}

#: Three voices in turn, of the same ids.
GRID = {"kind": "grid", "voices": 3, "size": TOKENS["size"], "pitches": TOKENS["pitches"]}

#: ``two_d`` also on a grid, where voice and pitch are labels, which other implementations know.
LABELS = "two_d by labels"
NAMES = [*sorted(positions.SCHEMES), LABELS]


def build(name: str, *, causal: bool, shared: bool = False, heads: int = HEADS) -> PositionScheme:
    torch.manual_seed(1)
    small = {"max_distance": 32 if name == "t5" else 4, "block": 2, "max_time": 4}
    small |= {"shared": shared}
    scheme_name = "two_d" if name == LABELS else name
    known = positions.SCHEMES[scheme_name].__dataclass_fields__
    config = {"name": scheme_name} | {k: v for k, v in small.items() if k in known}
    if scheme_name == "two_d":
        config["coordinates"] = GRID if name == LABELS else TOKENS
    scheme = positions.build(
        config, heads=heads, head_dim=SIZE, width=heads * SIZE, causal=causal
    ).double()
    for p in scheme.parameters():  # all of one size, so that no error hides
        torch.nn.init.normal_(p)
    return scheme


#: mode -> (queries more or fewer than keys, where queries begin, causal)
MODES = {
    "causal": lambda length: (length, length, 0, True),
    "causal, the last of longer keys": lambda length: (length, length + 3, 3, True),
    "full": lambda length: (length, length, 0, False),
    "cross, more keys": lambda length: (length, length + 3, 1, False),
    "cross, fewer keys": lambda length: (length, (length + 1) // 2, 0, False),
}


def pieces_of(count: int) -> tuple[Tensor, Tensor]:
    """Piece ids (1, count), a cut after a third and after two thirds; places in their pieces."""
    ids = torch.arange(count) * 3 // max(count, 1)
    places = torch.cat([torch.arange(int((ids == n).sum())) for n in ids.unique()])
    return ids[None], places[None]


def coordinates(scheme: PositionScheme, count: int, start: int, places: Tensor | None):
    """(as queries, as keys) of ``count`` random tokens from ``start`` on."""
    order = Span(start, count)
    where = [order, order if places is None else places]
    if not scheme.further:
        return tuple(where), tuple(where)
    ids = torch.randint(TOKENS["size"], (1, start + count))
    as_query, as_key = scheme.coordinates(ids, Span(0, start + count), None)
    return tuple((*where, *found[:, :, start:].unbind(1)) for found in (as_query, as_key))


def as_lists(where) -> list[list[int]]:
    return [(x.tensor() if isinstance(x, Span) else x.reshape(-1)).tolist() for x in where]


#: Each scheme in each mode; lengths (one token, an odd number, beyond the table) and packing take
#: turns such that every two of the four meet.
CASES = [
    (name, mode, (1, 3, 9)[(i + j) % 3], (i + j // 3) % 2 == 1)
    for i, name in enumerate(NAMES)
    for j, mode in enumerate(MODES)
]


@pytest.mark.parametrize(("name", "mode", "length", "packed"), CASES)
def test_it_computes_the_articles_formula(name, mode, length, packed):
    """Output and the gradient of q, k, v and every parameter, in float64."""
    queries, keys, start, causal = MODES[mode](length)
    scheme = build(name, causal=causal, shared=length == 3)
    torch.manual_seed(2)
    q = torch.randn(1, HEADS, queries, SIZE, dtype=torch.float64).requires_grad_()
    k, v = (
        torch.randn(1, HEADS, keys, SIZE, dtype=torch.float64).requires_grad_() for _ in range(2)
    )
    ids, places = pieces_of(max(keys, start + queries))
    here = slice(start, start + queries)
    at, _ = coordinates(scheme, queries, start, places[:, here] if packed else None)
    torch.manual_seed(3)
    _, over = coordinates(scheme, keys, 0, places[:, :keys] if packed else None)
    masks = {"query_pieces": ids[:, here], "key_pieces": ids[:, :keys]} if packed else {}

    named = {"q": q, "k": k, "v": v} | dict(scheme.named_parameters())
    learned = list(named.values())
    want = articles.run(
        *(name, scheme, q[0], k[0], v[0], as_lists(at), as_lists(over)),
        causal=causal,
        **{which: x[0].tolist() for which, x in masks.items()},
    )[None]
    upstream = torch.randn_like(want)
    wanted = torch.autograd.grad(want, learned, upstream, materialize_grads=True, allow_unused=True)

    q_, k_ = scheme.rotate(q, k, at[0], over[0])
    terms = scheme.terms(reach=max(start + queries, keys))
    got = attend(
        *(q_, k_, v, terms),
        query_positions=at,
        key_positions=over,
        causal=causal,
        **masks,
        implementation="reference",
    )
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
    found = torch.autograd.grad(got, learned, upstream, materialize_grads=True, allow_unused=True)
    for parameter, one, other in zip(named, found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11, msg=parameter)
    in_linear_memory = cases.reasons(terms, at, over, causal, q)["chunked"] is None
    assert in_linear_memory == (name != "two_d")


CUTS = {  # queries, keys, causal, where queries begin
    "causal self": (5, 5, True, 0),
    "causal, last queries of longer keys": (3, 6, True, 3),
    "full self": (5, 5, False, 0),
    "cross, fewer queries": (3, 6, False, 2),
    "cross, more queries": (6, 4, False, 0),
    "causal, keys that nobody sees": (3, 6, True, 1),
    "one query": (1, 5, True, 4),
}


#: Of each family and mode one, whole and packed in turn.
SUMS = [
    (scheme, mode, (i + j) % 2 == 1)
    for i, scheme in enumerate(cases.FAMILY)
    for j, mode in enumerate(CUTS)
]


@pytest.mark.parametrize(("scheme", "mode", "packed"), SUMS)
def test_reference_equals_loops_in_output_and_every_gradient(scheme, mode, packed):
    torch.manual_seed(1)
    queries, keys, causal, start = CUTS[mode]
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, queries, keys, 4)
    terms = cases.FAMILY[scheme](named, 2, 4)
    where = {
        "query_positions": cases.places(2, start, queries),
        "key_positions": cases.places(2, 0, keys),
    }
    if packed:
        key_pieces = torch.tensor([[0, 0, 1, 1, 1, 2], [3, 4, 4, 4, 4, 4]])
        where |= {
            "key_pieces": key_pieces[:, :keys],
            "query_pieces": key_pieces[:, start : start + queries],
        }
    got = cases.dense(q, k, v, terms, causal=causal, **where)
    want = loops.attend(q, k, v, terms, causal=causal, **where)
    errors = cases.differences(got, want, named, torch.randn_like(got))
    assert max(errors.values()) < 1e-12, errors


def test_positions_may_be_tensors_for_each_row_and_causality_goes_by_them():
    """Rows of a batch stand at different places, not in order: position decides, not the row."""
    torch.manual_seed(2)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 2, 2, 5, 5, 4)
    terms = cases.transformer_xl(named, 2, 4)
    positions = torch.stack([torch.tensor([4, 2, 0, 1, 3]), torch.tensor([10, 11, 13, 13, 17])])
    where = {"query_positions": positions, "key_positions": positions}
    got = cases.dense(q, k, v, terms, **where)
    want = loops.attend(q, k, v, terms, **where)
    assert max(cases.differences(got, want, named, torch.randn_like(got)).values()) < 1e-12
    weights = cases.weights(q, k, terms, **where)
    assert (weights[0, :, 2, [0, 1, 3, 4]] == 0).all(), "position 0 sees itself only"


def test_a_query_that_sees_no_key_gives_zeros_and_finite_gradients():
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, 3, 3, 4)
    terms = cases.shaw(named, 2, 4)
    pieces = torch.tensor([[0, 7, 0]])
    where = {"query_positions": Span(0, 3), "key_positions": Span(0, 3)}
    out = cases.dense(
        q, k, v, terms, query_pieces=pieces, key_pieces=torch.zeros(1, 3, dtype=torch.long), **where
    )
    assert (out[:, :, 1] == 0).all()
    assert (out[:, :, 2] != 0).any()
    found = cases.gradients(out, named, torch.ones_like(out))
    assert all(torch.isfinite(g).all() for g in found.values())
    assert (found["q"][:, :, 1] == 0).all()


def test_dropout_keeps_the_mean():
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, 1, 6, 4) for _ in range(3))
    terms = Terms(scale=0.5)
    where = {"query_positions": Span(0, 6), "key_positions": Span(0, 6), "causal": False}
    many = (torch.cat([x] * 4000) for x in (q, k, v))
    dropped = cases.dense(*many, terms, dropout=0.3, **where)
    exact = cases.dense(q, k, v, terms, **where)
    standard_error = dropped.std(0) / math.sqrt(4000)
    assert ((dropped.mean(0) - exact[0]).abs() < 5 * standard_error).all()
    assert dropped.std() > 0


def test_softmax_is_in_float32_for_bfloat16_inputs():
    """The only error is the rounding of inputs and of the result."""
    torch.manual_seed(4)
    q, k, v = (torch.randn(1, 2, 40, 16).bfloat16() * 2 for _ in range(3))
    terms = Terms(0.25, (Axis(table=torch.randn(2, 40, 16), high=39),))
    where = {"query_positions": Span(0, 40), "key_positions": Span(0, 40)}
    out = cases.dense(q, k, v, terms, **where)
    exact = cases.dense(q.double(), k.double(), v.double(), terms, **where)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), exact, rtol=2**-8, atol=1e-5)
