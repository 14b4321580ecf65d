"""Two corpora of chorales: the files in the package music21, and a published JSON file.

music21 (extra ``bach``) is never imported, since that would take seconds and its files are plain
MusicXML. Of the works in its folder ``corpus/bach`` only those in exactly four parts, from high to
low, are used; works with obbligato instruments have more. Some chorales are in the folder twice,
identical or nearly so, sometimes in another key. Each is used once, so that it is in one split.

The JSON file is ``{"train": [piece, ...], "valid": [...], "test": [...]}`` (Boulanger-Lewandowski
et al. 2012, "Jsb16thSeparated"); splits may be missing. A piece is a list of sixteenths, and a
sixteenth is a list of the MIDI pitches of soprano, alto, tenor and bass, -1 for a silent voice.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import musictx
from musictx import musicxml
from musictx.chorale.grid import BPM, SILENCE, VOICES, Grid, write
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import Limits
from musictx.data.corpora import Item
from musictx.errors import UserError, reason
from musictx.notes import Score
from musictx.tokens.tokenizer import Tokenizer

#: Notes of at most this many seconds are left out: grace notes, which two editions contain.
GRACE_SECONDS = 0.06
#: Two pieces whose melodies begin with the same intervals are duplicates if they share at least
#: this fraction of their notes. Six pairs share 82 to 100 %; all other pairs are different
#: harmonisations, which share at most 67 %.
DUPLICATE_SHARE = 0.8


class BachChorales:
    """The chorales of music21 as a :class:`musictx.data.corpora.Corpus`. Their identity consists of
    the versions of music21 and musictx, so no file is read if the shards are up to date."""

    label = "bach"
    published = False
    needs_path = False

    def __init__(self, path: str | None = None) -> None:
        if path is not None:
            raise UserError(f"corpus.path={path}: corpus=bach takes none, it is inside music21")

    def __len__(self) -> int:
        return len(chorales())

    def identity(self) -> str:
        try:
            return f"{importlib.metadata.version('music21')} {musictx.__version__}"
        except importlib.metadata.PackageNotFoundError:
            return f"no version: {[name for name, _ in chorales()]}"

    def items(self) -> Iterator[Item]:
        for name, score in chorales():
            yield Item(name, score)

    @staticmethod
    def read(
        score: Score, tokenizer: Tokenizer, repairs: Counter[str], limits: Limits
    ) -> tuple[Score, np.ndarray | None]:
        """A :data:`musictx.data.corpora.Reader`."""
        return score, None


@cache
def chorales() -> list[tuple[str, Score]]:
    """(name, Score) of every chorale, sorted by name; the first call takes about 2 s.

    The name is that of the file, such as ``bwv66.6``. Tracks 0 to 3 are soprano, alto, tenor and
    bass. All notes have velocity 80 and program 0 (piano). The tempo is 100 quarter notes a minute.
    Raises :class:`UserError` if music21 is not installed.
    """
    paths = [p for p in _folder().iterdir() if p.suffix in (".mxl", ".xml", ".musicxml")]
    pieces: dict[str, Score] = {}
    contents: dict[bytes, list[frozenset[tuple[float, float, int]]]] = {}  # by incipit
    for path in sorted(paths, key=_natural_order):
        try:
            # Repeats are not played: a model learns nothing from the same bars twice.
            score = musicxml.read(path.read_bytes(), bpm=BPM, repeats=False)
        except (UserError, OSError):
            continue
        if not _in_four_parts(score):
            continue
        content, similar = _content(score), contents.setdefault(_incipit(score), [])
        if all(len(content & other) / len(content | other) < DUPLICATE_SHARE for other in similar):
            similar.append(content)
            seconds = score.notes["end"] - score.notes["start"]
            notes = score.notes[seconds > GRACE_SECONDS].copy()
            notes["program"] = 0
            pieces[path.stem] = score.with_notes(notes)
    return sorted(pieces.items())


def _folder() -> Path:
    spec = importlib.util.find_spec("music21")
    if spec is None or spec.origin is None:
        raise UserError(
            "the Bach chorales come with the music21 package, which is not installed: "
            'pip install "musictx[bach]"'
        )
    folder = Path(spec.origin).parent / "corpus" / "bach"
    if not folder.is_dir():
        raise UserError(f"{folder}: missing, expected the Bach corpus of a full music21 package")
    return folder


def _natural_order(path: Path) -> tuple[list[tuple[int, str]], str]:
    """A sort key by which bwv66.6 comes before bwv101.7."""
    parts = path.stem.removeprefix("bwv").replace("-", ".").split(".")
    return [(int(p), "") if p.isdecimal() else (1 << 30, p) for p in parts], path.name


def _incipit(score: Score) -> bytes:
    """The first eight intervals of the melody, which are the same in any key."""
    soprano = score.notes["pitch"][score.notes["track"] == 0][:9]
    return np.diff(soprano.astype(np.int8)).tobytes()


def _content(score: Score) -> frozenset[tuple[float, float, int]]:
    """(start, end, pitch) of every note: seconds, and semitones above the first soprano note."""
    origin = int(score.notes["pitch"][score.notes["track"] == 0][0])
    starts, ends = np.round(score.notes["start"], 3), np.round(score.notes["end"], 3)
    pitches = score.notes["pitch"].astype(int) - origin
    return frozenset(zip(starts.tolist(), ends.tolist(), pitches.tolist()))


def _in_four_parts(score: Score) -> bool:
    """Whether the tracks are four parts in descending order of mean pitch, without drums."""
    tracks = score.notes["track"]
    if not np.array_equal(np.unique(tracks), np.arange(len(VOICES))):
        return False
    heights = [float(np.mean(score.notes["pitch"][tracks == t])) for t in range(len(VOICES))]
    return heights == sorted(heights, reverse=True) and not score.notes["drum"].any()


#: Names of splits in the file -> names in musictx.
SPLITS = {"train": "train", "valid": "validation", "validation": "validation", "test": "test"}


class Published:
    """The JSON file at ``path`` as a :class:`musictx.data.corpora.Corpus`, with its splits. Pieces
    have names such as ``valid/007``, numbered in the order of the file.

    Raises ``UserError`` for an invalid file, with ``corpus.path`` and the piece that is invalid.
    """

    label = "jsb"
    published = True
    needs_path = True

    def __init__(self, path: str | None) -> None:
        if not path:
            raise UserError(
                "corpus.path is missing: give the JSON file of the chorales, corpus.path=FILE"
            )
        where = f"corpus.path={path}"
        if Path(path).expanduser().is_dir():
            raise UserError(f"{where}: this is a folder; give the JSON file of the chorales")
        try:
            content = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"{where}: cannot be read as JSON: {reason(error)}") from None
        is_object = isinstance(content, dict) and set(content) & set(SPLITS)
        if not is_object or not all(isinstance(content.get(name, []), list) for name in SPLITS):
            raise UserError(
                f"{where}: expected an object with lists of pieces named train, valid, test"
            )
        self._items: list[Item] = []
        for name, split in SPLITS.items():
            for number, steps in enumerate(content.get(name, [])):
                label = f"{name}/{number:03d}"
                grid = Grid.from_pitches(_pitches(steps, f"{where}: {label}"))
                self._items.append(Item(label, grid, split=split))
        if not self._items:
            raise UserError(f"{where}: there is no piece in it")

    def __len__(self) -> int:
        return len(self._items)

    def identity(self) -> str:
        content = hashlib.sha256()
        for item in self._items:
            piece = hashlib.sha256(item.source.pitches.tobytes()).hexdigest()[:32]
            content.update(f"{item.name} {piece}\n".encode())
        return content.hexdigest()

    def items(self) -> Iterator[Item]:
        return iter(self._items)

    @staticmethod
    def read(
        grid: Grid, tokenizer: Tokenizer, repairs: Counter[str], limits: Limits
    ) -> tuple[Score, np.ndarray | None]:
        """A :data:`musictx.data.corpora.Reader`. The chorale tokenizer encodes every step of a
        piece, including silence at its beginning and end."""
        ids = tokenizer.encode_grid(grid) if isinstance(tokenizer, ChoraleTokenizer) else None
        return write(grid), ids


def _pitches(steps: object, where: str) -> np.ndarray:
    try:
        table = np.asarray(steps, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] != len(VOICES) or not len(table):
        raise UserError(f"{where}: expected a list of steps of four pitches")
    pitches = np.where(np.isnan(table) | (table < 0), SILENCE, table)
    if np.any(pitches != np.floor(pitches)) or np.any(pitches > 127):
        raise UserError(f"{where}: expected MIDI pitches 0 to 127, or -1 for silence")
    return pitches.astype(np.int64)
