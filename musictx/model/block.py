"""One layer of the network: attention and the feed-forward part, each on a residual branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.attention import attend, reference
from musictx.attention.job import Setting
from musictx.attention.positions import PositionScheme
from musictx.attention.terms import Positions
from musictx.model.cache import KVCache
from musictx.model.config import NetworkConfig


@dataclass
class ForwardPass:
    """What all layers of one forward pass share.

    query_positions, key_positions  the coordinates of the tokens and of all keys: the index in the
                  sequence, the position in the piece (of keys with a cache: the index again), and
                  those that the scheme computes from the ids, such as the pitch
    pieces        (B, T) int64: the piece of each token; None: each row is one piece
    reach         the greatest distance between two keys, by index
    first_values  the values of layer 0, which stores them here
    """

    scheme: PositionScheme
    query_positions: tuple[Positions, ...]
    key_positions: tuple[Positions, ...]
    pieces: Tensor | None
    reach: int
    cache: KVCache | None
    first_values: Tensor | None = None


class Attention(nn.Module):
    """Multi-head self-attention of one layer; the position scheme is in the ``ForwardPass``.

    With ``gates``, the output of each head is multiplied by a number from 0 to 2 that is computed
    from the token and initially 1. With ``first_values``, each layer except layer 0 interpolates
    between its own values and those of layer 0, with a learned weight for each head, initially 0
    (value residuals, Zhou et al. 2024).
    """

    def __init__(self, config: NetworkConfig, layer: int) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.layer = layer
        self.heads = heads
        self.dropout = config.dropout
        self.implementation = config.attention
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.gates = nn.Parameter(torch.zeros(heads, width)) if config.gates else None
        has_weight = config.first_values and layer > 0
        self.first_values = nn.Parameter(torch.zeros(heads, 1, 1)) if has_weight else None

    def forward(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        """(B, T, width) -> (B, T, width). Layer 0 stores its values in ``forward_pass``."""
        q, k, v = self._heads(x, forward_pass)
        if forward_pass.first_values is None:
            forward_pass.first_values = v
        elif self.first_values is not None:
            v = torch.lerp(v, forward_pass.first_values, self.first_values.to(v.dtype))
        if forward_pass.cache is not None:
            k, v = forward_pass.cache.append(self.layer, k, v)
            k, v = k.to(q.dtype), v.to(q.dtype)
        head_outputs = attend(
            q,
            k,
            v,
            forward_pass.scheme.terms(self.layer, reach=forward_pass.reach),
            query_positions=forward_pass.query_positions,
            key_positions=forward_pass.key_positions,
            query_pieces=forward_pass.pieces,
            key_pieces=forward_pass.pieces,
            dropout=self.dropout if self.training else 0.0,
            implementation=self.implementation,
        )
        if self.gates is not None:
            gates = 2 * torch.sigmoid(F.linear(x, self.gates)).transpose(1, 2)
            head_outputs = head_outputs * gates[..., None].to(head_outputs.dtype)
        out: Tensor = self.out(head_outputs.transpose(1, 2).reshape(x.shape))
        return out

    def weights(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        """Compute the attention weights of :meth:`forward`, without a cache and before dropout:
        (B, heads, T, T)."""
        q, k, _ = self._heads(x, forward_pass)
        terms = forward_pass.scheme.terms(self.layer, reach=forward_pass.reach)
        setting = Setting(
            terms.used_positions(forward_pass.query_positions),
            terms.used_positions(forward_pass.key_positions),
            query_pieces=forward_pass.pieces,
            key_pieces=forward_pass.pieces,
        )
        return reference.attention_weights(q, k, terms, setting)

    def _heads(self, x: Tensor, forward_pass: ForwardPass) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, rotated by their positions, and values of x (B, T, width):
        (B, heads, T, head_dim) each."""
        qkv = self.qkv(x).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        index = forward_pass.query_positions[0]
        return *forward_pass.scheme.rotate(q, k, index, index), v


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)); dropout on both branches."""

    def __init__(self, config: NetworkConfig, layer: int) -> None:
        super().__init__()
        width, feedforward = config.width, config.feedforward
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(config, layer)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward), nn.GELU(), nn.Linear(feedforward, width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, forward_pass: ForwardPass) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), forward_pass))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


@torch.no_grad()
def attention_weights(model: nn.Module, ids: Tensor, layer: int) -> Tensor:
    """Compute the attention weights of one layer of a :class:`~musictx.model.MusicTransformer`,
    before its dropout: (B, heads, T, T), float32. Row i has the weights of the query ``ids[:, i]``,
    which sum to 1. In training mode, dropout of earlier layers affects them.

    ids    (B, T) int64, as in :meth:`MusicTransformer.forward`. If the network reads ids in groups
           (``model.config.group``), T is the number of groups
    layer  counted from 0

    Memory and time grow with T x T, whichever implementation the model uses. Raises
    ``IndexError`` for a layer that does not exist. ::

        weights = attention_weights(musictx.load("chorale").model, ids, layer=0)
    """
    blocks: Any = model.blocks
    attention = blocks[layer].attention
    assert isinstance(attention, Attention)
    weights: list[Tensor] = []

    def add_weights(module: Attention, inputs: tuple[Tensor, ForwardPass]) -> None:
        weights.append(module.weights(*inputs))

    handle = attention.register_forward_pre_hook(add_weights)
    try:
        model(ids)
    finally:
        handle.remove()
    return weights[0]
