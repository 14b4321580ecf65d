"""Relative position representations: Shaw et al. (2018), section 3."""

from __future__ import annotations

from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.attention.positions.huang import learned_tables
from musictx.attention.terms import Axis, Terms


class Shaw(PositionScheme):
    """Vectors added to keys and to values, by distance clipped to max_distance (k in the paper):

        e_ij = <q_i, k_j + a_K[clip(j - i, -k, k)]> / sqrt(D)
        z_i = sum over j of w_ij (v_j + a_V[clip(j - i, -k, k)])

    Tables have a row for each distance from -k to k, causal ones from 0 to k. In the paper all
    heads share them (``shared``).
    """

    def __init__(self, sizes: Sizes, *, max_distance: int, shared: bool) -> None:
        super().__init__(sizes)
        low, self.high = sizes.low(max_distance), max_distance
        self.key_tables = learned_tables(sizes, shared, low, self.high)
        self.value_tables = learned_tables(sizes, shared, low, self.high)

    def terms(self, layer: int = 0, *, reach: int = 0) -> Terms:
        low = self.sizes.low(self.high)
        axis = Axis(table=self.key_tables[layer], low=low, high=self.high)
        return Terms(self.scale, (axis,), value_table=self.value_tables[layer])
