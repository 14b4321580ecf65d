"""Position schemes by name, or by the import path of a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from musictx.attention.positions.added import AddedPositions
from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.config.checks import imported, instance
from musictx.config.position import SCHEMES, checked

__all__ = ["SCHEMES", "PositionScheme", "Sizes", "build", "complete", "scheme_of"]

#: Options that add positions to the embeddings with any scheme.
EMBEDDED = {"concat_sinusoids", "periods"}


def complete(config: Mapping[str, Any], *, context: int, width: int) -> dict[str, Any]:
    """The checked options of a scheme as a dict for :func:`build`, with defaults for a model of
    ``context`` tokens and ``width`` channels in place of None.

    The options may include ``coordinates``. ``concat_sinusoids`` and ``periods`` are left out if
    they add nothing. Raises :class:`ConfigError` about an unknown or wrong option.
    """
    given = dict(config)
    coordinates = given.pop("coordinates", None)
    given = checked(given)
    for name, value in scheme_of(given["name"]).defaults(context, width).items():
        if given.get(name) is None:
            given[name] = value
    for name in EMBEDDED:
        if not given.get(name):
            given.pop(name, None)
    if coordinates is not None:
        given["coordinates"] = coordinates
    return {name: value for name, value in given.items() if value is not None}


def build(
    config: Mapping[str, Any],
    *,
    heads: int,
    head_dim: int,
    width: int,
    layers: int = 1,
    context: int = 256,
    causal: bool = True,
) -> PositionScheme:
    """Make the scheme of ``config``, such as {"name": "huang", "max_distance": 512}. Defaults of
    missing options depend on ``context`` and ``width``.

    Raises :class:`ConfigError` for an unknown name or option, or a number out of bounds.
    """
    given = complete(config, context=context, width=width)
    name = given.pop("name")
    sizes = Sizes(layers, heads, head_dim, width, causal, given.pop("coordinates", None))
    embedded = {key: given.pop(key) for key in EMBEDDED & given.keys()}
    scheme: PositionScheme = instance("position.name", name, scheme_of(name), sizes, **given)
    if embedded:
        scheme.added = AddedPositions(width, **embedded)
    return scheme


def scheme_of(name: str) -> type[PositionScheme]:
    """The class of a scheme by name or import path. Raises ``ConfigError`` if there is none."""
    target = SCHEMES[name].target if name in SCHEMES else name
    scheme: type[PositionScheme] = imported("position.name", target, PositionScheme)
    return scheme
