"""Find a model folder: by its path, as the newest in ``runs``, or among those included in musictx
and its optional components. Also find the included examples of music."""

from __future__ import annotations

import os
from pathlib import Path

from musictx import registry
from musictx.errors import UserError, shown
from musictx.files import read_json
from musictx.folders import MODEL_FILES, missing_files

#: What a model folder is, for error messages.
MODEL_FOLDER_HELP = f"a model folder has {', '.join(MODEL_FILES)}"
_HERE = Path(__file__).resolve().parent
#: The included model for new music and performances.
DEFAULT = "piano"
#: The included model for music that follows a beat grid.
SONG_MODEL = "song"
#: Models whose weights and generated music are under CC BY-NC-SA 4.0.
NON_COMMERCIAL = ("piano",)


def is_model(folder: Path) -> bool:
    """Whether ``folder`` has a config.json, as a model folder does, complete or not."""
    return os.path.isfile(folder / "config.json")  # unlike Path, False for impossible names


def models() -> dict[str, Path]:
    """Return the included models, sorted by path: name -> model folder."""
    roots = [_HERE / "models", *registry.MODELS]
    folders = [folder for root in roots for folder in root.glob("*")]
    return {p.name: p for p in sorted(folders) if is_model(p)}


def default_model(tokenizer: str | None = None, *, in_bars: bool = False) -> Path | None:
    """Return the folder of the included model to use; ``None`` if there is none.

    With ``tokenizer``, it is the first model with this tokenizer. Without, it is the first of these
    that is included: :data:`SONG_MODEL` (only if ``in_bars``), :data:`DEFAULT`, any model.
    """
    included = models()
    names = [*[SONG_MODEL] * in_bars, DEFAULT, *included]
    if tokenizer is not None:
        names = [name for name in included if _tokenizer(included[name]) == tokenizer]
    return next((included[name] for name in names if name in included), None)


def examples() -> dict[str, Path]:
    """Return the examples: name -> MIDI file. They are in the public domain and were entered by
    hand: the Ode to Joy from Beethoven, Symphony No. 9 (1824); three French songs of the 18th
    century; Mozart, Sonata K. 545 (1788), bars 1 to 4, with slightly free timing."""
    return {p.stem: p for p in sorted((_HERE / "examples").glob("*.mid"))}


def locate(folder: str | Path) -> Path:
    """Return the path of a model folder.

    folder  a model folder, a run folder (which has the model folder ``model``), the name of an
            included model, or ``hf:USER/NAME@REVISION`` on the Hugging Face hub

    Raises ``UserError`` if there is none, or if it is incomplete.
    """
    name, included = str(folder), models()
    folder = Path(os.path.expanduser(name))
    if name.startswith("hf:"):
        from musictx import hub

        folder = hub.fetch(name)
    elif name in included and not (is_model(folder) or is_model(folder / "model")):
        folder = included[name]  # a folder of music may have this name, too
    elif not os.path.isdir(folder):
        raise UserError(
            f"{shown(folder)}: no such model folder ({MODEL_FOLDER_HELP}), nor an included model "
            f"({', '.join(included) or 'none'})"
        )
    if not is_model(folder) and is_model(folder / "model"):
        folder = folder / "model"
    if absent := missing_files(os.listdir(folder)):
        raise UserError(f"{folder}: {' and '.join(absent)} missing; {MODEL_FOLDER_HELP}")
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
    :func:`default_model`, to which ``in_bars`` is passed. With ``tokenizer``, only models with this
    tokenizer are considered. Raises ``UserError`` if there is no model at all."""
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
            f"model: no trained model{kind} under {root}/; train one with "
            f"'musictx train corpus.path=DIR{option}' or give model=FOLDER"
        )
    return included


def _tokenizer(folder: Path) -> str | None:
    """Return the name of the tokenizer of a model folder; None if it cannot be read."""
    try:
        return str(read_json(folder / "tokenizer.json")["config"]["name"])
    except (UserError, KeyError, TypeError):
        return None
