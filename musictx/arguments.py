"""Arguments of the public functions, as a person has them at hand -> what the rooms below take.

What cannot be taken is a :class:`~musictx.errors.UserError` that names the argument, what came and
what would be right.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from musictx import shipped
from musictx.bundle import Bundle, load
from musictx.errors import UserError
from musictx.formats import read
from musictx.notes import Score


def bundle_of(model: Any, *, melody: bool = False) -> Bundle:
    """A loaded model, or the one of a folder or name; None: the newest, as on the command line."""
    if isinstance(model, Bundle):
        return model
    if model is None:
        model = shipped.find_latest(melody=melody)
    if isinstance(model, (str, os.PathLike)):
        return load(model)  # type: ignore[arg-type]
    raise UserError(
        f"model: {type(model).__name__} is no model; expected a loaded one (musictx.load), its "
        f"folder or a name such as {', '.join(shipped.models())}"
    )


def music_of(music: Any, name: str) -> Score:
    """``music`` (``api.Music``, or a sample) as a Score; ``name`` is the argument's, for errors."""
    if isinstance(music, str) and not os.path.exists(os.path.expanduser(music)):
        music = shipped.examples().get(music, music)
    try:
        return read(getattr(music, "score", music))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def sampling_of(given: Any, kind: type[Any]) -> Any:
    """``given`` as an instance of ``kind``; None stays."""
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, str):
        from musictx.compose import conf_dir

        presets = {file.stem: file for file in (conf_dir() / "sampling").glob("*.yaml")}
        if given not in presets:
            names = ", ".join(sorted(presets))
            raise UserError(f"sampling={given}: expected one of {names}, options or SamplingConfig")
        given = yaml.safe_load(presets[given].read_text(encoding="utf-8")) or {}
    if not isinstance(given, Mapping):
        raise UserError(
            f"sampling={given!r}: expected a SamplingConfig, options such as "
            "{'temperature': 0.9}, or the name of a preset such as 'safe'"
        )
    known = [field.name for field in dataclasses.fields(kind)]
    for name, value in given.items():
        if name not in known:
            raise UserError(f"sampling.{name}: no such option; expected {', '.join(known)}")
        texts = (str,) if name in ("key", "scale", "low", "high") else ()
        kinds = (dict,) if name == "temperatures" else (bool, int, float, *texts)
        if value is not None and not isinstance(value, kinds):
            expected = "numbers by kind" if name == "temperatures" else "a number"
            raise UserError(f"sampling.{name}={value!r}: expected {expected}")
    return kind(**given)


def seed_of(seed: Any) -> int:
    """``seed``, or a new one, which is printed."""
    if seed is None:
        seed = secrets.randbelow(2**31)
        print(f"seed: {seed}", flush=True)
    return whole("seed", seed, 0)


def checked(options: type[Any], **given: Any) -> None:
    """``ConfigError`` for what the ``options`` of a command, a dataclass, cannot be."""
    options(**{n: v.item() if isinstance(v, np.generic) else v for n, v in given.items()})


def whole(name: str, value: Any, low: int) -> int:
    """``value`` if it is a whole number of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
        raise UserError(f"{name}={value!r}: expected a whole number from {low} to {2**31 - 1}")
    return value
