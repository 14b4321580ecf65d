"""The models of the studio, and the tasks and controls that each supports, without loading it."""

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
#: The least rank correlation of requested and measured values (``scripts/reproduce/steering.py``)
#: of the controls that a model offers.
LEAST_CORRELATION = 0.5
#: The largest model card, MB.
CARD_MB = 1
#: What a command shows instead of the folder of a model, if a page must not see it.
HIDDEN_PATH = "PATH/TO/"


@dataclass(frozen=True)
class Model:
    """A model folder.

    option       the value of the option ``model`` for a command run in the folder of the takes
    four_voices  whether it writes chorales
    controls     whether it has controls, fills gaps and accompanies
    programs     whether it keeps instruments and drums apart
    bpm          quarter notes a minute of the beats that it counts; None: it counts seconds
    chords       whether it follows chords in markers
    suits        the kinds of music (:func:`~musictx.studio.exchange.music_of`) for which it is the
                 default model
    steering     {control: how well the model follows it}, as far as its card says so
    """

    name: str
    option: str
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
    device: str = "auto"

    @classmethod
    def load(cls, name: str, option: str, folder: Path, device: str = "auto") -> Model:
        """Read a model folder except the weights. Raise :class:`UserError` if its tokenizer.json is
        damaged."""
        try:
            options = read_options(folder / "tokenizer.json")
            # A custom class is not imported here.
            tokens = None if ":" in str(options.get("name")) else build(**options)
        except Exception as error:  # damaged options fail in many ways
            raise UserError(f"model={folder}: tokenizer.json is damaged ({error})") from None
        title, sentence, steering = _read_card(folder / "CARD.md")
        return cls(
            name,
            option,
            folder,
            title or name,
            sentence or "A model of your own.",
            options.get("name") == FOUR_VOICES,
            bool(options.get("controls")),
            options.get("tracks") == "programs",
            tokens.clock(Score()).tempo if tokens is not None and tokens.beats else None,
            bool(getattr(tokens, "chords", False)),
            steering=steering,
            device=device,
        )

    @cached_property
    def bundle(self) -> Bundle:
        """The model itself, loaded at its first use. Raise :class:`UserError` if it is damaged."""
        from musictx import bundle  # imports torch

        return bundle.load(self.folder, self.device)

    @property
    def music(self) -> str:
        """The kind of music that its tokens represent, one of :data:`MUSIC`."""
        if self.four_voices:
            return "chorale"
        return "free" if self.bpm is None else "beats"

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that it supports."""
        if self.four_voices:
            return ("new", "continue", "replace", "harmonise")
        return TASKS[:5] if self.controls else TASKS[:2]

    @property
    def followed_controls(self) -> tuple[str, ...]:
        """The controls that it follows. All models but those of chorales have a density."""
        if self.four_voices:
            return ()
        names = CONTROLS if self.controls else ("density",)
        return tuple(name for name in names if name not in self.ignored_controls)

    @property
    def ignored_controls(self) -> tuple[str, ...]:
        """The controls that it does not follow according to measurements."""
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
            "chords": self.chords,
        }


@cache
def options_json() -> dict[str, dict[str, Any]]:
    """Return {name: description as JSON} of the options of a request that a page shows."""
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
    """Return the heading of a model card and its first sentence ("" if the card is missing or was
    generated by training), and {control: rank correlation} of the measured controls."""
    try:
        text = read_bytes(path, CARD_MB, "the size of a card").decode()
    except ValueError:  # ``UserError``, too
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
    else the newest under runs/, which suits the kind of its tokens. All other kinds of music get
    the same model as on the command line.
    """

    def __init__(self, config: StudioConfig) -> None:
        included = shipped.models()
        default = shipped.model_folder(config.model.path).resolve()
        names = {folder: name for name, folder in included.items()}
        self.default = names.get(default) or re.sub(r"[^\w.-]", "-", shipped.name_of(default))
        if default not in names and self.default in included:
            self.default = f"my-{self.default}"
        self._takes = Path(config.folder) / "session" / "takes"
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
        """Return the path of a model folder relative to the takes of a session, if both are below
        the working directory. Other paths would reveal too much of the machine. They begin with
        :data:`HIDDEN_PATH`, which the user must replace in a command."""
        start = Path.cwd().resolve()
        folder, takes = folder.resolve(), self._takes.expanduser().resolve()
        if not (folder.is_relative_to(start) and takes.is_relative_to(start)):
            return HIDDEN_PATH + shipped.name_of(folder)
        return Path(os.path.relpath(folder, takes)).as_posix()

    def json(self) -> list[dict[str, Any]]:
        """Return all models as JSON for a page, the default first."""
        return [model.json() for model in self._all.values()]

    def choose(self, name: str | None, task: str, music: str = MUSIC[0]) -> Model:
        """Return the model ``name``. None: of the models that support ``task``, the one that suits
        this kind of ``music`` (for chorales also one that suits music on beats), or else the first.
        Raise :class:`Refused` if there is no such model, or it does not support the task."""
        capable = [model for model in self._all.values() if task in model.tasks]
        if name is None and capable:
            kinds = ("chorale", "beats") if music == "chorale" else (music,)
            suitable = (model for kind in kinds for model in capable if kind in model.suits)
            return next(suitable, capable[0])
        if not isinstance(name, str) or name not in self._all:
            raise Refused(f"model={str(name)[:40]}: expected one of {', '.join(self._all)}")
        model = self._all[name]
        if task not in model.tasks:
            names = " or ".join(other.name for other in capable) or "none that is here"
            raise Refused(f"model={name}: this model cannot {task}; {names} can")
        return model
