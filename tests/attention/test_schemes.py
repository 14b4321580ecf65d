"""Every scheme, computed by the reference implementation, equals the formula of its paper. That the
other implementations compute the same: test_conformance.py."""

import pytest
import torch
from torch import Tensor

from musictx.attention import positions
from musictx.attention.api import attend
from musictx.attention.positions import PositionScheme
from musictx.attention.terms import Span
from musictx.speed import chunked
from tests.attention import cases
from tests.oracles import schemes as articles
from tests.untrained import at_random

SIZE = 4
PITCHES = 5  # pitches 60..64 in the vocabulary of ``two_d``
TOKENS = {
    "kind": "tokens",
    "size": 4 + 2 * PITCHES,
    "steps": [[1, 3, 1], [3, 4, 5]],
    "pitches": [[4, 4 + PITCHES, 60], [4 + PITCHES, 4 + 2 * PITCHES, 60]],
}

#: Three interleaved voices with the same ids.
GRID = {"kind": "grid", "voices": 3, "size": TOKENS["size"], "pitches": TOKENS["pitches"]}

#: ``two_d`` on a grid, where voice and pitch have labels, which other implementations support.
LABELS = "two_d by labels"
NAMES = [*sorted(positions.SCHEMES), LABELS]


def build(name: str, *, causal: bool, shared: bool, heads: int) -> PositionScheme:
    distance = 32 if name == "t5" else 4
    small = {"max_distance": distance, "block": 2, "max_time": 4, "shared": shared}
    scheme_name = "two_d" if name == LABELS else name
    known = positions.SCHEMES[scheme_name].__dataclass_fields__
    config = {"name": scheme_name} | {k: v for k, v in small.items() if k in known}
    if scheme_name == "two_d":
        config["coordinates"] = GRID if name == LABELS else TOKENS
    sizes = {"heads": heads, "head_dim": SIZE, "width": heads * SIZE}
    scheme = positions.build(config, causal=causal, **sizes).double()
    return at_random(scheme, seed=1)  # all of one size, so that no error hides


#: mode -> length -> (number of queries, number of keys, position of the first query, causal)
MODES = {
    "causal": lambda length: (length, length, 0, True),
    "causal, the last of longer keys": lambda length: (length, length + 3, 3, True),
    "full": lambda length: (length, length, 0, False),
    "cross, more keys": lambda length: (length, length + 3, 1, False),
    "cross, fewer keys": lambda length: (length, (length + 1) // 2, 0, False),
}


def pieces_of(count: int) -> tuple[Tensor, Tensor]:
    """The piece ids (1, count) of three pieces of equal length, and the positions in them."""
    ids = torch.arange(count) * 3 // max(count, 1)
    places = torch.cat([torch.arange(int((ids == n).sum())) for n in ids.unique()])
    return ids[None], places[None]


def coordinates(scheme: PositionScheme, count: int, start: int, places: Tensor | None):
    order = Span(start, count)
    where = [order, order if places is None else places]
    if not scheme.further:
        return tuple(where), tuple(where)
    ids = torch.randint(TOKENS["size"], (1, start + count))
    as_query, as_key = scheme.coordinates(ids, Span(0, start + count), None)
    return tuple((*where, *found[:, :, start:].unbind(1)) for found in (as_query, as_key))


def as_lists(where) -> list[list[int]]:
    return [(x.tensor() if isinstance(x, Span) else x.reshape(-1)).tolist() for x in where]


#: Each scheme in each mode. Lengths (one token, an odd number, longer than the table) and packing
#: alternate such that every pair of values of the four occurs.
CASES = [
    (name, mode, (1, 3, 9)[(i + j) % 3], (i + j // 3) % 2 == 1)
    for i, name in enumerate(NAMES)
    for j, mode in enumerate(MODES)
]


@pytest.mark.parametrize(("name", "mode", "length", "packed"), CASES)
def test_every_scheme_equals_the_formula_of_its_paper(name, mode, length, packed):
    queries, keys, start, causal = MODES[mode](length)
    heads = 3 if length == 9 else 2
    scheme = build(name, causal=causal, shared=length == 3, heads=heads)
    torch.manual_seed(2)
    q, k, v = (
        torch.randn(1, heads, count, SIZE, dtype=torch.float64).requires_grad_()
        for count in (queries, keys, keys)
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
    where = masks | {"query_positions": at, "key_positions": over, "causal": causal}
    got = attend(q_, k_, v, terms, **where, implementation="reference")
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
    found = torch.autograd.grad(got, learned, upstream, materialize_grads=True, allow_unused=True)
    for parameter, one, other in zip(named, found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11, msg=parameter)
    in_linear_memory = cases.why_not(chunked, terms, at, over, causal, q) is None
    assert in_linear_memory == (name != "two_d")
