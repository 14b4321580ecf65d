"""``musictx train corpus.path=DIR`` fine-tunes the included model that suits the music by default.

A model trained on similar music learns from a few pieces in minutes what training from scratch does
not in hours (docs/training.md). So unless the command has one of the options :data:`DECISIVE` or of
the groups :data:`DECISIVE_GROUPS`, ``experiment=own`` is added: with the model of songs where most
files are on a beat grid, with the piano where most notes are piano notes.
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
from musictx.hydra_config.words import split
from musictx.options import QUOTED, make_config

#: Options and groups that determine how training begins: with one of these, nothing is added.
DECISIVE = ("init", "experiment", "trainer", "corpus", "corpus.name")
DECISIVE_GROUPS = ("model", "position", "tokenizer")
#: Programs of pianos, harpsichord and clavichord included.
PIANOS = range(8)
#: The number of examined files, spread evenly over the folder.
FILES_READ = 20
#: A model suits the music if at least this share of the files, or of their notes, is of its kind.
DECIDING_SHARE = 0.8


def train_words(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Return ``words`` with the options of fine-tuning, for Hydra, and a line about the added
    options; None for no line."""
    options = dict(word.lstrip("+~").partition("=")[::2] for word in words)
    folders = _folders(options.get("corpus.path", "null"))
    if _is_decided(options) or "null" in folders:
        return list(words), None
    model, why = nearest_model(contents_of(folders))
    if model not in shipped.models():
        return list(words), f"start   from scratch: {why} (init=piano or init=song fine-tunes)"
    return [*words, "experiment=own", f"init={model}"], (
        f"start   from the included model {model}, as {why} (experiment=own: Muon, the "
        "fastest precision and attention at hand); init=null trains from scratch"
    )


def prepare_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the ``options`` of prepare with the tokenizer of the model that training on this music
    would fine-tune, and a line about it. If ``options`` determine the tokenizer, they are returned
    unchanged, with None."""
    if _is_decided(options) or not options.get("corpus.path"):
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


def _is_decided(names: Iterable[str]) -> bool:
    return any(name in DECISIVE or name.split(".")[0] in DECISIVE_GROUPS for name in names)


def _folders(path: str) -> list[str]:
    """Return the folders in a value of ``corpus.path`` for Hydra; in a sweep those of all runs."""
    values = [split(value[1:-1]) if value.startswith("[") else [value] for value in split(path)]
    folders = [QUOTED.sub(r"\2", folder) for value in values for folder in value]
    return [folder.replace(r"\${", "${") for folder in folders]


class FolderContents(NamedTuple):
    """Statistics of folders. Except for ``files``, they are of the examined files.

    files     the number of music files
    read      the number of files that could be read
    on_beats  the number of files on a beat grid
    notes     the number of notes
    pianos    the number of notes of pianos
    seconds   the sum of the lengths of the files
    """

    files: int
    read: int
    on_beats: int
    notes: int
    pianos: int
    seconds: float


def contents_of(folders: Sequence[str]) -> FolderContents:
    """Compute statistics of ``folders`` from :data:`FILES_READ` of their files."""
    import numpy as np  # numpy and the readers take a fifth of a second, too slow for --help

    from musictx import formats
    from musictx.folders import walk_several
    from musictx.grid import grid_of

    roots = dict.fromkeys((Path(folder).expanduser() for folder in folders), "")
    notes, pianos, read, on_beats, seconds = 0, 0, 0, 0, 0.0
    files = [*walk_several(roots, formats.SUFFIXES)]
    stride = max(1, len(files) // FILES_READ)
    for file in files[: stride * FILES_READ : stride]:
        try:
            score = formats.read(file.path)
        except UserError:  # preparing will report the error
            continue
        music = score.notes
        read += 1
        on_beats += grid_of(score).on_beats
        notes, seconds = notes + len(music), seconds + score.duration
        pianos += int((np.isin(music["program"], PIANOS) & ~music["drum"]).sum())
    return FolderContents(len(files), read, on_beats, notes, pianos, seconds)


def nearest_model(contents: FolderContents) -> tuple[str | None, str]:
    """Return the included model for music such as ``contents``, None if none suits, and the reason
    in words."""
    _, read, on_beats, notes, pianos, _ = contents
    if read and on_beats >= DECIDING_SHARE * read:
        return shipped.ON_BEATS, f"{on_beats} of {read} files keep to their beats"
    if not notes or pianos >= DECIDING_SHARE * notes:
        return shipped.DEFAULT, "this is piano music that was played"
    other = f"{100 * (1 - pianos / notes):.0f} % of the notes in {read} files are not a piano's"
    return None, f"{other}, and they keep to no beats"
