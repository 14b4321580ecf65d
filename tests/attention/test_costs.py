"""What implementations cost.

That each computes what the specification says: test_conformance.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from musictx.attention import attend
from musictx.attention.terms import Axis, Blocks, Terms
from tests.attention import cases


class Work(TorchDispatchMode):
    """The size of the largest memory of any tensor, and how many numbers are computed: those of
    products and of all that is no view."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, Tensor)}
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, Tensor):
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
                new = x.untyped_storage().data_ptr() not in given
                self.numbers += x.numel() * (new or "bmm" in str(function))
        return result


def work(length: int, kind: str = "huang", **more: Any) -> Work:
    torch.manual_seed(0)
    named: cases.Named = {}
    q, k, v = cases.qkv(named, 1, 2, length, length, 8, dtype=torch.float32)
    table = cases.learned(named, "table", 2, length, 8, dtype=torch.float32)
    terms = Terms(0.3, (Axis(table, high=length - 1),))
    if kind == "shaw":
        terms = replace(terms, value_table=table, content_bias=q.detach()[0, :, 0])
    if kind == "local":
        terms = replace(terms, blocks=Blocks(64))
    if kind == "labels":
        terms = replace(terms, axes=(*terms.axes, *cases.label_axes(named, 2, 8)))
    where = {name: cases.places(1, 0, length) for name in ("query_positions", "key_positions")}
    with Work() as seen:
        attend(q, k, v, terms, **{"implementation": "chunked"} | where | more).sum().backward()
    return seen


@pytest.mark.parametrize(
    ("kind", "causal"),
    [("huang", True), ("shaw", False), ("shaw", True), ("local", False), ("labels", True)],
)
def test_memory_is_linear_in_length(kind, causal):
    half, whole = (work(length, kind, causal=causal).largest for length in (512, 1024))
    assert whole < 2 * 1024 * 1024 / 4
    assert whole <= 2.03 * half
    assert work(256, kind, implementation="reference").largest >= 2 * 256 * 256


@pytest.mark.parametrize("causal", [True, False])
def test_what_blocks_and_pieces_hide_is_not_computed(causal):
    """Twice the length is twice the work; of all keys, over three times."""
    for kind, pieces in (("local", None), ("huang", 64)):
        costs = []
        for length in (1024, 2048):
            ids = torch.arange(length)[None] // (pieces or length)
            costs.append(
                work(length, kind, causal=causal, query_pieces=ids, key_pieces=ids).numbers
            )
        assert costs[1] <= 2.1 * costs[0]
    assert work(2048, causal=causal).numbers > 3 * work(1024, causal=causal).numbers
