"""Position schemes by name."""

from __future__ import annotations

from typing import Any

from musictx.attention.positions.absolute import Beside, Learned, Plain, Sinusoidal
from musictx.attention.positions.alibi import ALiBi
from musictx.attention.positions.base import Options, PositionScheme
from musictx.attention.positions.huang import Huang
from musictx.attention.positions.huang_local import HuangLocal
from musictx.attention.positions.rotary import Rotary
from musictx.attention.positions.shaw import Shaw
from musictx.attention.positions.t5 import T5
from musictx.attention.positions.transformer_xl import TransformerXL
from musictx.attention.positions.two_d import TwoD
from musictx.errors import ConfigError

__all__ = ["SCHEMES", "Options", "PositionScheme", "build", "complete"]

SCHEMES: dict[str, type[PositionScheme]] = {
    "huang": Huang,
    "huang_local": HuangLocal,
    "shaw": Shaw,
    "transformer_xl": TransformerXL,
    "t5": T5,
    "alibi": ALiBi,
    "rotary": Rotary,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "two_d": TwoD,
    "none": Plain,
}


def complete(position: dict[str, Any], *, context: int, width: int) -> dict[str, Any]:
    """The arguments of :func:`build` in ``position``, with what the scheme needs and None left open
    set for a model that reads ``context`` tokens. What stays None is left out, except
    ``max_distance``."""
    given = {"name": "huang", "max_distance": None, "shared": False} | position
    if given["name"] in SCHEMES:
        for name, value in SCHEMES[given["name"]].defaults(context, width).items():
            if given.get(name) is None:
                given[name] = value
    for name in ("cycles", "sinusoids"):  # not said where not used
        if not given.get(name):
            given.pop(name, None)
    return {k: v for k, v in given.items() if v is not None or k == "max_distance"}


def build(
    name: str,
    *,
    heads: int,
    head_dim: int,
    width: int,
    max_distance: int | None = None,
    layers: int = 1,
    context: int = 256,
    **more: Any,
) -> PositionScheme:
    """The scheme called ``name`` for a model of ``layers`` layers.

    ``more`` are fields of :class:`Options`; those left out, or None, follow from ``context``.
    Raises :class:`ConfigError` for a name not in :data:`SCHEMES` and for numbers that cannot be.
    """
    if name not in SCHEMES:
        raise ConfigError(f"position.name={name}: expected one of " + ", ".join(SCHEMES))
    given = complete(
        {"name": name, "max_distance": max_distance} | more, context=context, width=width
    )
    del given["name"]
    if given["max_distance"] is None:
        del given["max_distance"]
    try:
        options = Options(layers=layers, heads=heads, head_dim=head_dim, width=width, **given)
    except TypeError as error:
        raise ConfigError(f"position: {str(error).partition(') ')[2]}") from None
    for option in ("max_distance", "block", "first_layers", "max_time"):
        value = getattr(options, option)
        if value < 1:
            raise ConfigError(f"position.{option}={value}: expected at least 1")
    if options.features < 2 or options.features % 2:
        raise ConfigError(f"position.features={options.features}: expected an even number from 2")
    parts = 2 if options.causal else 4
    most = parts * options.max_distance
    if name == "t5" and not parts <= options.buckets < most:
        raise ConfigError(
            f"position.buckets={options.buckets}: expected {parts} to {most - 1}, so that there "
            f"are exact ones and wide ones below position.max_distance={options.max_distance}"
        )
    if options.sinusoids < 0 or options.sinusoids % 2:
        raise ConfigError(f"position.sinusoids={options.sinusoids}: expected an even number from 0")
    if any(n < 2 for n in options.cycles):
        raise ConfigError(f"position.cycles={list(options.cycles)}: expected numbers from 2")
    scheme = SCHEMES[name](options)
    if options.sinusoids or options.cycles:
        scheme.beside = Beside(options)
    return scheme
