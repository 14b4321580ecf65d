"""Matrices as bytes: each row as whole numbers from -127 to 127, times one number for the row."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

#: The largest of the whole numbers.
LARGEST = 127
#: The scales of a matrix are stored under its name and this.
SCALES = ".scales"


def rounded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(..., inputs) float -> the nearest whole numbers (..., inputs) int8, and the scales (...)
    float32: a row's largest number is 127 scales."""
    scales = matrix.float().abs().amax(-1) / LARGEST
    return (matrix.float() / scales.clamp(min=1e-30)[..., None]).round().to(torch.int8), scales


def restored(whole: Tensor, scales: Tensor) -> Tensor:
    """What :func:`rounded` has given, as float32 (..., inputs)."""
    return whole.float() * scales.float()[..., None]


def as_bytes(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The matrices among ``weights`` as whole numbers, and their scales, by name."""
    stored = {}
    for name, tensor in weights.items():
        if tensor.is_floating_point() and tensor.dim() > 1:
            stored[name], stored[name + SCALES] = rounded(tensor)
    return stored


def of_bytes(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``stored`` with matrices in place of whole numbers and scales that fit together."""
    weights = dict(stored)
    for name, whole in stored.items():
        scales = stored.get(name + SCALES)
        if scales is not None and whole.dtype == torch.int8 and scales.shape == whole.shape[:-1]:
            weights[name] = restored(whole, weights.pop(name + SCALES))
    return weights
