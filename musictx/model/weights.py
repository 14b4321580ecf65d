"""The attention weights of one layer, for pictures and measurements."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from musictx.model.block import Attention
from musictx.model.transformer import MusicTransformer


@torch.no_grad()
def attention_weights(model: MusicTransformer, ids: Tensor, layer: int) -> Tensor:
    """How much each token looks at each token in ``layer``, from 0: (B, heads, T, T), float32; row
    i are the weights of the query ``ids[:, i]``, which sum to 1.

    ids  (B, T) int64, as of :meth:`MusicTransformer.forward`. The T are steps where a network takes
         a group of ids as one step (``model.config.group``).

    Dense, whatever computes the attention of the model: memory and time grow with T x T. The
    weights are those before dropout. Raises ``IndexError`` for a layer that is not there. ::

        weights = attention_weights(musictx.load("chorale").model, ids, layer=0)
    """
    attention = model.blocks[layer].attention
    assert isinstance(attention, Attention)
    weights: list[Tensor] = []

    def watch(module: Attention, inputs: tuple[Any, ...]) -> None:
        x, scheme, number, where, *_ = inputs
        weights.append(module.weights(x, scheme, number, where))

    handle = attention.register_forward_pre_hook(watch)
    try:
        model(ids)
    finally:
        handle.remove()
    return weights[0]
