"""``RelativeAttention``: multi-head attention with a position scheme, for use in other models."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from musictx.attention import positions
from musictx.attention.api import attend, why_not
from musictx.attention.job import first_keys
from musictx.attention.terms import PLACE, Positions, Span
from musictx.config.checks import require
from musictx.errors import ConfigError


class RelativeAttention(nn.Module):
    """Multi-head self- or cross-attention with relative positions.

    ::

        layer = RelativeAttention(width=256, heads=4)                        # Huang et al. 2018
        y = layer(x)                                                         # (B, T, 256), causal

        layer = RelativeAttention(256, 4, position={"name": "shaw"}, causal=False)
        y = layer(x, pieces=pieces)                                          # packed sequences
        y = layer(x, key_padding_mask=padding)                               # as in torch

        cross = RelativeAttention(256, 4, position="t5", causal=False)
        y = cross(x, memory)                                                 # cross-attention

    width           channels of the inputs, a multiple of ``heads``
    position        a scheme by name, or with its options (musictx/config/position.py). Schemes that
                    use the pitch or time of tokens need the whole model, MusicTransformer
    causal          no token attends to a later one
    context         the usual number of tokens, on which the defaults of some options depend
    dropout         of attention weights, in training
    implementation  as in :func:`attend`

    Raises ``ConfigError`` for an unknown scheme or an invalid option.
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
        for name, value in (("width", width), ("heads", heads), ("context", context)):
            is_integer = isinstance(value, Integral) and not isinstance(value, bool)
            require(is_integer and value > 0, name, repr(value), "an integer above 0")
        require(width % heads == 0, "heads", heads, f"a divisor of width={width}")
        require(causal in (True, False), "causal", causal, "True or False")
        require(0 <= dropout < 1, "dropout", dropout, "0 up to but not including 1")
        self.width, self.heads, self.causal = width, heads, causal
        self.dropout, self.implementation = dropout, implementation
        config = {"name": position} if isinstance(position, str) else position
        sizes = {"context": context, "width": width}
        options = positions.complete(config, **sizes)
        scheme, base = positions.scheme_of(options["name"]), positions.PositionScheme
        embeds = scheme.embed is not base.embed or positions.ADDED_OPTIONS & options.keys()
        if embeds or scheme.coordinates is not base.coordinates:
            raise ConfigError(
                f"position={position}: it adds to the embeddings or reads tokens, so it needs the "
                "whole model, MusicTransformer"
            )
        self.position = positions.build(
            config, heads=heads, head_dim=width // heads, causal=causal, **sizes
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
        """Attend from x (B, T, width) to ``memory`` (B, S, width), or to x itself (S = T): (B, T,
        width). Tensors without the batch dimension B are allowed, too.

        key_padding_mask  bool (B, S): True hides a key from all queries, as in
                          ``nn.MultiheadAttention``
        attn_mask         bool (T, S) or (B * heads, T, S): True hides a key from a query, as in
                          ``nn.MultiheadAttention``; in addition to ``causal``. Memory use is then
                          proportional to T x S
        pieces            (B, T) int64, to pack several sequences into a row: tokens attend only to
                          keys with the same number, and local attention counts its blocks from
                          the first of these. With ``memory`` also ``memory_pieces`` (B, S)
        start             the position of the first token of x; ``memory`` starts at position 0

        The attention of a token whose keys are all hidden is zero (in torch it is NaN).

        ``qkv`` and ``out`` are called as modules, once each, so that hooks and wrappers such as
        LoRA work. With ``memory``, ``qkv`` is applied to the concatenation of x and ``memory``;
        the queries of ``memory`` and the keys and values of x are not used.

        Raises ``ValueError`` for other shapes.
        """
        self._check(x, memory)
        if (memory_pieces is not None) != (memory is not None and pieces is not None):
            raise ValueError(
                "RelativeAttention: expected memory_pieces if and only if memory and pieces are "
                "both given"
            )
        is_batched = x.dim() == 3
        if not is_batched:
            x, tensors = x[None], (memory, key_padding_mask, pieces, memory_pieces)
            memory, key_padding_mask, pieces, memory_pieces = (
                tensor if tensor is None else tensor[None] for tensor in tensors
            )
        count = x.shape[1]
        query_span = key_span = Span(start, count)
        if memory is None:
            q, k, v = map(self._split, self.qkv(x).chunk(3, dim=2))
        else:
            key_span = Span(0, memory.shape[1])
            qkv = self.qkv(torch.cat([x, memory], dim=1))
            q = self._split(qkv[:, :count, : self.width])
            k, v = map(self._split, qkv[:, count:, self.width :].chunk(2, dim=2))
        q, _ = self.position.rotate(q, q, query_span, query_span)
        k, _ = self.position.rotate(k, k, key_span, key_span)
        of_queries, of_keys = (x.shape[0], count), (x.shape[0], key_span.length)
        _check_mask("key_padding_mask", key_padding_mask, of_keys, is_bool=True)
        _check_mask("pieces", pieces, of_queries)
        _check_mask("memory_pieces", memory_pieces, of_keys)
        key_pieces = pieces if memory is None else memory_pieces
        if key_padding_mask is not None:  # hidden keys get a number that no query has
            zeros = torch.zeros(1, dtype=torch.int64, device=x.device)
            pieces = zeros.expand(of_queries) if pieces is None else pieces
            key_pieces = zeros.expand(of_keys) if key_pieces is None else key_pieces
            key_pieces = torch.where(key_padding_mask, pieces.amin() - 1, key_pieces)
        reach = max(query_span.stop, key_span.stop) - min(query_span.start, key_span.start)
        terms = self.position.terms(reach=reach)
        places: tuple[Positions, Positions] = query_span, key_span
        is_measured = terms.coordinate_count > PLACE and key_span.length > 0
        if is_measured and (first := first_keys(pieces, key_pieces)) is not None:
            places = query_span.tensor(x.device) - first[0], key_span.tensor(x.device) - first[1]
        head_outputs = attend(
            *(q, k, v, terms),
            query_positions=(query_span, places[0]),
            key_positions=(key_span, places[1]),
            causal=self.causal,
            query_pieces=pieces,
            key_pieces=key_pieces,
            hidden=None if attn_mask is None else self._hidden(attn_mask, len(x)),
            dropout=self.dropout if self.training else 0.0,
            implementation=self.implementation,
        )
        out: Tensor = self.out(head_outputs.transpose(1, 2).reshape(x.shape))
        return out if is_batched else out[0]

    def _check(self, x: Tensor, memory: Tensor | None) -> None:
        """Raise ``ValueError`` unless the inputs have ``width`` channels and equal batch sizes."""
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
        """Return the ``hidden`` of :func:`attend` for ``attn_mask``."""
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


def _check_mask(
    name: str, mask: Tensor | None, expected: tuple[int, ...], is_bool: bool = False
) -> None:
    if mask is not None and ((mask.dtype == torch.bool) != is_bool or mask.shape != expected):
        dtype = "torch.bool" if is_bool else "int64"
        raise ValueError(
            f"RelativeAttention: {name} is {mask.dtype} {tuple(mask.shape)}, expected {dtype} "
            f"{expected}"
        )
