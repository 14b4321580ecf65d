"""The models that the studio composes with: what each can do, in words, without loading it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from musictx import shipped
from musictx.config.levels import LEVELS
from musictx.errors import UserError
from musictx.notes import Score
from musictx.studio.change import clean_name
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused
from musictx.tokens.build import build
from musictx.tokens.controls import CONTROLS

#: Kinds of music: performances and new pieces, on the beats of its file, in four voices.
MUSIC = ("free", "beats", "chorale")
#: The tokenizer of models of chorales.
FOUR_VOICES = "chorale"
#: What can be asked for; the first two by every model.
Task = Literal["new", "continue", "replace", "vary", "accompany", "harmonise"]
TASKS: tuple[Task, ...] = get_args(Task)
#: Of each control: its label and a sentence.
SLIDERS = {
    "density": ("Density", "How many notes begin in a second."),
    "loudness": ("Loudness", "How hard the keys are struck."),
    "register": ("Register", "How high the notes lie on average; 60 is middle C."),
    "polyphony": ("Fullness", "How many notes sound at once."),
}

#: A control that a model was measured to follow less than this is not offered: rank correlation of
#: what was requested and what was measured (``scripts/reproduce/steering.py``).
FOLLOWED = 0.5
#: In commands, in place of a path that a page must not see.
SOMEWHERE = "PATH/TO/"


@dataclass(frozen=True)
class Model:
    """A model folder, called ``name``; ``word`` is what the command line calls it, in the folder of
    the takes of a session.

    four_voices  it writes chorales;  controls  it can be steered, fill gaps and accompany
    programs     it keeps instruments, and drums, apart
    bpm          quarter notes a minute by which it counts beats; None: it counts seconds
    steering     control -> how well it follows it, as its card says, where that was measured
    chords       it follows those that markers name
    suits        the kinds of music (:func:`~musictx.studio.exchange.music_of`) that it is the usual
                 model for
    """

    name: str
    word: str
    folder: Path
    title: str
    sentence: str
    four_voices: bool
    controls: bool
    programs: bool
    bpm: float | None
    chords: bool
    suits: tuple[str, ...] = ()
    steering: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, word: str, folder: Path) -> Model:
        """What the files of the model folder say; :class:`UserError` where they are damaged."""
        path = folder / "tokenizer.json"
        try:
            options = dict(json.loads(path.read_text(encoding="utf-8"))["config"])
            # A custom class is not imported here.
            tokens = None if ":" in str(options.get("name")) else build(**options)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"model={folder}: {path.name} is damaged ({error})") from None
        title, sentence, steering = _card(folder / "CARD.md")
        return cls(
            name,
            word,
            folder,
            title or name,
            sentence or "A model of your own.",
            options.get("name") == FOUR_VOICES,
            bool(options.get("controls")),
            options.get("tracks") == "programs",
            tokens.clock(Score()).tempo if tokens is not None and tokens.beats else None,
            bool(getattr(tokens, "chords", False)),
            steering=steering,
        )

    @property
    def music(self) -> str:
        """The kind of music that its tokens are for, of :data:`MUSIC`."""
        if self.four_voices:
            return "chorale"
        return "free" if self.bpm is None else "beats"

    @property
    def tasks(self) -> tuple[str, ...]:
        """Those of :data:`TASKS` that it can do."""
        if self.four_voices:
            return ("new", "continue", "replace", "harmonise")
        return TASKS[:5] if self.controls else TASKS[:2]

    @property
    def steers(self) -> tuple[str, ...]:
        """The controls that it follows; a density can be asked of any but a model of chorales."""
        if self.four_voices:
            return ()
        names = CONTROLS if self.controls else ("density",)
        return tuple(one for one in names if one not in self.ignores)

    @property
    def ignores(self) -> tuple[str, ...]:
        """The controls that it has and was measured not to follow."""
        return tuple(one for one in CONTROLS if self.steering.get(one, 1.0) < FOLLOWED)

    def json(self) -> dict[str, Any]:
        """The model as a page gets it."""
        return {
            "name": self.name,
            "title": self.title,
            "sentence": self.sentence,
            "tasks": list(self.tasks),
            "controls": [_slider(name) for name in self.steers],
            "ignores": [SLIDERS[name][0] for name in self.ignores],
            "suits": list(self.suits),
            "beats": self.bpm is not None,
            "chords": self.chords,
        }


def _slider(name: str) -> dict[str, Any]:
    (label, sentence), level = SLIDERS[name], LEVELS[name]
    low, high, step = level.slider
    words = {word: float(value) for word, value in level.words.items() if low <= value <= high}
    slider = {"name": name, "label": label, "sentence": sentence, "unit": level.unit}
    return slider | {"low": low, "high": high, "step": step, "words": words}


def _card(path: Path) -> tuple[str, str, dict[str, float]]:
    """The heading of a model's card for people and its first sentence, "" where there is none; and
    how well it was measured to follow its controls."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return "", "", {}
    section = re.search(r"^## Steering\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    measured = re.findall(r"(\w+): (-?[0-9.]+)", section[1] if section else "")
    steering = {name: float(value) for name, value in measured if name in CONTROLS}
    heading = re.match(r"#\s+(.+)\n+(?![#-])((?:.+\n?)+)", text)
    if heading is None:
        return "", "", steering
    first = re.split(r"(?<=[.!?])\s", " ".join(heading[2].split()))[0]
    if first.startswith("Made with"):  # a card that nobody has written a word for
        return "", "", steering
    return clean_name(heading[1]), first[:300], steering


class Models:
    """Those that come with musictx, and the one that the studio was started with, which comes first
    and suits all music; or else the newest under runs/, as everywhere, which suits the kind of
    music that its tokens say. Each other kind has its default model of the command line, and
    chorales the model of chorales."""

    def __init__(self, config: StudioConfig) -> None:
        included = shipped.models()
        default = shipped.chosen(config.model.path).resolve()
        named = {folder: name for name, folder in included.items()}
        name = named.get(default) or re.sub(r"[^\w.-]", "-", shipped.name_of(default))
        if default not in named and name in included:
            name = f"my-{name}"
        self._takes = Path(config.folder) / "session" / "takes"
        self._all = {name: Model.of(name, named.get(default) or self._word(default), default)}
        self._all |= {one: Model.of(one, one, at) for one, at in included.items() if one != name}
        by = [shipped.default(), shipped.default(on_beats=True), shipped.default(FOUR_VOICES)]
        if config.model.path is not None:
            by = [default] * len(MUSIC)
        elif default not in named:
            by[MUSIC.index(self._all[name].music)] = default
        for one, model in self._all.items():
            kinds = tuple(kind for kind, at in zip(MUSIC, by) if at == model.folder)
            self._all[one] = replace(model, suits=kinds)
        self.default = name

    def add(self, name: str, folder: Path) -> None:
        """One more, for whoever chooses it; :class:`UserError` where its files are damaged."""
        self._all[name] = Model.of(name, self._word(folder), folder)

    def _word(self, folder: Path) -> str:
        """How a command in the folder of the takes names a model folder: by the way there, if both
        are below the folder that the studio was started in. Other ways would tell too much of a
        machine: whoever types the command must replace :data:`SOMEWHERE` by it."""
        here = Path.cwd().resolve()
        folder, takes = folder.resolve(), self._takes.expanduser().resolve()
        if not (folder.is_relative_to(here) and takes.is_relative_to(here)):
            return SOMEWHERE + shipped.name_of(folder)
        return Path(os.path.relpath(folder, takes)).as_posix()

    def json(self) -> list[dict[str, Any]]:
        """All of them as a page gets them, the default one first."""
        return [model.json() for model in self._all.values()]

    def chosen(self, name: str | None, task: str, music: str = MUSIC[0]) -> Model:
        """The model of that name, or that for such ``music`` (chorales keep to beats, too), or else
        the first that can do ``task``; :class:`Refused` where it cannot."""
        able = [model for model in self._all.values() if task in model.tasks]
        if name is None and able:
            kinds = ("chorale", "beats") if music == "chorale" else (music,)
            fit = (model for kind in kinds for model in able if kind in model.suits)
            return next(fit, able[0])
        if not isinstance(name, str) or name not in self._all:
            raise Refused(f"model={str(name)[:40]}: expected one of {', '.join(self._all)}")
        model = self._all[name]
        if task not in model.tasks:
            names = " or ".join(one.name for one in able) or "none that is here"
            raise Refused(f"model={name}: this model cannot {task}; {names} can")
        return model
