"""Quantisation of matrices to int8: each row is integers from -127 to 127 times its own scale."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

#: The largest absolute value of the integers.
LARGEST = 127
#: The suffix of the name under which the scales of a matrix are stored.
SCALES = ".scales"


def quantise(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a matrix (..., inputs). Return int8 integers (..., inputs) and float32 scales (...),
    which are the largest absolute value of each row divided by 127."""
    scales = matrix.float().abs().amax(-1) / LARGEST
    return (matrix.float() / scales.clamp(min=1e-30)[..., None]).round().to(torch.int8), scales


def dequantise(integers: Tensor, scales: Tensor) -> Tensor:
    """Return the float32 matrix (..., inputs) for the results of :func:`quantise`."""
    return integers.float() * scales.float()[..., None]


def quantise_matrices(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the quantised matrices among ``weights`` and their scales, by name."""
    stored = {}
    for name, tensor in weights.items():
        if tensor.is_floating_point() and tensor.dim() > 1:
            stored[name], stored[name + SCALES] = quantise(tensor)
    return stored


def dequantise_matrices(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return ``stored`` with float32 matrices in place of int8 tensors and their scales. Tensors
    without scales of the right shape stay as they are."""
    weights = dict(stored)
    for name, integers in stored.items():
        scales, shape = stored.get(name + SCALES), integers.shape[:-1]
        if scales is not None and integers.dtype == torch.int8 and scales.shape == shape:
            weights[name] = dequantise(integers, weights.pop(name + SCALES))
    return weights
