"""The request of a page for a take, and the command line that composes the same."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from musictx import options
from musictx.beats import Beats
from musictx.config import SamplingConfig, TokenSampling
from musictx.config.checks import LARGEST_SEED
from musictx.config.composing import MOST_AT_ONCE
from musictx.studio.change import Seconds, TrackId
from musictx.studio.config import KEEP
from musictx.studio.errors import Refused, validate
from musictx.studio.models import MUSIC, Model, Models, Task

#: The longest new music, in seconds and in bars.
LONGEST, MOST_BARS = 300.0, 128
#: The length of new music if none is given, in seconds.
DEFAULT_SECONDS = 8.0
#: Options of sampling that the command ``harmonise`` lacks.
NOT_FOR_MELODIES = {*SamplingConfig.__match_args__} - {*TokenSampling.__match_args__}


@dataclass(frozen=True)
class Request:
    """One request of a page.

    begin, end     the selection, in seconds of the document
    tracks         ids of the selected tracks; None: all
    seconds, bars  the length of new music, if the task is "new" or "continue"
    keep           the share of the selected notes that stay in a variation
    controls, sampling, quantise  options of the command; :meth:`config` checks them
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    task: Task
    begin: Seconds = 0.0
    end: Seconds = 0.0
    tracks: tuple[TrackId, ...] | None = None
    seconds: Annotated[float, Field(ge=0.1, le=LONGEST)] | None = None
    bars: Annotated[int, Field(ge=1, le=MOST_BARS)] | None = None
    samples: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = 1
    controls: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    keep: Annotated[float, Field(ge=0, le=1)] = KEEP.default
    quantise: Any = None
    model: str | None = None
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0

    def config(self, model: Model, **input_options: Any) -> Any:
        """Return the options of the command, with ``input_options``, but without the name of the
        file. Raise :class:`UserError` if an option is invalid."""
        values = {**self.controls, "seed": self.seed, "samples": self.samples, **input_options}
        values["sampling"] = self.sampling
        if self.task == "harmonise":
            names = self.sampling.keys() - NOT_FOR_MELODIES
            values["sampling"] = {name: self.sampling[name] for name in names}
        elif self.quantise is not None:
            values["quantise"] = self.quantise
        config = options.make_config(command_of(self.task), values)
        config.model.path = model.option
        return config


def parse_request(
    data: Mapping[str, Any], models: Models, duration: float, music: str = MUSIC[0]
) -> tuple[Request, Model]:
    """Return the request of a page, from its JSON ``data``, and the model that composes it.

    By default the model is chosen by the kind of ``music``, and the selection ends at ``duration``
    seconds. Raise :class:`Refused` for an invalid field, except options of the command."""
    from musictx.apps.results import fresh_seed  # imports torch

    fields = {name: value for name, value in data.items() if value is not None}
    fields.pop("revision", None)
    request = validate(Request, {"end": duration, "seed": fresh_seed(), **fields})
    model = models.choose(request.model, request.task, music)
    if "end" not in fields:
        request = replace(request, end=max(request.end, request.begin))
    if request.end < request.begin:
        raise Refused(f"end={request.end:g}: expected at least begin={request.begin:g}")
    for name in request.controls:
        if name not in model.followed_controls:
            raise Refused(f"{name[:20]}: the model {model.name} does not follow it")
    if request.task not in ("new", "continue"):
        return replace(request, seconds=None, bars=None), model
    if request.seconds and request.bars:
        raise Refused("seconds, bars: expected only one of them")
    seconds = None if request.bars else request.seconds or DEFAULT_SECONDS
    return replace(request, seconds=seconds), model


def label(request: Request, beats: Beats) -> str:
    """Return a short description of the request for the user."""
    if request.task not in ("new", "continue"):
        return f"{request.task} {bar_range(request, beats)}"
    if request.bars is None:
        return f"{request.task}, {request.seconds:g} s"
    return f"{request.task}, {request.bars} bar{'s' if request.bars > 1 else ''}"


def bar_range(request: Request, beats: Beats) -> str:
    """Return the selected bars in words, such as "bars 2 to 3"; a pick-up is bar 0."""
    first = beats.bar_at(request.begin) - beats.pickup
    last = max(beats.bar_at(request.end, ends=True) - beats.pickup, first)
    return f"bar {first}" if first == last else f"bars {first} to {last}"


def command_line(request: Request, config: Any) -> str:
    """Return the command that composes the same notes when run in the folder of the takes."""
    command = command_of(request.task)
    verb = "continue" if request.task == "continue" else command
    return shlex.join(["musictx", verb, *options.words(command, config)])


def command_of(task: str) -> str:
    """Return the name of the command for a task."""
    commands = {"new": "generate", "continue": "generate", "replace": "infill", "vary": "infill"}
    return commands.get(task, task)
