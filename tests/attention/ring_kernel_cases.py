"""Run by tests/attention/test_ring_kernel.py in a process that begins with Triton's interpreter.

The kernel against decode/step.py, in float32.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from musictx.attention.decode import kernel, op, step
from musictx.attention.terms import NOWHERE, Axis, Ring, Terms
from tests.attention import cases, interpreter

assert interpreter.HERE, __doc__


def terms_of(kind: str) -> Terms:
    table, bias = torch.randn(3, 9, 16), torch.randn(1, 9)
    axes = {
        "none": (),
        "table": (Axis(table=table, high=8),),
        "shared": (Axis(table=table[:1], bias=bias, high=8),),
        "bias": (Axis(bias=bias.expand(3, -1), low=1, high=9),),
    }[kind]
    u = torch.randn(3, 16) if kind == "table" else None
    return Terms(0.3, axes, content_bias=u, position_bias=u)


def by_attention() -> None:
    """Empty, half full, full and overwritten rings; one part, several, some without slots."""
    places = [(0, 0), (5, 0), (5, 3), (99, 0), (100, 1), (257, 158), (250, 240)]
    kinds = itertools.product(("table", "shared"), places, (1, 4))
    for kind, (at, begin), splits in (
        *kinds,
        *itertools.product(("none", "bias"), places[2::2], (1, 4)),
    ):
        q = torch.randn(2, 3, 1, 16)
        k, v = torch.randn(2, 2, 3, 100, 16)
        ring = Ring.of(torch.tensor([at]), torch.tensor([begin]), 100)
        empty = ring.positions == NOWHERE
        k[:, :, empty], v[:, :, empty] = float("nan"), float("nan")  # never looked at
        terms = terms_of(kind)
        known = (x.nan_to_num() for x in (k, v))
        where: dict[str, Any] = {"query_positions": (ring.newest,), "key_positions": (ring,)}
        wanted = cases.directly(step)(q, *known, terms, **where)
        kernel.splits_of = lambda *_, n=splits: n  # type: ignore[assignment]
        got = op.attend(q, k, v, terms, ring)
        error = float((got - wanted).norm() / wanted.norm())
        assert error < 1e-6, (kind, at, begin, splits, error)
        if splits == 1:
            continue
        half = op.attend(q, k.half(), v.half(), terms, ring)
        assert float((half - wanted).norm() / wanted.norm()) < 2e-3


if __name__ == "__main__":
    torch.manual_seed(0)
    by_attention()
    print("equal")
