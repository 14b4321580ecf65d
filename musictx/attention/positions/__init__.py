"""Position schemes by name."""

from __future__ import annotations

from musictx.attention.positions.absolute import Plain, Sinusoidal
from musictx.attention.positions.base import PositionScheme
from musictx.attention.positions.huang import Huang
from musictx.errors import ConfigError

__all__ = ["SCHEMES", "PositionScheme", "build"]

SCHEMES: dict[str, type[PositionScheme]] = {
    "huang": Huang,
    "none": Plain,
    "sinusoidal": Sinusoidal,
}


def build(
    name: str,
    *,
    heads: int,
    head_dim: int,
    width: int,
    max_distance: int,
    shared: bool = False,
    layers: int = 1,
) -> PositionScheme:
    """The scheme called ``name`` for a model of ``layers`` layers.

    ``max_distance`` is the number of distances with an entry of their own, in tokens. Raises
    :class:`ConfigError` for a name that is not in :data:`SCHEMES` or a ``max_distance`` below 1.
    """
    if name not in SCHEMES:
        raise ConfigError(f"position.name={name}: expected one of " + ", ".join(SCHEMES))
    if max_distance < 1:
        raise ConfigError(f"position.max_distance={max_distance}: expected at least 1")
    return SCHEMES[name](
        layers=layers,
        heads=heads,
        head_dim=head_dim,
        width=width,
        max_distance=max_distance,
        shared=shared,
    )
