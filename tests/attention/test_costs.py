"""The memory that implementations use. Their results: test_conformance.py."""

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
    """Records the number of elements of the largest storage of any tensor."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, Tensor):
                self.largest = max(self.largest, x.untyped_storage().nbytes() // x.element_size())
        return result


def largest(length: int, kind: str = "huang", **more: Any) -> int:
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
    with Work() as work:
        attend(q, k, v, terms, **{"implementation": "chunked"} | where | more).sum().backward()
    return work.largest


@pytest.mark.parametrize(
    ("kind", "causal"),
    [("huang", True), ("shaw", False), ("shaw", True), ("local", False), ("labels", True)],
)
def test_memory_is_linear_in_length(kind, causal):
    half, full = (largest(length, kind, causal=causal) for length in (512, 1024))
    assert full < 2 * 1024 * 1024 / 4
    assert full <= 2.03 * half
    assert largest(256, kind, implementation="reference") >= 2 * 256 * 256
