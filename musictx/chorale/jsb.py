"""The JSB chorales as published: a JSON file of splits, pieces, sixteenths and four pitches.

``{"train": [piece, ...], "valid": [...], "test": [...]}`` (Boulanger-Lewandowski et al. 2012, on
the sixteenth grid, "Jsb16thSeparated"); a piece is a list of steps, a step the MIDI pitches of
soprano, alto, tenor and bass, -1 where a voice is silent. The file may hold some of the splits.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from musictx.chorale.grid import SILENCE, VOICES, Grid, write
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import Limits
from musictx.data.corpora import Item
from musictx.errors import UserError, reason
from musictx.notes import Score
from musictx.tokens.tokenizer import Tokenizer

#: Names of splits in the file -> those of musictx.
SPLITS = {"train": "train", "valid": "validation", "validation": "validation", "test": "test"}


def read_piece(
    grid: Grid, tokenizer: Tokenizer, repairs: Counter[str], limits: Limits
) -> tuple[Score, np.ndarray | None]:
    """A :data:`musictx.data.corpora.Reader`: for the chorale tokenizer step for step as
    published, silence at the ends included."""
    ids = tokenizer.encode_grid(grid) if isinstance(tokenizer, ChoraleTokenizer) else None
    return write(grid), ids


class Published:
    """The file at ``path`` as a :class:`musictx.data.corpora.Corpus`: its split, every piece."""

    label = "jsb"
    published = True
    needs_path = True
    read = staticmethod(read_piece)

    def __init__(self, path: str | None) -> None:
        self._pieces = read(path)

    def __len__(self) -> int:
        return len(self._pieces)

    def identity(self) -> str:
        content = hashlib.sha256()
        for name, _, grid in self._pieces:
            key = hashlib.sha256(grid.pitches.tobytes()).hexdigest()[:32]
            content.update(f"{name} {key}\n".encode())
        return content.hexdigest()

    def items(self) -> Iterator[Item]:
        for name, split, grid in self._pieces:
            yield Item(name, grid, split=split)


def read(path: str | None) -> list[tuple[str, str, Grid]]:
    """(name, split, Grid) of every piece, in the order of the file; names are ``valid/007``.

    Raises ``UserError`` naming ``corpus.path`` and the place in the file that is not as it should.
    """
    if not path:
        raise UserError("corpus.path is missing: give the JSON file of the chorales, corpus.path=F")
    file = Path(path).expanduser()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"corpus.path={path}: cannot be read as JSON: {reason(error)}") from None
    if not isinstance(content, dict) or not set(content) & set(SPLITS):
        raise UserError(
            f"corpus.path={path}: expected an object with lists of pieces named train, valid, test"
        )
    pieces = []
    for name, split in SPLITS.items():
        listed = content.get(name, [])
        if not isinstance(listed, list):
            raise UserError(f"corpus.path={path}: {name}: expected a list of pieces")
        for number, steps in enumerate(listed):
            label = f"{name}/{number:03d}"
            pieces.append((label, split, Grid.joined(_pitches(steps, f"{path}: {label}"))))
    if not pieces:
        raise UserError(f"corpus.path={path}: there is no piece in it")
    return pieces


def _pitches(steps: object, where: str) -> np.ndarray:
    try:
        table = np.asarray(steps, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] != len(VOICES) or not len(table):
        raise UserError(f"corpus.path={where}: expected a list of steps of four pitches")
    silent = np.isnan(table) | (table < 0)
    whole = np.where(silent, 0, table)
    if np.any(whole != np.floor(whole)) or np.any(whole > 127):
        raise UserError(f"corpus.path={where}: expected MIDI pitches 0 to 127, or -1 for silence")
    return np.where(silent, SILENCE, whole).astype(np.int64)
