"""The step of decoding with shapes that never change: to be recorded once and replayed.

An ordinary pass with a ``KVCache`` asks Python how long the cache is, for every token. Here nothing
depends on it: the position is a number on the device, the cache a ring of ``capacity`` slots in
which token p overwrites token p - capacity. So the kernels of one step are always the same, and a
CUDA graph (sampling/graph.py) or ``torch.compile(fullgraph=True)`` can have them all.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx.attention.decode import ring as static
from musictx.attention.terms import Terms
from musictx.model.cache import KVCache
from musictx.model.transformer import Block, MusicTransformer


def why_not(model: MusicTransformer) -> str | None:
    """Why the model has no static step, or None if it has."""
    if model.position.further:
        name = model.config["position"]["name"]
        return f"position={name} reads time and pitch off the tokens as they come"
    if model.intervals is not None:
        return "model.input_intervals and model.output_intervals look at earlier tokens"
    return static.why_not(model.position.terms(0, reach=1))


class StaticDecoder:
    """Token after token through ``model``, ``rows`` sequences at once, all at the same position.

    capacity   tokens that are looked back on. From position ``capacity`` on, each new token takes
               the oldest one's place: a window that slides by one, as ``KVCache.slide(1)`` before
               every token (``engine.generate`` drops an eighth of the window at once instead)
    position   (1,) int64 on the device: where the next token stands;  first  (1,): where the
               tokens held begin

    kernel     attention by ``attention/static_kernel.py``; None: on CUDA where it knows the terms

    The tables of positions are read once, here: a decoder belongs to the weights as they are.
    Raises ``ValueError`` if the model has no static step (:func:`why_not`).
    """

    def __init__(
        self, model: MusicTransformer, *, rows: int, capacity: int, kernel: bool | None = None
    ) -> None:
        reason = why_not(model)
        if reason:
            raise ValueError(f"static decoding: {reason}")
        if rows < 1 or capacity < 1:
            raise ValueError(f"rows={rows}, capacity={capacity}: expected at least 1")
        self.model, self.rows, self.capacity = model, rows, capacity
        weight = model.embedding.weight
        heads, width = model.config["heads"], model.config["width"]
        shape = (rows, heads, capacity, width // heads)
        layers = range(model.config["layers"])
        # A tensor for each layer: what is changed in place is then never a part of another.
        self.keys = [torch.zeros(shape, dtype=weight.dtype, device=weight.device) for _ in layers]
        self.values = [torch.zeros_like(keys) for keys in self.keys]
        self.position = torch.zeros(1, dtype=torch.int64, device=weight.device)
        self.first = torch.zeros_like(self.position)
        with torch.no_grad():
            self.terms = [
                _fixed(model.position.terms(n, reach=capacity - 1), capacity) for n in layers
            ]
        reason = static.kernel_why_not(self.keys[0], self.terms[0])
        if kernel and reason:
            raise ValueError(f"static decoding, kernel=True: {reason}")
        self.kernel = weight.is_cuda and not reason if kernel is None else kernel

    @torch.no_grad()
    def load(self, cache: KVCache) -> None:
        """Go on after the tokens of ``cache``, which has one row (for all) or as many as this.

        Of more than ``capacity`` tokens only the last count. Everything earlier is forgotten.
        """
        held = min(len(cache.key_span), self.capacity)
        last = torch.arange(cache.next_position - held, cache.next_position)
        place = (last % self.capacity).to(self.position.device)
        for layer, (keys, values) in enumerate(zip(self.keys, self.values)):
            for ours, theirs in zip((keys, values), cache.held(layer)):
                ours.zero_()
                if held:
                    ours[:, :, place] = theirs[:, :, -held:].to(ours.dtype)
        self.position.fill_(cache.next_position)
        self.first.fill_(cache.next_position - held)

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Logits (rows, vocab) in float32 after the tokens ``ids`` (rows, 1), one more each."""
        model, scheme = self.model, self.model.position
        distance, empty = static.slots(self.position, self.first, self.capacity)
        x = scheme.embed(model.embedding(ids), self.position)
        if scheme.beside is not None:
            x = scheme.beside(x, self.position)
        for layer, block in enumerate(model.blocks):
            assert isinstance(block, Block)
            x = x + self._attention(layer, block, x, distance, empty)
            x = x + block.feedforward(block.feedforward_norm(x))
        self.position.add_(1)
        weight = model.embedding.weight if model.output is None else model.output.weight
        return F.linear(model.norm(x)[:, 0], weight).float()

    def _attention(
        self, layer: int, block: Block, x: Tensor, distance: Tensor, empty: Tensor
    ) -> Tensor:
        """What ``transformer.Attention`` gives for one token, (rows, 1, width)."""
        rows, _, width = x.shape
        attention, scheme = block.attention, self.model.position
        qkv = attention.qkv(block.attention_norm(x)).view(rows, 1, 3, attention.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (rows, heads, 1, head_dim)
        q, k = scheme.rotate(q, k, self.position, self.position)
        keys, values = self.keys[layer], self.values[layer]
        slot = self.position % self.capacity
        keys.index_copy_(2, slot, k)
        values.index_copy_(2, slot, v)
        mixed = static.attend(
            q, keys, values, self.terms[layer],
            position=self.position, first=self.first, distance=distance, empty=empty,
            kernel=self.kernel,
        )  # fmt: skip
        out: Tensor = attention.out(mixed.transpose(1, 2).reshape(rows, 1, width))
        return out


def _fixed(terms: Terms, capacity: int) -> Terms:
    """The same terms for distances below ``capacity``, in the precision they are used in."""

    def precise(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.detach().to(torch.promote_types(x.dtype, torch.float32))

    axes = terms.axes
    if terms.value_table is None:  # which has as many rows as the axis
        axes = tuple(axis.narrowed(capacity) for axis in axes)
    return dataclasses.replace(
        terms,
        axes=tuple(
            dataclasses.replace(axis, table=precise(axis.table), bias=precise(axis.bias))
            for axis in axes
        ),
        content_bias=precise(terms.content_bias),
        position_bias=precise(terms.position_bias),
        value_table=precise(terms.value_table),
    )
