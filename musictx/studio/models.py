"""The models of the studio. The tasks and controls of a model are known without loading it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from musictx import shipped
from musictx.config import GenerateConfig
from musictx.config.checks import options
from musictx.errors import UserError
from musictx.files import read_bytes
from musictx.notes import Score
from musictx.studio.change import clean_name
from musictx.studio.config import KEEP, StudioConfig
from musictx.studio.errors import Refused
from musictx.tokens.build import build, read_options
from musictx.tokens.controls import CONTROLS

if TYPE_CHECKING:
    from musictx.bundle import Bundle

#: Kinds of music: performances and new pieces, music on the beats of its file, and chorales.
MUSIC = ("free", "beats", "chorale")
#: The tokenizer of chorale models.
FOUR_VOICES = "chorale"
#: The tasks of a request. All models support the first two.
Task = Literal["new", "continue", "replace", "vary", "accompany", "harmonise"]
TASKS: tuple[Task, ...] = get_args(Task)
#: A model offers a control if requested and measured values (``scripts/reproduce/steering.py``)
#: have at least this rank correlation.
LEAST_CORRELATION = 0.5
#: The largest model card, MB.
CARD_MB = 1


@dataclass(frozen=True)
class Model:
    """A model folder.

    option        the value of the option ``model`` for a command run in the folder of the takes
    four_voices   whether it writes chorales
    has_controls  whether it has controls; such a model also fills gaps and accompanies
    has_programs  whether it keeps instruments and drums apart
    bpm           the nominal tempo of its beats; None: its tokens count seconds
    has_chords    whether it follows chords in markers
    suits         the kinds of music (:func:`~musictx.studio.exchange.music_of`) for which it is the
                  default model
    steering      {control: rank correlation of requested and measured values}, from its card
    """

    name: str
    option: str
    folder: Path
    title: str
    sentence: str
    four_voices: bool
    has_controls: bool
    has_programs: bool
    bpm: float | None
    has_chords: bool
    suits: tuple[str, ...] = ()
    steering: Mapping[str, float] = field(default_factory=dict)
    device: str = "auto"

    @classmethod
    def load(cls, name: str, option: str, folder: Path, device: str = "auto") -> Model:
        """Read a model folder without its weights. Raise :class:`UserError` if it is damaged."""
        try:
            options = read_options(folder / "tokenizer.json")
            is_custom = ":" in str(options.get("name"))  # such a class is not imported here
            tokens = None if is_custom else build(**options)
        except Exception as error:  # damaged options fail in many ways
            raise UserError(f"model={folder}: tokenizer.json is damaged ({error})") from None
        title, sentence, steering = _read_card(folder / "CARD.md")
        return cls(
            name=name,
            option=option,
            folder=folder,
            title=title or name,
            sentence=sentence or "A model of your own.",
            four_voices=options.get("name") == FOUR_VOICES,
            has_controls=bool(options.get("controls")),
            has_programs=options.get("tracks") == "programs",
            bpm=tokens.clock(Score()).tempo if tokens is not None and tokens.beats else None,
            has_chords=bool(getattr(tokens, "chords", False)),
            steering=steering,
            device=device,
        )

    @cached_property
    def bundle(self) -> Bundle:
        """The model itself, loaded at its first use. Raises :class:`UserError` if it is damaged."""
        from musictx import bundle  # imports torch

        return bundle.load(self.folder, self.device)

    @property
    def music(self) -> str:
        """The kind of music that its tokens represent: one of :data:`MUSIC`."""
        if self.four_voices:
            return "chorale"
        return "free" if self.bpm is None else "beats"

    @property
    def tasks(self) -> tuple[str, ...]:
        if self.four_voices:
            return ("new", "continue", "replace", "harmonise")
        return TASKS[:5] if self.has_controls else TASKS[:2]

    @property
    def followed_controls(self) -> tuple[str, ...]:
        """The controls that it follows. All models but those of chorales have a density."""
        if self.four_voices:
            return ()
        names = CONTROLS if self.has_controls else ("density",)
        return tuple(name for name in names if name not in self.ignored_controls)

    @property
    def ignored_controls(self) -> tuple[str, ...]:
        """The controls that it hardly follows, as measured."""
        return tuple(name for name in CONTROLS if self.steering.get(name, 1.0) < LEAST_CORRELATION)

    def json(self) -> dict[str, Any]:
        """Return the model as JSON for a page."""
        return {
            "name": self.name,
            "title": self.title,
            "sentence": self.sentence,
            "tasks": list(self.tasks),
            "controls": [options_json()[name] for name in self.followed_controls],
            "ignores": [options_json()[name]["label"] for name in self.ignored_controls],
            "suits": list(self.suits),
            "beats": self.bpm is not None,
            "chords": self.has_chords,
        }


@cache
def options_json() -> dict[str, dict[str, Any]]:
    """Return {name: description as JSON} of the options of takes that a page shows."""
    descriptions = {}
    for dotted, option in (*options(GenerateConfig), ("keep", KEEP)):
        rules, name = option.metadata, dotted.rpartition(".")[2]
        if rules["page"]:
            sentence = rules["help"].partition(";")[0]
            descriptions[name] = {
                "name": name,
                **dict(zip(("label", "low", "high", "step"), rules["page"])),
                "sentence": f"{sentence[0].upper()}{sentence[1:]}.",
                "unit": rules["unit"],
                "words": dict(rules["words"]),
                "choices": dict(rules["choices"]),
                "default": option.default,
            }
    return descriptions


def _read_card(path: Path) -> tuple[str, str, dict[str, float]]:
    """Return the heading and the first sentence of a model card ("" if the card is missing or was
    generated by training), and {control: rank correlation} of its measurements."""
    try:
        text = read_bytes(path, CARD_MB, "the size of a card").decode()
    except ValueError:  # a UserError is one, too
        return "", "", {}
    section = re.search(r"^## Steering\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    measured = re.findall(r"\b(\w+): (-?[0-9.]+)", section[1] if section else "")
    steering = {name: float(value) for name, value in measured if name in CONTROLS}
    heading = re.match(r"# *(\S.*)\n+(?![#-])((?:.+\n?)+)", text)
    first = re.split(r"(?<=[.!?])\s", " ".join(heading[2].split()))[0] if heading else ""
    if heading is None or first.startswith("Made with"):  # the card was generated by training
        return "", "", steering
    return clean_name(heading[1]), first[:300], steering


class Models:
    """The models of a studio: first the default model, then the included models.

    The default is the model that the studio was started with, which suits all kinds of music; or
    else the newest under runs/, which suits the kind that its tokens represent. Other kinds of
    music get the default model of the command line."""

    def __init__(self, config: StudioConfig) -> None:
        included = shipped.models()
        default = shipped.model_folder(config.model.path).resolve()
        names = {folder: name for name, folder in included.items()}
        self.default = names.get(default) or re.sub(r"[^\w.-]", "-", shipped.name_of(default))
        if default not in names and self.default in included:
            self.default = f"my-{self.default}"
        self._takes = Path(config.folder).expanduser().resolve() / "session" / "takes"
        self._device = config.device
        self._all: dict[str, Model] = {}
        for name, folder in {self.default: default, **included}.items():
            option = name if folder in names else self._option(folder)
            self._all[name] = Model.load(name, option, folder, self._device)
        defaults = [
            shipped.default_model(),
            shipped.default_model(in_bars=True),
            shipped.default_model(FOUR_VOICES),
        ]
        if config.model.path is not None:
            defaults = [default] * len(MUSIC)
        elif default not in names:
            defaults[MUSIC.index(self._all[self.default].music)] = default
        for model in [*self._all.values()]:
            suits = tuple(kind for kind, path in zip(MUSIC, defaults) if path == model.folder)
            self._all[model.name] = replace(model, suits=suits)

    def add(self, name: str, folder: Path) -> None:
        """Add a model, which composes only if a request names it."""
        model = Model.load(name, self._option(folder), folder, self._device)
        self._all = {**self._all, name: model}  # other threads may be reading the old one

    def _option(self, folder: Path) -> str:
        """Return the option ``model`` for a model folder: its path from the takes of a session."""
        try:
            return Path(os.path.relpath(folder, self._takes)).as_posix()
        except ValueError:  # another drive of Windows
            return folder.as_posix()

    def json(self) -> list[dict[str, Any]]:
        """Return all models as JSON for a page, the default first."""
        return [model.json() for model in self._all.values()]

    def choose(self, name: str | None, task: str, music: str = MUSIC[0]) -> Model:
        """Return the model ``name``. ``None``: of the models that support ``task``, the one that
        suits this kind of ``music`` (a chorale is also music on beats), or else the first. Raise
        :class:`Refused` if there is no such model, or it does not support the task."""
        capable = [model for model in self._all.values() if task in model.tasks]
        if name is None and capable:
            kinds = ("chorale", "beats") if music == "chorale" else (music,)
            suitable = (model for kind in kinds for model in capable if kind in model.suits)
            return next(suitable, capable[0])
        if not isinstance(name, str) or name not in self._all:
            raise Refused(f"model={str(name)[:40]}: expected one of {', '.join(self._all)}")
        model = self._all[name]
        if task not in model.tasks:
            names = " or ".join(other.name for other in capable) or "no model here"
            raise Refused(f"model={name}: this model cannot {task}; {names} can")
        return model
