"""Weights of fewer bits: a model that is read faster because it is smaller.

A step of decoding takes as long as its weights take to be read. bfloat16 halves that, int8 with a
scale for each output halves it again. The model's own parameters are rounded to what these formats
can hold, so that whatever computes with them, the step in C++ or torch on any device, computes the
same function; the step on a CPU that multiplies small numbers rounds what they are multiplied with
too (attention/native/bfloat16.h, int8.h).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from musictx.config.composing import WEIGHTS
from musictx.model.block import Block
from musictx.model.transformer import MusicTransformer


@torch.no_grad()
def rounded(model: MusicTransformer, weights: str) -> MusicTransformer:
    """``model`` itself, its matrices and its tables of distances rounded to ``weights``, one of
    :data:`WEIGHTS`; with int8 the tables are bfloat16.

    Norms, biases and what the features have learned stay as they are. ``ValueError`` for another
    format.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"weights={weights}: expected one of " + ", ".join(WEIGHTS))
    if weights != "float32":
        for matrix in matrices(model):
            if weights == "int8":
                whole, scale = whole_numbers(matrix)
                matrix.copy_(whole * scale[:, None])
            else:
                matrix.copy_(matrix.bfloat16())
        for table in model.position.parameters():
            if table.dim() == 3:
                table.copy_(table.bfloat16())
    model.weights = weights
    return model


def matrices(model: MusicTransformer) -> list[Tensor]:
    """The matrices (outputs, inputs) that every token is multiplied with."""
    found = [model.embedding.weight if model.output is None else model.output.weight]
    for block in model.blocks:
        assert isinstance(block, Block)
        maps = (block.attention.qkv, block.attention.out, *block.feedforward)
        found += [linear.weight for linear in maps if isinstance(linear, nn.Linear)]
        found += [] if block.attention.gates is None else [block.attention.gates]
    return found


def whole_numbers(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(outputs, inputs) -> whole numbers from -127 to 127 as float32, and the scale of each output:
    the largest weight of an output becomes 127."""
    scale = matrix.abs().amax(1).clamp(min=1e-30) / 127
    return (matrix / scale[:, None]).round(), scale
