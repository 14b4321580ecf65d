"""``musictx train corpus.path=DIR`` begins with the shipped piano if DIR holds piano music.

A model that knows piano music learns from a few pieces in minutes what a new one does not in hours
(docs/training.md). So if the command names no model, tokenizer or trainer, and the files are piano
music, the words ``experiment=own`` are added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from musictx import shipped
from musictx.compose.words import split
from musictx.errors import UserError

#: With one of these options the command says itself how training begins; nothing is added.
DECIDED = ("init", "experiment", "trainer", "corpus", "corpus.name")
GROUPS = ("model", "position", "tokenizer")
#: Programs of pianos, harpsichord and clavichord included.
PIANOS = range(8)
#: Files that are looked at, spread evenly over the folder, and the share of their notes that must
#: be a piano's.
FILES, SHARE = 20, 0.8


def begun(words: Sequence[str]) -> tuple[list[str], str | None]:
    """The words for Hydra of a training, and a line that says with what it begins; None where the
    words say so themselves."""
    options = dict(word.lstrip("+~").partition("=")[::2] for word in words)
    decided = any(name in DECIDED or name.split(".")[0] in GROUPS for name in options)
    paths = split(options.get("corpus.path", ""))  # several in a sweep
    paths = [re.sub(r"^(['\"])(.*)\1$", r"\2", path) for path in paths]
    if decided or not {"", "null"}.isdisjoint(paths) or "piano" not in shipped.models():
        return list(words), None
    why = next(filter(None, map(unlike_a_piano, paths)), None)
    if why is not None:
        return list(words), f"start   from nothing: {why} (init=piano begins with the piano model)"
    return [*words, "experiment=own"], (
        "start   from the piano model that comes along (experiment=own: Muon, the fastest "
        "precision and attention at hand); init=null begins with nothing"
    )


def unlike_a_piano(folder: str) -> str | None:
    """Why the music in ``folder`` is no piano music, in words; None if it is."""
    import numpy as np  # a fifth of a second with what reads music; help has none to spare

    from musictx import formats

    root, notes, pianos, read = Path(folder).expanduser(), 0, 0, 0
    apart = max(1, sum(1 for _ in formats.walk(root, formats.SUFFIXES)) // FILES)
    for file in islice(formats.walk(root, formats.SUFFIXES), 0, apart * FILES, apart):
        try:
            music = formats.read(file.path).notes
        except UserError:  # preparing will say what is wrong
            continue
        read += 1
        notes += len(music)
        pianos += int((np.isin(music["program"], PIANOS) & ~music["drum"]).sum())
    if not notes or pianos >= SHARE * notes:
        return None
    share = f"{100 * (1 - pianos / notes):.0f} %"
    return f"{share} of the notes in {read} files are not a piano's"
