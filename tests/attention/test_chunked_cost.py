"""What the chunked attention costs: memory linear in length, nothing computed that is hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from musictx.attention import attend, chunked
from musictx.attention.chunked import passes, plan
from musictx.attention.terms import Axis, Blocks, Span, Terms
from tests.attention import cases


def largest(function, length: int, kind: str = "huang") -> int:
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
    with cases.Largest() as seen:
        function(q, k, v, terms, **where).sum().backward()
    return seen.numbers


@pytest.mark.parametrize("causal_", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("kind", ["huang", "shaw", "local", "labels"])
def test_memory_is_linear_in_length(kind, causal_):
    """No tensor of length x length anywhere, forward or backward; the reference has them."""

    def run(q, k, v, terms, **where):
        return attend(q, k, v, terms, **where, causal=causal_, implementation="chunked")

    half, whole = largest(run, 512, kind), largest(run, 1024, kind)
    assert whole < 2 * 1024 * 1024 / 4
    assert whole <= 2.03 * half
    dense = largest(cases.dense, 256, kind)
    assert dense >= 2 * 256 * 256, "this test can fail"


def test_local_attention_costs_what_its_blocks_cost(small_blocks, monkeypatch):
    """Keys out of reach are not touched at all: time is linear in length, with or without
    causality."""
    widths = []
    right = passes._logits

    def spy(*args):
        logits = right(*args)
        widths.append(logits.shape[-1])
        return logits

    monkeypatch.setattr(passes, "_logits", spy)
    q, k, v = (torch.randn(1, 2, 64, 4) for _ in range(3))
    terms = Terms(0.5, blocks=Blocks(16))
    for causal_, most in ((True, 32), (False, 48)):
        widths.clear()
        cases.directly(chunked)(q, k, v, terms, causal=causal_)
        assert max(widths) == most
        assert len(widths) == 8
    widths.clear()
    packed, ids = torch.arange(64)[None] % 40, torch.arange(64)[None] // 40  # two pieces
    cases.directly(chunked)(
        *(q, k, v, Terms(0.5, blocks=Blocks(16, coordinate=1))),
        query_positions=(Span(0, 64), packed),
        key_positions=(Span(0, 64), packed),
        query_pieces=ids,
        key_pieces=ids,
    )
    assert max(widths) == 32


def test_how_many_heads_are_taken_together(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for heads, keys, wanted in ((8, 512, 8), (8, 2048, 4), (8, 65536, 4), (3, 4096, 3), (1, 9, 1)):
        assert plan.heads_at_once(torch.empty(1, heads, 128, 1), keys) == wanted
    assert plan.heads_at_once(torch.empty(1, 8, 128, 1, device="meta"), 65536) == 8
