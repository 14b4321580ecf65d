"""Decoding with fixed shapes, so that a CUDA graph holds a whole step: a prototype to be timed.

A cache of slots in which the next place is a number on the device; attention over all slots by
torch's kernel, the relative logits as its mask. ``others.py`` and ``engine.generate`` take it as a
step (``engine.Step``). Position schemes with one table by order, no cascade.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.terms import Terms
from musictx.model import block
from musictx.model.cache import KVCache
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine

SLOTS = 64


def attend(q: Tensor, k: Tensor, v: Tensor, terms: Terms, **more: Any) -> Tensor:
    """One query over the slots: (B, H, 1, D)."""
    at, over = more["query_positions"][0], more["key_positions"][0]
    (axis,) = terms.axes
    assert axis.table is not None
    by_row = (q * terms.scale) @ axis.table.to(q.dtype).transpose(-1, -2)
    rows = axis.rows(at, over).expand(*q.shape[:3], -1)
    relative = by_row.gather(-1, rows).masked_fill(over > at, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=relative, scale=terms.scale)


class SlotCache:
    """What the model asks of a ``KVCache``, for one token at a time; token p stands in slot p."""

    def __init__(self, cache: KVCache, rows: int, capacity: int) -> None:
        held = cache.held(0)[0]
        self.capacity = -(-capacity // SLOTS) * SLOTS
        self.rows, self.layers, self.further = rows, cache.layers, cache.coordinates.shape[1]
        shape = (self.layers, 2, rows, held.shape[1], self.capacity, held.shape[3])
        self.both = held.new_zeros(shape)
        self.ids = torch.full((rows, self.capacity), -1, device=held.device)
        self.slots = torch.arange(self.capacity, device=held.device)
        self.place = torch.zeros(1, dtype=torch.int64, device=held.device)
        self.load(cache)

    def load(self, cache: KVCache) -> None:
        for layer in range(self.layers):
            for mine, held in zip(self.both[layer], cache.held(layer)):
                mine[:, :, : cache.length] = held
        self.ids[:, : cache.length] = cache.earlier(cache.length)
        self.place.fill_(cache.length)

    def where(self, count: int) -> tuple[Tensor, Tensor]:
        here = self.place.clone()
        return here, self.slots

    def reach(self, count: int) -> int:
        return self.capacity - 1

    def earlier(self, count: int) -> Tensor:
        """(rows, capacity): the ids so far at the end, -1 before them."""
        at = self.slots - self.capacity + self.place
        return self.ids[:, at.clamp(min=0)].masked_fill(at < 0, -1)

    def note(self, ids: Tensor, coordinates: Tensor) -> Tensor:
        self.ids.index_copy_(1, self.place, ids)
        return self.ids[:, None][:, :0]

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        for mine, new in zip(self.both[layer], (k, v)):
            mine.index_copy_(2, self.place, new)
        if layer == self.layers - 1:
            self.place.add_(1)
        return self.both[layer, 0], self.both[layer, 1]


class GraphStep:
    """A step as ``engine.Step``; ``uniforms`` (n, rows): it draws by itself, n times."""

    def __init__(
        self,
        model: MusicTransformer,
        cache: KVCache,
        *,
        rows: int,
        capacity: int,
        uniforms: Tensor | None = None,
    ) -> None:
        self.model, self.uniforms = model, uniforms
        self.cache: Any = SlotCache(cache, rows, capacity)
        device = model.embedding.weight.device
        self.input = torch.zeros((rows, 1), dtype=torch.int64, device=device)
        self.turn = torch.zeros(1, dtype=torch.int64, device=device)
        self.drawn = torch.zeros((capacity, rows), dtype=torch.int64, device=device)
        self.graph = None
        if device.type == "cuda":
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.step()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.logits = self.step()
        self.cache.load(cache)
        self.turn.zero_()

    def step(self) -> Tensor:
        with mock.patch.object(block, "attend", attend):
            logits = self.model(self.input, cache=self.cache)[:, -1]
        if self.uniforms is not None:
            self.draw(logits)
        return logits

    def draw(self, logits: Tensor) -> None:
        """As ``engine.draw``, what is never drawn left out."""
        values = logits.double().index_fill(1, self.never(logits.device), -torch.inf)
        sums = (values - values.amax(-1, keepdim=True)).exp().cumsum(-1)
        assert self.uniforms is not None
        point = self.uniforms[self.turn].T * sums[:, -1:]
        self.input.copy_((sums <= point).sum(-1, keepdim=True))
        self.drawn.index_copy_(0, self.turn, self.input.T)
        self.turn.add_(1)

    def never(self, device: torch.device) -> Tensor:
        """``pad``, ``bos``, ``cut`` and ``eos``, made without waiting for the device."""
        return torch.arange(engine.CUT + 1, device=device)

    def __call__(self, ids: Tensor | None = None) -> Tensor:
        if ids is not None:
            self.input[:, 0] = ids.to(self.input.device)
        if self.graph is None:
            return self.step()
        self.graph.replay()
        return self.logits


def drawing(model: MusicTransformer, prompt: Tensor, new: int, rows: int) -> GraphStep:
    """A step that draws by the seeds 0, 1, ... after ``prompt`` (P,); the first ids are drawn."""
    generators = [np.random.default_rng(seed) for seed in range(rows)]
    uniforms = torch.tensor(np.array([g.random(new) for g in generators]).T).to(prompt.device)
    cache = model.new_cache(1, len(prompt))
    with torch.inference_mode():
        last = model(prompt[None], cache=cache)[:, -1].expand(rows, -1)
        step = GraphStep(model, cache, rows=rows, capacity=len(prompt) + new, uniforms=uniforms)
        step.draw(last)
    return step
