"""By default ``musictx train corpus.path=DIR`` fine-tunes the included model that suits the music.

A model trained on similar music learns from a few pieces in minutes what a new model does not learn
in hours (docs/training.md). Therefore ``experiment=own`` is added, with the song model if most
files keep to their beats, or the piano model if most notes are for piano. Nothing is added for
other music, or if the command has an option of :data:`DECISIVE` or :data:`DECISIVE_GROUPS`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from musictx import shipped
from musictx.config import TokenizerConfig
from musictx.errors import UserError
from musictx.hydra_config.overrides import split
from musictx.options import QUOTED, make_config

#: Options, and groups of options, by which the user chooses the initial model.
DECISIVE = ("init", "experiment", "trainer", "corpus", "corpus.name")
DECISIVE_GROUPS = ("model", "position", "tokenizer")
#: Programs of pianos, harpsichord and clavichord included.
PIANO_PROGRAMS = range(8)
#: At most this many files, spread evenly over the folders, are examined.
MOST_FILES = 20
#: The song model suits music if at least this share of the files keep to their beats; the piano
#: model suits other music if at least this share of the notes are for piano.
DECIDING_SHARE = 0.8


def train_overrides(overrides: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the ``overrides`` for Hydra with those of fine-tuning, and a line for the user about
    the initial model; ``None`` if the user has chosen it."""
    options = dict(override.lstrip("+~").partition("=")[::2] for override in overrides)
    folders = _folders(options.get("corpus.path", "null"))
    if _has_choice(options) or "null" in folders:
        return list(overrides), None
    model, why = nearest_model(contents_of(folders))
    if model not in shipped.models():
        return list(overrides), f"start   from scratch: {why} (init=piano or init=song fine-tunes)"
    return [*overrides, "experiment=own", f"init={model}"], (
        f"start   from the included model {model}, as {why} (experiment=own: Muon, the "
        "fastest precision and attention available); init=null trains from scratch"
    )


def prepare_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the ``options`` of prepare with the tokenizer of the model that training on this music
    would fine-tune, and a line about it; if it would fine-tune none, ``options`` and ``None``."""
    if _has_choice(options) or not options.get("corpus.path"):
        return dict(options), None
    path = make_config("prepare", options).corpus.path
    model, why = nearest_model(contents_of([path] if isinstance(path, str) else path))
    if model not in shipped.models():
        return dict(options), None
    folder, fields = shipped.models()[model], dataclasses.fields(TokenizerConfig)
    tokens = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["config"]
    names = [f.name for f in fields if f.name in tokens and f.name != "controls"]
    return {**options, **{f"tokenizer.{name}": tokens[name] for name in names}}, (
        f"tokens  those of the model {model}, which training would fine-tune, as {why} "
        "(tokenizer=performance for others)"
    )


def _has_choice(names: Iterable[str]) -> bool:
    """Whether one of the options ``names`` chooses the initial model."""
    return any(name in DECISIVE or name.split(".")[0] in DECISIVE_GROUPS for name in names)


def _folders(path: str) -> list[str]:
    """Return the folders in the override ``corpus.path=PATH``; in a sweep, those of all runs."""
    values = [split(value[1:-1]) if value.startswith("[") else [value] for value in split(path)]
    folders = [QUOTED.sub(r"\2", folder) for value in values for folder in value]
    return [folder.replace(r"\${", "${") for folder in folders]


class FolderContents(NamedTuple):
    """Statistics of folders: numbers of files and notes. All but ``files`` describe the files that
    were examined and could be read."""

    files: int  # music files
    read: int  # files that were read
    on_beats: int  # files that keep to their beats
    notes: int
    pianos: int  # piano notes
    seconds: float  # the sum of the lengths of the files


def contents_of(folders: Sequence[str]) -> FolderContents:
    """Compute statistics of ``folders`` from up to :data:`MOST_FILES` of their files."""
    import numpy as np  # numpy and the readers take a fifth of a second, too slow for --help

    from musictx import formats
    from musictx.folders import walk_several
    from musictx.grid import grid_of

    roots = dict.fromkeys((Path(folder).expanduser() for folder in folders), "")
    notes, pianos, read, on_beats, seconds = 0, 0, 0, 0, 0.0
    files = [*walk_several(roots, formats.SUFFIXES)]
    stride = max(1, len(files) // MOST_FILES)
    for file in files[: stride * MOST_FILES : stride]:
        try:
            score = formats.read(file.path)
        except UserError:  # preparing will report the error
            continue
        is_piano = np.isin(score.notes["program"], PIANO_PROGRAMS) & ~score.notes["drum"]
        read += 1
        on_beats += grid_of(score).on_beats
        notes, pianos = notes + len(score), pianos + int(is_piano.sum())
        seconds += score.duration
    return FolderContents(len(files), read, on_beats, notes, pianos, seconds)


def nearest_model(contents: FolderContents) -> tuple[str | None, str]:
    """Return the name of the included model that suits ``contents``, or None, and the reason as
    text for the user."""
    _, read, on_beats, notes, pianos, _ = contents
    if read and on_beats >= DECIDING_SHARE * read:
        return shipped.SONG_MODEL, f"{on_beats} of {read} files keep to their beats"
    if not notes:
        return shipped.DEFAULT, "no notes were found"
    if pianos >= DECIDING_SHARE * notes:
        return shipped.DEFAULT, "this is freely played piano music"
    other = f"{100 * (1 - pianos / notes):.0f} % of the notes in {read} files are not a piano's"
    return None, f"{other}, and too few files keep to their beats"
