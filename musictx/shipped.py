"""Find model folders: by path, the newest in ``runs``, or the models that are included in musictx
and its optional components. Also find the included examples of music."""

from __future__ import annotations

import os
from pathlib import Path

from musictx import registry
from musictx.errors import UserError, shown
from musictx.files import read_json
from musictx.folders import MODEL_FILES, missing_files

#: For error messages.
CONTENTS = "a model folder has " + ", ".join(MODEL_FILES) + " and is written by musictx train"
_HERE = Path(__file__).resolve().parent
#: The included models for new music and performances, and for music that follows a beat grid.
DEFAULT, SONG_MODEL = "piano", "song"
#: Models whose weights and generated music are under CC BY-NC-SA 4.0.
NON_COMMERCIAL = ("piano",)
#: The examples that are openings to continue; the others are melodies.
OPENINGS = ("mozart_k545",)


def is_model(folder: Path) -> bool:
    """Whether ``folder`` looks like a model folder, complete or not."""
    return (folder / "config.json").is_file()


def models() -> dict[str, Path]:
    """Return the included models, sorted: name -> model folder."""
    roots = [_HERE / "models", *registry.MODELS]
    folders = [folder for root in roots for folder in root.glob("*")]
    return {p.name: p for p in sorted(folders) if is_model(p)}


def default_model(tokenizer: str | None = None, *, in_bars: bool = False) -> Path | None:
    """Return the folder of the included model to use: the first with this ``tokenizer``; without
    ``tokenizer``, :data:`SONG_MODEL` for music ``in_bars``, else :data:`DEFAULT`, else the first of
    all. ``None`` if there is none."""
    included = models()
    if tokenizer is not None:
        included = {k: path for k, path in included.items() if _tokenizer(path) == tokenizer}
    elif in_bars and SONG_MODEL in included:
        return included[SONG_MODEL]
    elif DEFAULT in included:
        return included[DEFAULT]
    return next(iter(included.values()), None)


def examples() -> dict[str, Path]:
    """Return the examples: name -> MIDI file. They are in the public domain and were entered by
    hand: Beethoven, Symphony No. 9 (1824), last movement; three French songs of the 18th century;
    Mozart, Sonata K. 545 (1788), bars 1 to 4, with slightly free timing."""
    return {p.stem: p for p in sorted((_HERE / "examples").glob("*.mid"))}


def melodies() -> dict[str, Path]:
    """Return the examples that are melodies to harmonise."""
    return {name: path for name, path in examples().items() if name not in OPENINGS}


def locate(folder: str | Path) -> Path:
    """Return the path of a model folder.

    folder  a model folder, a run folder (which has the model folder ``model``), the name of an
            included model, or ``hf:USER/NAME@REVISION`` on the Hugging Face hub

    Raises ``UserError`` if there is none, or if it is incomplete.
    """
    name, folder = str(folder), Path(os.path.expanduser(folder))
    if name.startswith("hf:"):
        from musictx import hub

        folder = hub.fetch(name)
    elif name in (included := models()) and not (is_model(folder) or is_model(folder / "model")):
        folder = included[name]  # a folder of music may have this name, too
    elif not os.path.isdir(folder):  # os.path, unlike Path, returns False for impossible names
        raise UserError(
            f"{shown(folder)}: no such model folder ({CONTENTS}), nor an included model "
            f"({', '.join(included) or 'none'})"
        )
    if not is_model(folder) and is_model(folder / "model"):
        folder = folder / "model"
    if absent := missing_files(os.listdir(folder)):
        raise UserError(f"{folder}: {' and '.join(absent)} missing; {CONTENTS}")
    return folder


def model_folder(
    path: str | None, tokenizer: str | None = None, *, in_bars: bool = False, option: str = "model"
) -> Path:
    """Return the model folder ``path`` (:func:`locate`), or that of :func:`find_latest` if it is
    ``None``. Errors about ``path`` begin with ``option``."""
    if path is None:
        return find_latest(tokenizer=tokenizer, in_bars=in_bars)
    try:
        return locate(path)
    except UserError as error:
        raise UserError(f"{option}={error}") from None


def name_of(folder: Path) -> str:
    """Return the name of a model folder, or of the run folder that contains it."""
    return folder.parent.name if folder.name == "model" else folder.name


def find_latest(
    root: str | Path = "runs", *, tokenizer: str | None = None, in_bars: bool = False
) -> Path:
    """Return the newest complete model folder ``root/*/model``; if there is none, the
    :func:`default_model`. With ``tokenizer``, only models with this tokenizer are considered.
    Raises ``UserError`` if there is no model at all."""
    trained = [
        config
        for config in Path(root).glob("*/model/config.json")
        if not missing_files(os.listdir(config.parent))
        and tokenizer in (None, _tokenizer(config.parent))
    ]
    if trained:
        return max(trained, key=lambda config: (config.stat().st_mtime_ns, str(config))).parent
    included = default_model(tokenizer, in_bars=in_bars)
    if included is None:
        kind = f" of {tokenizer} tokens" if tokenizer else ""
        option = f" tokenizer={tokenizer}" if tokenizer else ""
        raise UserError(
            f"model.path: no trained model{kind} under {root}/; train one with "
            f"'musictx train corpus.path=DIR{option}' or give model.path=FOLDER"
        )
    return included


def _tokenizer(folder: Path) -> str | None:
    """Return the name of the tokenizer of a model folder; None if it cannot be read."""
    try:
        return str(read_json(folder / "tokenizer.json")["config"]["name"])
    except (UserError, KeyError, TypeError):
        return None
