"""Which model is meant: a folder, the newest one, or one of those that come with musictx; and the
melodies and the opening that come with it, known by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

from musictx.errors import UserError

#: What a model folder holds; the card for people may be lost or rewritten without harm.
FILES = ("model.safetensors", "config.yaml", "tokenizer.json", "CARD.md")
REQUIRED = FILES[:3]
WHAT = "a model folder holds " + ", ".join(FILES) + " and is written by musictx train"
#: The tokenizer of a model that harmonises.
FOUR_VOICES = "chorale"

_HERE = Path(__file__).resolve().parent
#: Which of the models is used where nothing has been trained yet: the first that is there. Only a
#: model of four voices can harmonise a melody.
FOR_MUSIC = ("piano", "chorale")
FOR_MELODIES = ("chorale",)
#: Which of the examples are openings to continue; the others are melodies.
OPENINGS = ("mozart_k545",)


def models() -> dict[str, Path]:
    """Name -> model folder."""
    return {
        p.name: p for p in sorted((_HERE / "models").glob("*")) if (p / "config.yaml").is_file()
    }


def default(*, melody: bool = False) -> Path | None:
    """The model folder for new music and continuations, or to harmonise a ``melody``; None if none
    of them came along."""
    ours = models()
    names = FOR_MELODIES if melody else FOR_MUSIC
    return next((ours[name] for name in names if name in ours), None)


def examples() -> dict[str, Path]:
    """Name -> MIDI file. All are in the public domain and were entered by hand: Beethoven, Symphony
    No. 9 (1824), last movement; three French songs of the 18th century; Mozart, Sonata K. 545
    (1788), bars 1 to 4, played with a touch of freedom."""
    return {p.stem: p for p in sorted((_HERE / "examples").glob("*.mid"))}


def melodies() -> dict[str, Path]:
    """The examples that are melodies to harmonise: name -> MIDI file."""
    return {name: path for name, path in examples().items() if name not in OPENINGS}


def locate(folder: str | Path) -> Path:
    """The model folder meant by ``folder``: itself, ``folder/model``, or the model of that name
    that comes along with musictx; else ``UserError``."""
    name, folder = str(folder), Path(os.path.expanduser(folder))
    if not folder.is_dir():
        ours = models()
        if name not in ours:
            raise UserError(
                f"{folder}: no such model folder ({WHAT}), nor a model that comes with musictx "
                f"({', '.join(ours) or 'none'})"
            )
        folder = ours[name]
    if not (folder / "config.yaml").is_file() and (folder / "model" / "config.yaml").is_file():
        folder = folder / "model"
    missing = [name for name in REQUIRED if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder}: {' and '.join(missing)} missing; {WHAT}")
    return folder


def chosen(path: str | None, *, melody: bool = False) -> Path:
    """The model folder that the option ``model`` names, of which errors speak; if none, the one of
    :func:`find_latest`."""
    if path is None:
        return find_latest(melody=melody)
    try:
        return locate(path)
    except UserError as error:
        raise UserError(f"model={error}") from None


def name_of(folder: Path) -> str:
    """What to call the model in ``folder``: by its run, where it stands in one."""
    return folder.parent.name if folder.name == "model" else folder.name


def find_latest(root: str | Path = "runs", *, melody: bool = False) -> Path:
    """The model folder under ``root`` (``root/*/model``) that was written last; without any, the
    model that comes along with musictx. For a ``melody``, only models of four voices count."""
    found = [
        path
        for path in Path(root).glob("*/model")
        if all((path / name).is_file() for name in REQUIRED)
        and (not melody or _tokens(path) == FOUR_VOICES)
    ]
    if found:
        return max(found, key=lambda path: ((path / "config.yaml").stat().st_mtime_ns, str(path)))
    ours = default(melody=melody)
    if ours is None:
        kind, option = ("model of four voices", " tokenizer=chorale") if melody else ("model", "")
        raise UserError(
            f"model.path: no trained {kind} under {root}/; train one with "
            f"'musictx train corpus.path=DIR{option}' or give model.path=FOLDER"
        )
    return ours


def _tokens(folder: Path) -> str | None:
    """The name of a model folder's tokenizer; None if it cannot be read."""
    try:
        return str(json.loads((folder / "tokenizer.json").read_text())["config"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
