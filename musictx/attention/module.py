"""``RelativeAttention``: multi-head attention with a position scheme, for use in other models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from musictx.attention import positions
from musictx.attention.api import attend, why_not
from musictx.attention.terms import Span
from musictx.errors import ConfigError


class RelativeAttention(nn.Module):
    """Multi-head self- or cross-attention in which relative positions count.

    ::

        layer = RelativeAttention(width=256, heads=4)                        # Huang et al. 2018
        y = layer(x)                                                         # (B, T, 256), causal

        layer = RelativeAttention(256, 4, position={"name": "shaw"}, causal=False)
        y = layer(x, pieces=pieces)                                          # packed sequences
        y = layer(x, key_padding_mask=padding)                               # as torch calls it

        cross = RelativeAttention(256, 4, position="t5", causal=False)
        y = cross(x, memory)                                                 # over other tokens

    width           channels of the inputs; ``heads`` divides it
    position        a scheme by name, or with its options (musictx/config/position.py); schemes that
                    read pitch or time off tokens need the whole model
    causal          no token sees a later one
    context         tokens of a usual input, from which options that are left out follow
    dropout         on attention weights, in training
    implementation  as of :func:`attend`

    ``pieces`` (B, T) numbers sequences that do not see each other: several in a row need no mask.

    Raises ``ConfigError`` for a scheme or an option that cannot be.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        position: str | Mapping[str, Any] = "huang",
        *,
        causal: bool = True,
        context: int = 1024,
        dropout: float = 0.0,
        implementation: str = "auto",
    ) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(f"heads={heads}: expected a divisor of width={width}")
        self.width, self.heads, self.causal = width, heads, causal
        self.dropout, self.implementation = dropout, implementation
        given = {"name": position} if isinstance(position, str) else position
        name = positions.complete(given, context=context, width=width)["name"]
        scheme, base = positions.scheme_of(name), positions.PositionScheme
        if scheme.embed is not base.embed or scheme.coordinates is not base.coordinates:
            raise ConfigError(
                f"position={name}: it adds to the embeddings or reads tokens, so it needs the "
                "whole model, MusicTransformer"
            )
        self.position = positions.build(
            given, heads=heads, head_dim=width // heads, width=width, context=context, causal=causal
        )
        if self.position.added is not None:
            raise ConfigError(
                "position: concat_sinusoids and periods are added to embeddings, so they need the "
                "whole model, MusicTransformer"
            )
        reason = why_not(implementation, self.position.terms(reach=1), causal=causal)
        if reason:
            raise ConfigError(f"implementation={implementation}: {reason}")
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        pieces: Tensor | None = None,
        memory_pieces: Tensor | None = None,
        start: int = 0,
    ) -> Tensor:
        """x (B, T, width) over itself or over ``memory`` (B, S, width): (B, T, width). All may
        come without B.

        key_padding_mask  bool (B, S): True hides a token of ``memory``, or of x without it, from
                          all, as in ``nn.MultiheadAttention``
        attn_mask         bool (T, S) or (B * heads, T, S): True hides a token from another, as
                          there; in addition to ``causal``. Memory becomes T x S
        pieces  (B, T) int64: tokens see those of equal number only; with ``memory`` also
                ``memory_pieces`` (B, S)
        start   the position of the first of x, when that of the first of ``memory`` is 0

        A token that sees none gets zeros from attention, where torch gives NaN.

        ``qkv`` and ``out`` are called once each, as modules: what wraps them or hooks into them has
        its effect. With ``memory``, ``qkv`` runs over x and ``memory`` in a row; the queries of
        ``memory`` and the keys and values of x are not used.

        Raises ``ValueError`` for other shapes.
        """
        self._check(x, memory)
        if x.dim() == 2:
            rows = (key_padding_mask, pieces, memory_pieces)
            padding, pieces, others = (None if each is None else each[None] for each in rows)
            masks = {"key_padding_mask": padding, "pieces": pieces, "memory_pieces": others}
            memory = None if memory is None else memory[None]
            return self.forward(x[None], memory, attn_mask=attn_mask, start=start, **masks)[0]
        count = x.shape[1]
        at = over = Span(start, count)
        if memory is None:
            q, k, v = map(self._split, self.qkv(x).chunk(3, dim=2))
        else:
            over = Span(0, memory.shape[1])
            both = self.qkv(torch.cat([x, memory], dim=1))
            q = self._split(both[:, :count, : self.width])
            k, v = map(self._split, both[:, count:, self.width :].chunk(2, dim=2))
        q, _ = self.position.rotate(q, q, at, at)
        k, _ = self.position.rotate(k, k, over, over)
        key_pieces = pieces if memory is None else memory_pieces
        if key_padding_mask is not None:
            pieces, key_pieces = _without(key_padding_mask, q, k, pieces, key_pieces)
        reach = max(at.stop, over.stop) - min(at.start, over.start)
        mixed = attend(
            q,
            k,
            v,
            self.position.terms(reach=reach),
            query_positions=(at, at),
            key_positions=(over, over),
            causal=self.causal,
            query_pieces=pieces,
            key_pieces=key_pieces,
            hidden=None if attn_mask is None else self._hidden(attn_mask, len(x)),
            dropout=self.dropout if self.training else 0.0,
            implementation=self.implementation,
        )
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return out

    def _check(self, x: Tensor, memory: Tensor | None) -> None:
        """``ValueError`` for inputs that are no sequences of ``width`` channels, or do not fit."""
        for name, each in (("x", x), ("memory", memory)):
            if each is not None and (each.dim() not in (2, 3) or each.shape[-1] != self.width):
                raise ValueError(
                    f"RelativeAttention: {name} has shape {tuple(each.shape)}, expected "
                    f"(batch, tokens, {self.width}) or (tokens, {self.width})"
                )
        if memory is not None and x.shape[:-2] != memory.shape[:-2]:
            raise ValueError(
                f"RelativeAttention: x {tuple(x.shape)} and memory {tuple(memory.shape)} differ in "
                "more than tokens"
            )

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, width) -> (B, heads, T, head_dim)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def _hidden(self, attn_mask: Tensor, batch: int) -> Tensor:
        """torch's ``attn_mask`` as the ``hidden`` of :func:`attend`."""
        if attn_mask.dtype != torch.bool:
            raise ValueError(
                f"RelativeAttention: attn_mask is {attn_mask.dtype}, expected torch.bool, True "
                "where a token is hidden (mask == -inf, for a mask of numbers)"
            )
        if attn_mask.dim() == 3 and len(attn_mask) == batch * self.heads:
            return attn_mask.unflatten(0, (batch, self.heads))
        if attn_mask.dim() != 2:
            raise ValueError(
                f"RelativeAttention: attn_mask has shape {tuple(attn_mask.shape)}, expected "
                f"(tokens, keys) or ({batch * self.heads}, tokens, keys)"
            )
        return attn_mask


def _without(
    padding: Tensor, q: Tensor, k: Tensor, pieces: Tensor | None, key_pieces: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The pieces of queries and keys so that no query sees a key where ``padding`` is True: such
    keys are a piece that no query is of."""
    expected = (k.shape[0], k.shape[2])
    if padding.dtype != torch.bool or padding.shape != expected:
        raise ValueError(
            f"RelativeAttention: key_padding_mask is {padding.dtype} {tuple(padding.shape)}, "
            f"expected torch.bool {expected}, True where a key is padding"
        )
    zeros = torch.zeros(1, dtype=torch.int64, device=k.device)
    pieces = zeros.expand(len(q), q.shape[2]) if pieces is None else pieces
    key_pieces = zeros.expand(expected) if key_pieces is None else key_pieces
    return pieces, torch.where(padding, pieces.amin() - 1, key_pieces)
