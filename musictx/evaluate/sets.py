"""The sets of pieces to compare: read music files, draw pieces, derive the control set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from musictx import formats
from musictx.data.shards import SPLITS, Piece
from musictx.data.statistics import excerpt
from musictx.errors import UserError
from musictx.notes import Score, skyline, until

#: Names of the sets.
SAMPLES, REAL, CONTROL, TRAINING = "samples", "real", "control", "training"
#: The file in a folder of samples with facts about each (:mod:`musictx.evaluate.samples`).
SAMPLES_FILE = "samples.json"


@dataclass(frozen=True)
class Excerpt:
    """The measured part of a piece: ``seconds`` from ``start`` on. The rest of the piece is given
    music, which is not measured.

    name   of the piece
    piece  the whole piece; each note lasts as long as the sustain pedal holds it
    """

    name: str
    piece: Score
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """The end of the excerpt in the piece, in seconds."""
        return self.start + self.seconds

    @cached_property
    def score(self) -> Score:
        """The pitched notes that begin in the excerpt, with times from its beginning, cut off at
        its end; without pedals, tempo and meter."""
        return excerpt(self.piece, self.start, self.seconds)

    @cached_property
    def score_in_piece(self) -> Score:
        """All notes that begin in the excerpt, with their times in the piece, cut off at the end of
        the excerpt, and the tempo and meter marks of the piece."""
        return until(self.piece.with_notes(self.piece.notes[self.note_mask]), self.end)

    @property
    def given_music(self) -> tuple[Score, Score]:
        """(notes that begin before the excerpt, notes that begin after it)."""
        notes = self.piece.notes
        before, after = notes["start"] < self.start, notes["start"] >= self.end
        return self.piece.with_notes(notes[before]), self.piece.with_notes(notes[after])

    @property
    def note_mask(self) -> np.ndarray:
        """(notes of the piece,) bool: which of them begin in the excerpt."""
        start = self.piece.notes["start"]
        mask: np.ndarray = (start >= self.start) & (start < self.end)
        return mask


def control_set(real: Sequence[Excerpt]) -> list[Excerpt]:
    """Return the control set, which shows the values of chance: each excerpt with all pitched notes
    but its melody moved by a tritone, and with the given music of the next excerpt. Empty for fewer
    than two excerpts."""
    control: list[Excerpt] = []
    if len(real) < 2:
        return control
    for original, neighbour in zip(real, [*real[1:], real[0]]):
        notes = original.piece.notes[original.note_mask].copy()
        lower = ~skyline(original.piece)[original.note_mask] & ~notes["drum"]
        pitch = notes["pitch"][lower].astype(int)
        notes["pitch"][lower] = np.where(pitch < 122, pitch + 6, pitch - 6)
        notes_before, notes_after = (score.notes for score in neighbour.given_music)
        notes = np.concatenate([notes_before, notes, notes_after])
        control.append(replace(original, piece=original.piece.with_notes(notes)))
    return control


def find_files(path: str | Path, option: str) -> list[tuple[str, Path]]:
    """Return (name, file) of all music files in the folder ``path`` and its subfolders, sorted, or
    of ``path`` itself if it is a file. The name is the path within the folder, without the ending.
    Raises ``UserError`` about ``option`` if there are none."""
    folder = Path(path)
    files = formats.find_music(folder) if folder.is_dir() else []
    if folder.is_file():
        folder, files = folder.parent, [folder]
    if not files:
        raise UserError(f"{option}={path}: expected a folder with MIDI files in it, or one file")
    return [(file.relative_to(folder).with_suffix("").as_posix(), file) for file in files]


def read_files(files: Sequence[tuple[str, Path]], option: str) -> Iterator[tuple[str, Score]]:
    """Yield the name and the music of each of ``files``. A file that cannot be read is left out,
    and its error is printed. Raises ``UserError`` about ``option`` if no file can be read."""
    unreadable = 0
    for name, file in files:
        try:
            score = formats.read(file)
        except UserError as error:
            unreadable += 1
            print(f"left out: {error}", flush=True)
        else:
            yield name, score
    if unreadable == len(files):
        raise UserError(f"{option}: expected music; none of its {unreadable} files can be read")


def read_seams(folder: str | Path) -> dict[str, float]:
    """Read :data:`SAMPLES_FILE` in ``folder``. Return {name of a sample: the seconds at which its
    new music begins}; empty without that file. Raises ``UserError`` for a damaged file."""
    path = Path(folder) / SAMPLES_FILE
    if not path.is_file():
        return {}
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))["samples"]
        return {name: float(sample["seam"]) for name, sample in samples.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f"{path}: damaged; delete it to measure the files as they are") from None


def draw_pieces(
    pieces: Sequence[Piece], split: str, count: int, length: float, seed: int
) -> list[Piece]:
    """Draw at most ``count`` of the ``pieces`` of ``split`` without replacement, among those that
    include their beginning and last at least ``length`` seconds. Raises ``UserError`` if there are
    none."""
    long = [piece for piece in pieces if piece.begins and piece.seconds >= length]
    if not long:
        raise UserError(
            f"seconds: no {split} piece of the corpus lasts {length:g} s from its beginning; lower "
            "seconds or primer_seconds"
        )
    order = np.random.default_rng([seed, SPLITS.index(split)]).permutation(len(long))[:count]
    return [long[i] for i in order.tolist()]
