"""The request of a page, checked; and the command line that does the same."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter

from musictx import options
from musictx.beats import Beats
from musictx.commands import COMMANDS
from musictx.config import SamplingConfig, TokenSampling
from musictx.config.checks import LARGEST_SEED
from musictx.studio.change import Seconds, TrackId
from musictx.studio.errors import Refused, checked
from musictx.studio.models import MUSIC, Model, Models, Task

#: Versions of a take.
MOST_SAMPLES = 8
#: Seconds, and bars, of new music that are composed at once.
LONGEST, MOST_BARS = 300.0, 128
#: Seconds of new music where no length is given.
USUAL = 8.0
#: Options of sampling that harmonising does not have; the key is the melody's.
NOT_FOR_MELODIES = {f.name for f in dataclasses.fields(SamplingConfig)} - {
    f.name for f in dataclasses.fields(TokenSampling)
}


def _fresh_seed() -> int:
    from musictx.apps.results import fresh_seed  # imports torch

    return fresh_seed()


@dataclass(frozen=True)
class Request:
    """One request of a page. Times are in seconds of the document, tracks its ids (None: all).

    begin, end   the selection;  seconds, bars  how much new music, where that is free
    controls, sampling, guidance, quantise  options of the commands, which check them; of a grid
                 that is left open (None) that of the music, where the model counts in seconds
    keep         share of the selected notes that stay in a variation
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    task: Task
    begin: Seconds = 0.0
    end: Seconds = 0.0
    tracks: tuple[TrackId, ...] | None = None
    seconds: Annotated[float, Field(ge=0.1, le=LONGEST)] | None = None
    bars: Annotated[int, Field(ge=1, le=MOST_BARS)] | None = None
    samples: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] = 1
    controls: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    keep: Annotated[float, Field(ge=0, le=1)] = 0.5
    guidance: Any = 1.0
    quantise: Any = None
    model: str | None = None
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = field(default_factory=_fresh_seed)

    def config(self, model: Model, **more: Any) -> Any:
        """The options of the command that does it, without its file (:meth:`name_file`); ``more``
        are those that the input decides.

        Raises :class:`UserError` for what cannot be asked for.
        """
        given: dict[str, Any] = {"seed": self.seed, "samples": self.samples, **more}
        if self.task == "harmonise":
            drawn = {k: v for k, v in self.sampling.items() if k not in NOT_FOR_MELODIES}
            given |= {"sampling": drawn}
        else:
            given |= {"guidance": self.guidance, "quantise": self.quantise or "none"}
            given = {"sampling": self.sampling, **self.controls, **given}
        config = options.request(command_of(self.task), given)
        config.model.path = model.word  # which is one for the folder of the takes
        return config

    def name_file(self, config: Any, file: str) -> None:
        """Put the name of its file into the options of a command."""
        setattr(config, COMMANDS[command_of(self.task)].positional, file)


_REQUEST = TypeAdapter(Request)


def parse(
    data: Mapping[str, Any], models: Models, duration: float, music: str = MUSIC[0]
) -> tuple[Request, Model]:
    """The request of a page for a piece of such ``music``, and the model for it.

    Raises :class:`Refused`, or another :class:`UserError`, in one sentence that names the part that
    cannot be. Options of the command are checked by :meth:`Request.config`.
    """
    given = {name: value for name, value in data.items() if value is not None}
    given.pop("revision", None)
    request: Request = checked(_REQUEST, {"end": duration, **given})
    model = models.chosen(request.model, request.task, music)
    if "end" not in given:
        request = replace(request, end=max(request.end, request.begin))
    if request.end < request.begin:
        raise Refused(f"end={request.end:g}: expected a place after begin={request.begin:g}")
    for name in request.controls:
        if name not in model.steers:
            raise Refused(f"{name[:20]}: the model {model.name} does not follow it")
    seconds = request.seconds or USUAL
    if request.task not in ("new", "continue"):
        request = replace(request, seconds=None, bars=None)
    else:
        request = replace(request, seconds=None if request.bars else seconds)
    return request, model


def label(request: Request, clock: Beats) -> str:
    """The request in a few words."""
    length = f"{request.seconds or 0:g} s"
    if request.bars is not None:
        length = "1 bar" if request.bars == 1 else f"{request.bars} bars"
    if request.task == "new":
        return f"new piece, {length}"
    if request.task == "continue":
        return f"continue for {length}"
    if request.task == "vary":
        return f"vary {bars(request, clock)}, {100 * request.keep:.0f} % kept"
    return f"{request.task} {bars(request, clock)}"


def bars(request: Request, clock: Beats) -> str:
    """The bars that are selected, in words; a pick-up is bar 0."""
    first = clock.bar(float(clock.quarters(request.begin)))[0] - clock.pickup
    last = max(clock.bar(float(clock.quarters(request.end)) - 1e-3)[0] - clock.pickup, first)
    return f"bar {first}" if first == last else f"bars {first} to {last}"


def command_line(request: Request, config: Any) -> str:
    """The line that a person types to get the same notes, in the folder of the takes."""
    command = command_of(request.task)
    verb = "continue" if request.task == "continue" else command
    return shlex.join(["musictx", verb, *options.words(command, config)])


def command_of(task: str) -> str:
    """The command that does a task."""
    commands = {"new": "generate", "continue": "generate", "replace": "infill", "vary": "infill"}
    return commands.get(task, task)


def moment(seconds: float) -> str:
    """Seconds in the form of the command line, such as 2.5s."""
    return f"{seconds:.4f}".rstrip("0").rstrip(".") + "s"
