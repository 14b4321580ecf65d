"""Position schemes by name, or by the import path of a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from musictx.attention.positions.added import AddedPositions
from musictx.attention.positions.base import PositionScheme, Sizes
from musictx.config.checks import create, import_class
from musictx.config.position import SCHEMES, checked

__all__ = ["SCHEMES", "PositionScheme", "Sizes", "build", "complete", "scheme_of"]

#: Options of any scheme, which add positions to the embeddings (:class:`AddedPositions`).
ADDED_OPTIONS = {"concat_sinusoids", "periods"}


def complete(config: Mapping[str, Any], *, context: int, width: int) -> dict[str, Any]:
    """Check the options of a scheme. Return them as a dict for :func:`build`, in which missing ones
    and None have the defaults for a model of ``context`` tokens and ``width`` channels.

    The options may include ``coordinates``. ``concat_sinusoids`` and ``periods`` are left out if
    they add nothing. Raises :class:`ConfigError` for an unknown or invalid option.
    """
    options = dict(config)
    coordinates = options.pop("coordinates", None)
    options = checked(options)
    for name, value in scheme_of(options["name"]).defaults(context, width).items():
        if options.get(name) is None:
            options[name] = value
    for name in ADDED_OPTIONS:
        if not options.get(name):
            options.pop(name, None)
    if coordinates is not None:
        options["coordinates"] = coordinates
    return {name: value for name, value in options.items() if value is not None}


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
    """Build the scheme of ``config``, such as {"name": "huang", "max_distance": 512}. The defaults
    of missing options depend on ``context`` and ``width``.

    Raises :class:`ConfigError` for an unknown name or option, or a number out of bounds.
    """
    options = complete(config, context=context, width=width)
    name = options.pop("name")
    sizes = Sizes(layers, heads, head_dim, width, causal, options.pop("coordinates", None))
    added = {key: options.pop(key) for key in ADDED_OPTIONS & options.keys()}
    scheme: PositionScheme = create("position.name", name, scheme_of(name), sizes, **options)
    if added:
        scheme.added = AddedPositions(width, **added)
    return scheme


def scheme_of(name: str) -> type[PositionScheme]:
    """The class of a scheme by name or import path. Raises ``ConfigError`` if there is none."""
    target = SCHEMES[name].target if name in SCHEMES else name
    scheme: type[PositionScheme] = import_class("position.name", target, PositionScheme)
    return scheme
