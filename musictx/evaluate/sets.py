"""The sets of pieces to compare: reading music files, drawing pieces, and the control set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from musictx import formats
from musictx.config.checks import DAY
from musictx.data.shards import SPLITS, Piece
from musictx.data.statistics import excerpt
from musictx.errors import UserError
from musictx.notes import Score, skyline, until

#: Names of the sets.
SAMPLES, REAL, CONTROL, TRAINING = "samples", "real", "control", "training"
#: The file in a folder of samples with facts about each (:mod:`musictx.evaluate.samples`).
LIST = "samples.json"


@dataclass(frozen=True)
class Excerpt:
    """The measured part of a piece: ``seconds`` from ``start`` on. The rest of the piece is given
    music, which is not measured.

    piece  the whole piece, with the sustain pedal folded into the lengths of notes
    """

    name: str
    piece: Score
    start: float
    seconds: float

    @property
    def stop(self) -> float:
        """The end of the excerpt in the piece, seconds."""
        return self.start + self.seconds

    @cached_property
    def alone(self) -> Score:
        """The pitched notes that begin in the excerpt, with times from its beginning. Notes end at
        the latest with the excerpt; pedals, tempo and meter are left out."""
        return excerpt(self.piece, self.start, self.seconds)

    @cached_property
    def in_place(self) -> Score:
        """All notes that begin in the excerpt, with their times in the piece, and the tempo and
        meter marks of the piece. Notes end at the latest with the excerpt."""
        return until(self.piece.with_notes(self.piece.notes[self.inside]), self.stop)

    @property
    def given(self) -> tuple[Score, Score]:
        """The given music: (notes that begin before the excerpt, notes that begin after it)."""
        notes = self.piece.notes
        before, after = notes["start"] < self.start, notes["start"] >= self.stop
        return self.piece.with_notes(notes[before]), self.piece.with_notes(notes[after])

    @property
    def inside(self) -> np.ndarray:
        """Boolean mask of the notes of the piece: which begin in the excerpt."""
        start = self.piece.notes["start"]
        mask: np.ndarray = (start >= self.start) & (start < self.stop)
        return mask


def controls(real: Sequence[Excerpt]) -> list[Excerpt]:
    """Return the control set, which shows the values of chance: each excerpt with all pitched notes
    but its melody moved by a tritone, and with the given music of the next excerpt. Empty for fewer
    than two excerpts."""
    control = []
    for original, neighbour in zip(real, [*real[1:], *real[:1]] if len(real) > 1 else []):
        notes = original.piece.notes[original.inside].copy()
        lower = ~skyline(original.piece)[original.inside] & ~notes["drum"]
        pitch = notes["pitch"][lower].astype(int)
        notes["pitch"][lower] = np.where(pitch < 122, pitch + 6, pitch - 6)
        notes_before, notes_after = (score.notes for score in neighbour.given)
        notes = np.concatenate([notes_before, notes, notes_after])
        control.append(replace(original, piece=original.piece.with_notes(notes)))
    return control


def files_in(path: str | Path, option: str) -> list[tuple[str, Path]]:
    """Return (name, file) of all music files in the folder ``path`` and its subfolders, sorted, or
    of ``path`` itself if it is a file. The name is the path within the folder, without the ending.
    Raises ``UserError`` about ``option`` if there are none."""
    folder, files = Path(path), formats.find_music(path) if Path(path).is_dir() else []
    if folder.is_file():
        folder, files = folder.parent, [folder]
    if not files:
        raise UserError(f"{option}={path}: expected a folder with MIDI files in it, or one file")
    return [(file.relative_to(folder).with_suffix("").as_posix(), file) for file in files]


def music_of(files: Sequence[tuple[str, Path]], option: str) -> Iterator[tuple[str, Score]]:
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


def seams_in(folder: str | Path) -> dict[str, float]:
    """Read :data:`LIST` in ``folder``. Return {name of a sample: the seconds at which its new music
    begins}; empty without that file. Raises ``UserError`` for a damaged file."""
    path = Path(folder) / LIST
    if not path.is_file():
        return {}
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))["samples"]
        seams = {name: sample.get("seam", 0.0) for name, sample in samples.items()}
        if all(0 <= seam <= DAY for seam in seams.values()):
            return seams
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass
    raise UserError(f"{path}: damaged; delete it to measure the files as they are")


def draw(pieces: Sequence[Piece], split: str, count: int, length: float, seed: int) -> list[Piece]:
    """Return at most ``count`` of the ``pieces`` of ``split`` that last at least ``length`` seconds
    and include their beginning, drawn with ``seed``, without replacement. Raises ``UserError`` if
    there is none."""
    long = [piece for piece in pieces if piece.begins and piece.seconds >= length]
    if not long:
        raise UserError(
            f"seconds: no {split} piece of the corpus lasts {length:g} s from its beginning; lower "
            "seconds or primer_seconds"
        )
    order = np.random.default_rng([seed, SPLITS.index(split)]).permutation(len(long))[:count]
    return [long[i] for i in order.tolist()]
