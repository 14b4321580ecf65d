"""The request of a page, checked; and the command line that does the same."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from musictx.beats import Beats
from musictx.commands import COMMANDS
from musictx.config import SamplingConfig, TokenSampling
from musictx.config.checks import DAY, LARGEST_SEED, level_of
from musictx.config.levels import LEVELS
from musictx.options import request, words
from musictx.studio.change import whole
from musictx.studio.errors import Refused
from musictx.studio.models import MUSIC, TASKS, Model, Models

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


@dataclass(frozen=True)
class Request:
    """One request of a page. Times are in seconds of the document, tracks its ids (None: all).

    begin, end   the selection;  seconds, bars  how much new music, where that is free
    controls, sampling, guidance, quantise  options of the commands; of a grid that is left open
                 (None) that of the music, where the model counts in seconds
    keep         share of the selected notes that stay in a variation
    """

    task: str
    begin: float
    end: float
    tracks: tuple[int, ...] | None = None
    seconds: float | None = None
    bars: int | None = None
    samples: int = 1
    controls: Mapping[str, float] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    keep: float = 0.5
    guidance: float = 1.0
    quantise: str | None = None

    def config(self, model: Model, seed: int, **more: Any) -> Any:
        """The options of the command that does it, without its file (:meth:`name_file`); ``more``
        are those that the input decides.

        Raises :class:`UserError` for what cannot be asked for.
        """
        options = {"model": model.word, "seed": seed, "samples": self.samples, **more}
        if self.task == "harmonise":
            drawn = {k: v for k, v in self.sampling.items() if k not in NOT_FOR_MELODIES}
            return request("harmonise", {"sampling": drawn, **options})
        options |= {"guidance": self.guidance, "quantise": self.quantise or "none"}
        return request(
            command_of(self.task), {"sampling": self.sampling, **self.controls, **options}
        )

    def name_file(self, config: Any, file: str) -> None:
        """Put the name of its file into the options of a command."""
        setattr(config, COMMANDS[command_of(self.task)].positional, file)


def parse(
    data: Mapping[str, Any], models: Models, duration: float, music: str = MUSIC[0]
) -> tuple[Request, Model, Any]:
    """The request of a page for a piece of such ``music``, the model for it and the seed that it
    gives, or None.

    Raises :class:`Refused`, or another :class:`UserError`, in one sentence that names the part that
    cannot be. Options of the command are checked by :meth:`Request.config`.
    """
    names = {f.name for f in dataclasses.fields(Request)} | {"model", "seed", "revision"}
    unknown = sorted(set(data) - names)
    if unknown:
        raise Refused(f"take: no part is called {', '.join(map(repr, unknown))[:80]}")
    given = {name: value for name, value in data.items() if value is not None}
    task = given.get("task")
    if task not in TASKS:
        raise Refused(f"task={str(task)[:20]}: expected one of {', '.join(TASKS)}")
    model = models.chosen(given.pop("model", None), task, music)
    seed = given.pop("seed", None)
    if seed is not None:
        seed = whole(seed, 0, LARGEST_SEED, "seed")
    given.pop("revision", None)
    for name in ("controls", "sampling"):
        if not isinstance(given.get(name, {}), Mapping):
            raise Refused(f"{name}: expected a JSON object")
    begin = _number(given.get("begin", 0.0), 0, DAY, "begin")
    end = _number(given.get("end", max(duration, begin)), 0, DAY, "end")
    if end < begin:
        raise Refused(f"end={end:g}: expected a place after begin={begin:g}")
    fields = {"begin": begin, "end": end, **_lengths(given, task)}
    if "tracks" in given:
        if not isinstance(given["tracks"], list):
            raise Refused("tracks: expected a list of tracks, or null for all")
        fields["tracks"] = tuple(whole(one, 0, 65_534, "tracks") for one in given["tracks"])
    fields["samples"] = whole(given.get("samples", 1), 1, MOST_SAMPLES, "samples")
    controls = dict(given.get("controls", {}))
    for name, value in controls.items():
        if name not in model.steers:
            raise Refused(f"{str(name)[:20]}: the model {model.name} does not follow it")
        if type(value) not in (int, float, str):
            raise Refused(f"{name}: expected a number or a word")
    controls = {name: level_of(name, one, LEVELS[name]) for name, one in controls.items()}
    sampling = dict(given.get("sampling", {}))
    if "keep" in given:
        fields["keep"] = _number(given["keep"], 0, 1, "keep")
    fields |= {name: given[name] for name in ("guidance", "quantise") if name in given}
    return Request(task=task, controls=controls, sampling=sampling, **fields), model, seed


def _lengths(given: Mapping[str, Any], task: str) -> dict[str, Any]:
    if task not in ("new", "continue"):
        return {}
    if "bars" in given:
        return {"bars": whole(given["bars"], 1, MOST_BARS, "bars")}
    seconds = _number(given.get("seconds", USUAL), 0, LONGEST, "seconds")
    if seconds < 0.1:
        raise Refused(f"seconds={seconds:g}: expected at least 0.1")
    return {"seconds": seconds}


def _number(value: Any, low: float, high: float, name: str) -> float:
    if type(value) not in (int, float) or not low <= value <= high:
        raise Refused(f"{name}={str(value)[:20]}: expected a number from {low:g} to {high:g}")
    return float(value)


def label(wish: Request, clock: Beats) -> str:
    """The request in a few words."""
    length = f"{wish.seconds or 0:g} s"
    if wish.bars is not None:
        length = "1 bar" if wish.bars == 1 else f"{wish.bars} bars"
    if wish.task == "new":
        return f"new piece, {length}"
    if wish.task == "continue":
        return f"continue for {length}"
    if wish.task == "vary":
        return f"vary {bars(wish, clock)}, {100 * wish.keep:.0f} % kept"
    return f"{wish.task} {bars(wish, clock)}"


def bars(wish: Request, clock: Beats) -> str:
    """The bars that are selected, in words; a pick-up is bar 0."""
    first = clock.bar(float(clock.quarters(wish.begin)))[0] - clock.pickup
    last = max(clock.bar(float(clock.quarters(wish.end)) - 1e-3)[0] - clock.pickup, first)
    return f"bar {first}" if first == last else f"bars {first} to {last}"


def command_line(wish: Request, config: Any) -> str:
    """The line that a person types to get the same notes, in the folder of the takes."""
    command = command_of(wish.task)
    verb = "continue" if wish.task == "continue" else command
    return shlex.join(["musictx", verb, *words(command, config)])


def command_of(task: str) -> str:
    """The command that does a task."""
    commands = {"new": "generate", "continue": "generate", "replace": "infill", "vary": "infill"}
    return commands.get(task, task)
