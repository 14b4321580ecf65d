"""``musictx train corpus.path=DIR`` fine-tunes the included model that suits the music by default.

A model trained on similar music learns from a few pieces in minutes what training from scratch does
not in hours (docs/training.md). So unless the command has one of the options
:data:`DECIDED` or of the groups :data:`GROUPS`, ``experiment=own`` is added: with the model of
songs where most files are on a beat grid, with the piano where most notes are piano notes.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from musictx import shipped
from musictx.commands import options_of
from musictx.compose.words import split
from musictx.config import TokenizerConfig
from musictx.config.values import converted
from musictx.errors import UserError
from musictx.options import check_paths

#: With one of these options the command itself determines how training begins; nothing is added.
DECIDED = ("init", "experiment", "trainer", "corpus", "corpus.name")
GROUPS = ("model", "position", "tokenizer")
#: Programs of pianos, harpsichord and clavichord included.
PIANOS = range(8)
#: Files that are examined, spread evenly over the folder, and the share of them, or of their
#: notes, that decides.
FILES_READ, DECIDING_SHARE = 20, 0.8


def train_words(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Return ``words`` with the options of fine-tuning, for Hydra, and a line about the added
    options; None for no line."""
    options = dict(word.lstrip("+~").partition("=")[::2] for word in words)
    folders = _folders(options.get("corpus.path", "null"))
    if _is_decided(options) or "null" in folders:
        return list(words), None
    model, why = nearest_model(contents_of(folders))
    if model not in shipped.models():
        return list(words), f"start   from nothing: {why} (init=piano and init=song begin with one)"
    return [*words, "experiment=own", f"init={model}"], (
        f"start   from the included model {model}, as {why} (experiment=own: Muon, the "
        "fastest precision and attention at hand); init=null begins with nothing"
    )


def prepare_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the ``options`` of prepare with the tokenizer of the model with which training on this
    music would begin, and a line about the tokenizer. If ``options`` decide that themselves, they
    are returned unchanged, with None."""
    path = options.get("corpus.path")
    if _is_decided(options) or not path:
        return dict(options), None
    field = options_of("prepare")["corpus.path"]
    path = converted("corpus.path", field, path)
    check_paths("corpus.path", field, path)
    model, why = nearest_model(contents_of([path] if isinstance(path, str) else path))
    if model not in shipped.models():
        return dict(options), None
    folder, fields = shipped.models()[model], dataclasses.fields(TokenizerConfig)
    tokens = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["config"]
    names = [f.name for f in fields if f.name in tokens and f.name != "controls"]
    return {**options, **{f"tokenizer.{name}": tokens[name] for name in names}}, (
        f"tokens  those of the model {model}, with which training on this music begins, as {why} "
        "(tokenizer=performance for others)"
    )


def _is_decided(names: Iterable[str]) -> bool:
    return any(name in DECIDED or name.split(".")[0] in GROUPS for name in names)


def _folders(path: str) -> list[str]:
    """Return the folders that the option ``corpus.path`` names in the words for Hydra; in a sweep
    the folders of all runs."""
    lists = [split(one[1:-1]) if one.startswith("[") else [one] for one in split(path)]
    several = [folder for folders in lists for folder in folders]
    return [re.sub(r"^(['\"])(.*)\1$", r"\2", one).replace(r"\${", "${") for one in several]


class FolderContents(NamedTuple):
    """Statistics of some folders.

    files     the number of music files
    read      of the examined files, the number that could be read; the other fields count in these
    on_beats  files on a beat grid
    pianos    notes of pianos
    seconds   the sum of their lengths
    """

    files: int
    read: int
    on_beats: int
    notes: int
    pianos: int
    seconds: float


def contents_of(folders: Sequence[str]) -> FolderContents:
    """Statistics of ``folders`` from :data:`FILES_READ` of their files."""
    import numpy as np  # numpy and the readers take a fifth of a second, too slow for --help

    from musictx import formats
    from musictx.grid import grid_of

    roots = dict.fromkeys((Path(folder).expanduser() for folder in folders), "")
    notes, pianos, read, on_beats, seconds = 0, 0, 0, 0, 0.0
    files = sum(1 for _ in formats.walk_several(roots, formats.SUFFIXES))
    stride = max(1, files // FILES_READ)
    every = formats.walk_several(roots, formats.SUFFIXES)
    for file in islice(every, 0, stride * FILES_READ, stride):
        try:
            score = formats.read(file.path)
        except UserError:  # preparing will report the error
            continue
        music = score.notes
        read += 1
        on_beats += grid_of(score).on_beats
        notes, seconds = notes + len(music), seconds + score.duration
        pianos += int((np.isin(music["program"], PIANOS) & ~music["drum"]).sum())
    return FolderContents(files, read, on_beats, notes, pianos, seconds)


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
