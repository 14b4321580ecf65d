"""Arguments of the public functions, as a person has them at hand -> what the rooms below take.

What cannot be taken is a :class:`~musictx.errors.UserError` that names the argument, what came and
what would be right.
"""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import yaml

from musictx import shipped
from musictx.bundle import Bundle, load
from musictx.config import SamplingConfig, TokenSampling
from musictx.config.checks import type_of
from musictx.config.composing import Steered, Written
from musictx.errors import UserError, shown
from musictx.formats import read
from musictx.grid import grid_of
from musictx.notes import Score
from musictx.tokens.controls import control_values
from musictx.tokens.vocab import SoftConstraint

if TYPE_CHECKING:
    from musictx.sampling.processors import Processor

Request = TypeVar("Request", bound=Written)
Music = TypeVar("Music", bound=Steered)
Sampling = TypeVar("Sampling", bound=TokenSampling)


def bundle_of(
    model: Any,
    *,
    tokenizer: str | None = None,
    score: Score | None = None,
    on_beats: bool = False,
) -> Bundle:
    """A loaded model, or the one of a folder or name; None: the newest, or the one that comes with
    musictx for such music as ``score``, or for music ``on_beats``, as on the command line."""
    if isinstance(model, Bundle):
        return model
    if model is None:
        on_beats = on_beats or (score is not None and grid_of(score).on_beats)
        model = shipped.find_latest(tokenizer=tokenizer, on_beats=on_beats)
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


def sampling_of(sampling: Any, kind: type[Sampling]) -> Sampling:
    """A config, options by name, or the name of a preset, as an instance of ``kind``; None: the
    defaults."""
    if sampling is None or isinstance(sampling, kind):
        return sampling or kind()
    if isinstance(sampling, str):
        from musictx.compose import conf_dir

        presets = {file.stem: file for file in (conf_dir() / "sampling").glob("*.yaml")}
        if sampling not in presets:
            names = ", ".join(sorted(presets))
            raise UserError(
                f"sampling={shown(sampling)}: expected one of {names}, options or SamplingConfig"
            )
        sampling = yaml.safe_load(presets[sampling].read_text(encoding="utf-8")) or {}
    if not isinstance(sampling, Mapping):
        raise UserError(
            f"sampling={shown(sampling)}: expected a SamplingConfig, options such as "
            "{'temperature': 0.9}, or the name of a preset such as 'safe'"
        )
    known = [field.name for field in dataclasses.fields(kind)]
    sampling = {name: plain(value) for name, value in sampling.items()}
    for name, value in sampling.items():
        if name not in known:
            raise UserError(f"sampling.{name}: no such option; expected {', '.join(known)}")
        texts = (str,) if name in ("key", "scale", "low", "high", "density") else ()
        kinds = (dict,) if name == "temperatures" else (bool, int, float, *texts)
        if value is not None and not isinstance(value, kinds):
            expected = "numbers by kind" if name == "temperatures" else "a number"
            raise UserError(f"sampling.{name}={shown(repr(value))}: expected {expected}")
    if sampling.get("temperatures"):  # those of other kinds stay, as on the command line
        sampling["temperatures"] = SamplingConfig().temperatures | sampling["temperatures"]
    return kind(**sampling)


def seed_of(seed: Any) -> int:
    """``seed``, or a new one, which is printed."""
    if seed is None:
        seed = secrets.randbelow(2**31)
        print(f"seed: {seed}", flush=True)
    return whole_number("seed", seed, 0)


def request_of(kind: type[Request], **options: Any) -> Request:
    """The options of a command, a dataclass ``kind``; ``ConfigError`` for what they cannot be."""
    types = {field.name: type_of(field) for field in dataclasses.fields(kind)}
    for name, value in options.items():
        wanted = {"bool": bool, "str": str, "str | None": str}.get(types[name], object)
        if value is not None and not isinstance(plain(value), wanted):
            expected = "True or False" if wanted is bool else "text"
            raise UserError(f"{name}={shown(value)}: expected {expected}")
    return kind(**{name: plain(value) for name, value in options.items()})


def plain(value: Any) -> Any:
    """A number of numpy as one of Python; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def steered_request(
    kind: type[Music],
    sampling: Any,
    density: float | str | None = None,
    *,
    quantise: str | int = "none",
    **options: Any,
) -> Music:
    """The same for a command that can be told what its music is to be like: a density in numbers or
    words goes before that of ``sampling``, controls and grids may be numbers."""
    drawn, density = sampling_of(sampling, SamplingConfig), plain(density)
    if density is not None:
        drawn = dataclasses.replace(drawn, density=control_values({"density": density})["density"])
    for name in ("loudness", "register", "polyphony"):
        if options.get(name) is not None:
            options[name] = shown(options[name])
    return request_of(kind, sampling=drawn, quantise=shown(quantise), **options)


def whole_number(name: str, value: Any, low: int) -> int:
    """``value`` if it is a whole number of at least ``low``."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
        came = shown(value) if isinstance(value, int) else shown(repr(value))
        raise UserError(f"{name}={came}: expected a whole number from {low} to {2**31 - 1}")
    return value


def list_of_functions(name: str, value: Any) -> tuple[Any, ...]:
    """``value`` if it is a list of functions."""
    if not isinstance(value, (list, tuple)) or not all(map(callable, value)):
        raise UserError(f"{name}={shown(value)}: expected a list of functions")
    return tuple(value)


def processors_of(value: Any) -> list[Processor]:
    """``value`` if it is a list of functions, each held to what a rule may give."""
    from torch import Tensor

    def held(number: int, process: Processor) -> Processor:
        def checked(ids: Tensor, logits: Tensor) -> Tensor:
            found: Any = process(ids, logits)
            right = isinstance(found, Tensor) and found.shape == logits.shape
            right = right and found.is_floating_point() and found.device == logits.device
            if not right or not bool((found.amax(-1) > -np.inf).all()):  # also where it is NaN
                raise UserError(
                    f"processors[{number}]: expected logits of shape {tuple(logits.shape)}, not "
                    f"NaN, with an id left in each row, not {_of_shape(found)}"
                )
            return found

        return checked

    return [held(number, one) for number, one in enumerate(list_of_functions("processors", value))]


def constraints_of(value: Any) -> list[SoftConstraint]:
    """The same of soft constraints."""

    def held(number: int, constraint: SoftConstraint) -> SoftConstraint:
        def checked(states: Any, past: np.ndarray) -> np.ndarray:
            found = np.asarray(constraint(states, past))
            size = len(states[0].allowed())
            if found.shape not in ((size,), (len(states), size)) or np.isnan(found).any():
                raise UserError(
                    f"constraints[{number}]: expected nats of shape ({size},) or "
                    f"({len(states)}, {size}), not NaN, not {_of_shape(found)}"
                )
            return found

        return checked

    return [held(number, one) for number, one in enumerate(list_of_functions("constraints", value))]


def _of_shape(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"shape {tuple(shape)}"


def optional_function(name: str, value: Any) -> Any:
    """``value`` if it is a function or None."""
    if value is not None and not callable(value):
        raise UserError(f"{name}={shown(value)}: expected a function")
    return value


def as_list(name: str, value: Any) -> list[Any]:
    """``value`` as a list; a text or a number is one of one thing."""
    if isinstance(value, (list, tuple, range)):
        return [plain(one) for one in value]
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return [value]
    raise UserError(f"{name}={shown(value)}: expected a list")
