"""Relative position bias of T5: Raffel et al. (2020), section 2.1."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.terms import Axis, Terms
from musictx.config.position import BUCKETS


class T5(PositionScheme):
    """A learned number for each head and bucket of distances is added to the logits.

    Short distances have a bucket each, longer distances share buckets of logarithmic size, and all
    distances from ``max_distance`` on share the last bucket. All layers share the numbers, as in
    the paper. Unlike T5, the products keep the factor 1 / sqrt(head_dim); T5 has smaller initial
    queries instead.
    """

    buckets: Tensor

    def __init__(self, sizes: Sizes, *, max_distance: int) -> None:
        super().__init__(sizes)
        self.low, self.high = sizes.low(max_distance), max_distance
        buckets = [
            bucket(distance, BUCKETS, max_distance, causal=sizes.causal)
            for distance in range(self.low, self.high + 1)
        ]
        self.register_buffer("buckets", torch.tensor(buckets), persistent=False)
        self.bias = nn.Parameter(torch.randn(sizes.heads, BUCKETS) * 0.1)

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        axis = Axis(bias=self.bias[:, self.buckets], low=self.low, high=self.high)
        return Terms(scale=self.scale, axes=(axis,))


def bucket(distance: int, buckets: int, max_distance: int, *, causal: bool) -> int:
    """The bucket of ``distance`` = query - key.

    The first half of the n buckets is for one distance each. A longer distance d has the bucket
    n/2 + floor(n/2 * log(d / (n/2)) / log(max_distance / (n/2))), at most n - 1. Attention that is
    not causal uses half of the buckets in this way for keys up to the query, the others for later
    keys.
    """
    if not causal:
        buckets //= 2
        first = buckets if distance < 0 else 0
        return first + bucket(abs(distance), buckets, max_distance, causal=True)
    distance = max(distance, 0)
    exact = buckets // 2
    if distance < exact:
        return distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    return min(exact + int(share * (buckets - exact)), buckets - 1)
