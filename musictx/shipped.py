"""Which model folder a name means: a path, the newest one, or a model that comes with musictx or an
optional component; and the included melodies and opening."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from musictx import registry
from musictx.errors import UserError, shown

#: What a model folder holds; the card for people may be lost or rewritten without harm.
FILES = ("model.safetensors", "config.json", "tokenizer.json", "CARD.md")
REQUIRED = FILES[:3]
WHAT = "a model folder holds " + ", ".join(FILES) + " and is written by musictx train"
_HERE = Path(__file__).resolve().parent
#: Which of the models is used where nothing has been trained yet, and which for music that keeps
#: to the beats of its file.
DEFAULT, ON_BEATS = "piano", "song"
#: Those whose weights, and the music that they write, are under CC BY-NC-SA 4.0.
NON_COMMERCIAL = ("piano",)
#: Which of the examples are openings to continue; the others are melodies.
OPENINGS = ("mozart_k545",)


def is_model(folder: Path) -> bool:
    """Whether ``folder`` looks like a model folder, whole or not."""
    return (folder / "config.json").is_file()


def missing(names: Collection[str]) -> list[str]:
    """The files that a model needs and that are not among ``names``."""
    return [name for name in REQUIRED if name not in names]


def models() -> dict[str, Path]:
    """Name -> model folder, by name."""
    roots = [_HERE / "models", *registry.MODELS]
    folders = [folder for root in roots for folder in root.glob("*")]
    return {p.name: p for p in sorted(folders) if is_model(p)}


def default(tokenizer: str | None = None, *, on_beats: bool = False) -> Path | None:
    """The model folder for new music and performances, or for music ``on_beats``, or the first that
    has this tokenizer; None if none is included."""
    included = models()
    for name in [ON_BEATS] * on_beats + [DEFAULT]:
        if tokenizer is None and name in included:
            return included[name]
    return next((path for path in included.values() if tokenizer in (None, _tokenizer(path))), None)


def examples() -> dict[str, Path]:
    """Name -> MIDI file. All are in the public domain and were entered by hand: Beethoven, Symphony
    No. 9 (1824), last movement; three French songs of the 18th century; Mozart, Sonata K. 545
    (1788), bars 1 to 4, played with a touch of freedom."""
    return {p.stem: p for p in sorted((_HERE / "examples").glob("*.mid"))}


def melodies() -> dict[str, Path]:
    """The examples that are melodies to harmonise: name -> MIDI file."""
    return {name: path for name, path in examples().items() if name not in OPENINGS}


def locate(folder: str | Path) -> Path:
    """The model folder that ``folder`` names: itself, ``folder/model``, an included model, or
    ``hf:USER/NAME@REVISION`` on the Hugging Face hub. Raises ``UserError`` if there is none."""
    name, folder = str(folder), Path(os.path.expanduser(folder))
    if name.startswith("hf:"):
        from musictx import hub

        folder = hub.fetched(name, FILES, missing)
    elif not os.path.isdir(folder):  # also of names that no file can have
        included = models()
        if name not in included:
            raise UserError(
                f"{shown(folder)}: no such model folder ({WHAT}), nor a model that comes with "
                f"musictx ({', '.join(included) or 'none'})"
            )
        folder = included[name]
    if not is_model(folder) and is_model(folder / "model"):
        folder = folder / "model"
    if absent := missing(os.listdir(folder)):
        raise UserError(f"{folder}: {' and '.join(absent)} missing; {WHAT}")
    return folder


def chosen(path: str | None, tokenizer: str | None = None, *, on_beats: bool = False) -> Path:
    """The model folder that the option ``model`` names, or else the one of :func:`find_latest`.
    Errors begin with ``model=``."""
    if path is None:
        return find_latest(tokenizer=tokenizer, on_beats=on_beats)
    try:
        return locate(path)
    except UserError as error:
        raise UserError(f"model={error}") from None


def name_of(folder: Path) -> str:
    """The name of the model in ``folder``: that of its run folder if it is in one."""
    return folder.parent.name if folder.name == "model" else folder.name


def find_latest(
    root: str | Path = "runs", *, tokenizer: str | None = None, on_beats: bool = False
) -> Path:
    """The model folder ``root/*/model`` that was written last; if there is none, an included model:
    the one for music ``on_beats`` or the one for other music. If a ``tokenizer`` is named, only
    models with it count.
    """
    trained = [
        config
        for config in Path(root).glob("*/model/config.json")
        if not missing(os.listdir(config.parent)) and tokenizer in (None, _tokenizer(config.parent))
    ]
    if trained:
        return max(trained, key=lambda one: (one.stat().st_mtime_ns, str(one))).parent
    included = default(tokenizer, on_beats=on_beats)
    if included is None:
        of = f" of {tokenizer} tokens" if tokenizer else ""
        option = f" tokenizer={tokenizer}" if tokenizer else ""
        raise UserError(
            f"model.path: no trained model{of} under {root}/; train one with "
            f"'musictx train corpus.path=DIR{option}' or give model.path=FOLDER"
        )
    return included


def _tokenizer(folder: Path) -> str | None:
    """The name of a model folder's tokenizer; None if it cannot be read."""
    try:
        return str(json.loads((folder / "tokenizer.json").read_text())["config"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
