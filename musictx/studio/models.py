"""The models that the studio composes with: what each can do, in words, without loading it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musictx import shipped
from musictx.errors import UserError
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
TASKS = ("new", "continue", "replace", "vary", "accompany", "harmonise")
#: Of each control: its label, a sentence, and the lowest value, the highest and the step of a
#: slider.
SLIDERS = {
    "density": ("Density", "How many notes begin in a second.", 0.5, 20.0, 0.5),
    "loudness": ("Loudness", "How hard the keys are struck.", 28.0, 108.0, 1.0),
    "register": ("Register", "How high the notes lie on average; 60 is middle C.", 42.0, 80.0, 1.0),
    "polyphony": ("Fullness", "How many notes sound at once.", 1.0, 12.0, 0.5),
}

#: What commands say for the way to a model that is no page's business.
SOMEWHERE = "PATH/TO/"


@dataclass(frozen=True)
class Model:
    """A model folder, called ``name``; ``word`` is what the command line calls it, in the folder of
    the takes of a session.

    four_voices  it writes chorales;  controls  it can be steered, fill gaps and accompany
    programs     it keeps instruments, and drums, apart
    bpm          quarter notes a minute by which it counts beats; None: it counts seconds
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
    suits: tuple[str, ...]

    @classmethod
    def of(cls, name: str, word: str, folder: Path, suits: tuple[str, ...]) -> Model:
        """What the files of the model folder say; :class:`UserError` where they are damaged."""
        path = folder / "tokenizer.json"
        try:
            told = dict(json.loads(path.read_text(encoding="utf-8"))["config"])
            # A class of one's own is not imported to ask it.
            tokens = None if ":" in str(told.get("name")) else build(**told)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"model={folder}: {path.name} is damaged ({error})") from None
        title, sentence = _card(folder / "CARD.md")
        return cls(
            name,
            word,
            folder,
            title or name,
            sentence or "A model of your own.",
            told.get("name") == FOUR_VOICES,
            bool(told.get("controls")),
            told.get("tracks") == "programs",
            tokens.bpm if tokens is not None and tokens.beats else None,
            suits,
        )

    @property
    def tasks(self) -> tuple[str, ...]:
        """Those of :data:`TASKS` that it can do."""
        if self.four_voices:
            return ("new", "continue", "replace", "harmonise")
        return TASKS[:5] if self.controls else TASKS[:2]

    @property
    def steers(self) -> tuple[str, ...]:
        """The controls that it knows; a density can be asked of any but a model of chorales."""
        if self.four_voices:
            return ()
        return tuple(CONTROLS) if self.controls else ("density",)

    def json(self) -> dict[str, Any]:
        """The model as a page gets it."""
        return {
            "name": self.name,
            "title": self.title,
            "sentence": self.sentence,
            "tasks": list(self.tasks),
            "controls": [_slider(name) for name in self.steers],
            "suits": list(self.suits),
            "beats": self.bpm is not None,
        }


def _slider(name: str) -> dict[str, Any]:
    label, sentence, low, high, step = SLIDERS[name]
    control = CONTROLS[name]
    words = {word: float(value) for word, value in control.words.items() if low <= value <= high}
    found = {"name": name, "label": label, "sentence": sentence, "unit": control.unit}
    return found | {"low": low, "high": high, "step": step, "words": words}


def _card(path: Path) -> tuple[str, str]:
    """The heading of a model's card for people and its first sentence; "" where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return "", ""
    found = re.match(r"#\s+(.+)\n+(?![#-])((?:.+\n?)+)", text)
    if found is None:
        return "", ""
    first = re.split(r"(?<=[.!?])\s", " ".join(found[2].split()))[0]
    if first.startswith("Made with"):  # a card that nobody has written a word for
        return "", ""
    return clean_name(found[1]), first[:300]


def _word(folder: Path, takes: Path) -> str:
    """How a command in the folder ``takes`` names a model folder: by the way there, if both are
    below the folder that the studio was started in. Other ways would tell too much of a machine:
    whoever types the command has to put it in the place of :data:`SOMEWHERE`."""
    here = Path.cwd().resolve()
    folder, takes = folder.resolve(), takes.expanduser().resolve()
    if not (folder.is_relative_to(here) and takes.is_relative_to(here)):
        return SOMEWHERE + shipped.name_of(folder)
    return Path(os.path.relpath(folder, takes)).as_posix()


class Models:
    """Those that come with musictx, and the one that the studio was started with, which comes
    first: or else the newest under runs/, as everywhere. Such a model suits all music; else each
    kind has its own, as on the command line, and chorales theirs."""

    def __init__(self, config: StudioConfig) -> None:
        ours = shipped.models()
        default = shipped.chosen(config.model.path).resolve()
        named = {folder: name for name, folder in ours.items()}
        name = named.get(default) or re.sub(r"[^\w.-]", "-", shipped.name_of(default))
        if default not in named and name in ours:
            name = f"my-{name}"
        words = {one: one for one in ours}
        words.setdefault(name, _word(default, Path(config.folder) / "session" / "takes"))
        folders = {name: default} | ours
        suits: dict[Path | None, tuple[str, ...]] = {default: MUSIC}
        if config.model.path is None and default in named:
            by = shipped.default(), shipped.default(on_beats=True), shipped.default(FOUR_VOICES)
            suits = {at: tuple(m for m, one in zip(MUSIC, by) if one == at) for at in by}
        self._all = {
            one: Model.of(one, words[one], at, suits.get(at, ())) for one, at in folders.items()
        }
        self.default = name

    def json(self) -> list[dict[str, Any]]:
        """All of them as a page gets them, the default one first."""
        return [model.json() for model in self._all.values()]

    @property
    def folders(self) -> dict[Path, str]:
        """Where each is, and its name."""
        return {model.folder: model.name for model in self._all.values()}

    def chosen(self, name: str | None, task: str, music: str = MUSIC[0]) -> Model:
        """The model of that name, or that for such ``music``, or else the first that can do
        ``task``; :class:`Refused` where it cannot."""
        able = [model for model in self._all.values() if task in model.tasks]
        if name is None and able:
            return next((model for model in able if music in model.suits), able[0])
        if not isinstance(name, str) or name not in self._all:
            raise Refused(f"model={str(name)[:40]}: expected one of {', '.join(self._all)}")
        model = self._all[name]
        if task not in model.tasks:
            names = " or ".join(one.name for one in able) or "none that is here"
            raise Refused(f"model={name}: this model cannot {task}; {names} can")
        return model
