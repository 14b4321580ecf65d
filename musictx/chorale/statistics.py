"""Sets of chorales as distributions, to be laid side by side; what was copied, and from where.

A piece is an int array (T, 4) as in ``voice_leading``: the pitch of S A T B in each sixteenth, -1 =
silence. Held and repeated notes are not told apart: a note lasts until its voice's pitch changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from musictx.chorale.grid import VOICES
from musictx.chorale.voice_leading import STEPS_PER_BAR, check
from musictx.errors import UserError
from musictx.evaluate import keys

STEPS_PER_BEAT = 4
#: The first and last bin of each kind of histogram; what lies beyond counts in the outermost one.
_MELODIC = (-13, 13)
_HARMONIC = (-13, 48)
_LENGTHS = (1, 17)
_HARMONIES = (0, STEPS_PER_BAR)

#: Chords by their pitch classes above the root.
CHORDS: Mapping[str, frozenset[int]] = {
    "major": frozenset({0, 4, 7}),
    "minor": frozenset({0, 3, 7}),
    "diminished": frozenset({0, 3, 6}),
    "augmented": frozenset({0, 4, 8}),
    "dominant seventh": frozenset({0, 4, 7, 10}),
    "minor seventh": frozenset({0, 3, 7, 10}),
    "major seventh": frozenset({0, 4, 7, 11}),
    "half-diminished seventh": frozenset({0, 3, 6, 10}),
    "diminished seventh": frozenset({0, 3, 6, 9}),
}
#: The kinds of chords that are told apart on beats, in the order of their histogram.
CHORD_KINDS = ("silence", "one or two notes", *CHORDS, "other")


@dataclass(frozen=True)
class Statistics:
    """A set of pieces. ``histograms``: name -> float64 counts, of equal support for every set:

    pitch classes              12: steps for which each sounds in any voice, above the tonic
    melodic intervals, VOICE   -13..13 semitones between a note and the next, another one; not over
                               rests; -13 and 13 hold all beyond an octave
    harmonic intervals, PAIR   -13..48 semitones from the lower voice up to the higher, at each step
                               where one of the two changes
    note lengths               1..17 sixteenths, 17 holds all beyond a bar
    harmony changes in a bar   0..16, of whole bars from the first step on
    chords on beats            one bin for each of :data:`CHORD_KINDS`
    """

    pieces: int
    bars: float
    histograms: Mapping[str, np.ndarray]

    @property
    def harmony_changes(self) -> float:
        """Changes of the set of sounding pitch classes in a bar, over whole bars."""
        counts = self.histograms["harmony changes in a bar"]
        return float(counts @ np.arange(len(counts)) / max(counts.sum(), 1))

    @property
    def consonant(self) -> float:
        """Share of the beats (silent ones left out) on which a major or minor triad sounds."""
        return self._share("major", "minor")

    @property
    def sevenths(self) -> float:
        """Share of the beats (silent ones left out) on which a complete seventh chord sounds."""
        return self._share(*(name for name in CHORDS if "seventh" in name))

    def _share(self, *names: str) -> float:
        counts = self.histograms["chords on beats"]
        found = sum(counts[CHORD_KINDS.index(name)] for name in names)
        return float(found / max(counts[1:].sum(), 1))


def statistics(pieces: Iterable[np.ndarray]) -> Statistics:
    """The distributions of a set of pieces, notes or steps of all pieces counted alike."""
    arrays = [check(piece) for piece in pieces]
    if not arrays:
        raise UserError("pieces: none came, expected at least one")
    ours = [_of_piece(pitch) for pitch in arrays]
    bars = sum(len(pitch) for pitch in arrays) / STEPS_PER_BAR
    summed = {name: np.sum([h[name] for h in ours], axis=0) for name in ours[0]}
    return Statistics(len(arrays), bars, summed)


def compare(a: Statistics, b: Statistics) -> dict[str, float]:
    """Overlapping area of each pair of histograms, 0 to 1: 1 - sum |p - q| / 2 (one minus the
    total variation) of the two as distributions on their common support; nan if one is empty."""
    return {name: _overlap(a.histograms[name], b.histograms[name]) for name in a.histograms}


def summary(these: Statistics) -> dict[str, float]:
    """The single numbers of a set, by name."""
    return {
        "pieces": these.pieces,
        "bars": these.bars,
        "harmony changes / bar": these.harmony_changes,
        "beats with a major or minor triad, %": 100 * these.consonant,
        "beats with a seventh chord, %": 100 * these.sevenths,
    }


@dataclass(frozen=True)
class Copy:
    """A span found again: ``steps`` from step ``start`` of the piece are those from step
    ``source_start`` of piece number ``source`` of the corpus, ``transposition`` semitones up."""

    steps: int
    start: int = 0
    source: int = -1
    source_start: int = 0
    transposition: int = 0

    @property
    def bars(self) -> float:
        return self.steps / STEPS_PER_BAR


def longest_copied(
    piece: np.ndarray,
    corpus: Sequence[np.ndarray],
    *,
    transposed: bool = True,
    voices: Sequence[int] = (0, 1, 2, 3),
) -> Copy:
    """The longest span of ``piece`` that a piece of ``corpus`` has too, in ``voices`` together
    (``(0,)``: the soprano alone), silences alike, in any one transposition (or in none).

    The first of equals in ``piece``, then in ``corpus``. Long chords and silences are spans like
    others. Time is len(piece) x steps of the corpus, a row of all the corpus at once.
    """
    mine, best = check(piece)[:, list(voices)], Copy(0)
    if not len(corpus):
        return best
    theirs, owner = _joined([check(other)[:, list(voices)] for other in corpus])
    shapes, heights = _shapes(np.vstack([mine, theirs]), transposed)
    shape, height = shapes[len(mine) :], heights[len(mine) :]
    shape[owner < 0] = -1  # between two pieces: like nothing
    runs = _Runs(len(theirs))
    for step in range(len(mine)):
        runs.extend(shape == shapes[step], height - heights[step], bool((mine[step] < 0).all()))
        where = int(np.argmax(runs.length))
        if runs.length[where] > best.steps:
            best = _copy(runs, where, step, owner)
    return best


class _Runs:
    """For each step of the corpus, the longest span that ends there and at the current step of the
    piece: its length, its transposition, and how many of its last steps are silent."""

    def __init__(self, size: int) -> None:
        self.length = np.zeros(size, np.int64)
        self.apart = np.zeros(size, np.int64)  # corpus minus piece
        self.silent = np.zeros(size, np.int64)

    def extend(self, alike: np.ndarray, apart: np.ndarray, silent: bool) -> None:
        """One step of the piece further. A silence fits any transposition: a new one can begin
        with the silences before it."""
        length, before, tail = (_later(x) for x in (self.length, self.apart, self.silent))
        if silent:
            self.length, self.apart, self.silent = length + 1, before, tail + 1
        else:
            self.length = np.where(apart == before, length, tail) + 1
            self.apart = apart
            self.silent = np.zeros_like(tail)
        self.length = np.where(alike, self.length, 0)
        self.silent = np.where(alike, self.silent, 0)


def _later(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], values[:-1]])


def _copy(runs: _Runs, where: int, step: int, owner: np.ndarray) -> Copy:
    length, source = int(runs.length[where]), int(owner[where])
    first = int(np.searchsorted(np.maximum.accumulate(owner), source))
    return Copy(
        steps=length,
        start=step + 1 - length,
        source=source,
        source_start=where + 1 - length - first,
        transposition=-int(runs.apart[where]) if length > runs.silent[where] else 0,
    )


def _joined(corpus: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All pieces in a row, a step of silence after each, and the piece's number at each step, -1
    between pieces."""
    rest = np.full((1, corpus[0].shape[1]), -1)
    steps = [part for piece in corpus for part in (piece, rest)]
    owner = [np.append(np.full(len(piece), n), -1) for n, piece in enumerate(corpus)]
    return np.vstack(steps), np.concatenate(owner)


def _shapes(pitch: np.ndarray, transposed: bool) -> tuple[np.ndarray, np.ndarray]:
    """(number of each step's chord, equal for equal chords; its height). Transposed ones are equal
    when ``transposed``: the chord is then what lies above its first sounding voice, the height."""
    first = np.argmax(pitch >= 0, 1)
    height = np.maximum(pitch[np.arange(len(pitch)), first], 0) * transposed
    chords = np.where(pitch >= 0, pitch - height[:, None], -1000)
    return np.unique(chords, axis=0, return_inverse=True)[1].reshape(-1), height


def _of_piece(pitch: np.ndarray) -> dict[str, np.ndarray]:
    found = keys.estimate(pitch)
    relative = (pitch[pitch >= 0] - (found.tonic if found else 0)) % 12
    histograms = {"pitch classes": np.bincount(relative, minlength=12).astype(float)}
    lengths = []
    for voice, name in enumerate(VOICES):
        line, steps = _notes(pitch[:, voice])
        lengths.append(steps[line >= 0])
        beside = (line[1:] >= 0) & (line[:-1] >= 0)
        histograms[f"melodic intervals, {name}"] = _count(np.diff(line)[beside], _MELODIC)
    for upper, lower in combinations(range(len(VOICES)), 2):
        pair = pitch[:, [upper, lower]]
        begins = np.append(True, (pair[1:] != pair[:-1]).any(1)) & (pair >= 0).all(1)
        name = f"harmonic intervals, {VOICES[upper]} and {VOICES[lower]}"
        histograms[name] = _count(pair[begins, 0] - pair[begins, 1], _HARMONIC)
    histograms["note lengths"] = _count(np.concatenate(lengths), _LENGTHS)
    classes = [frozenset((chord[chord >= 0] % 12).tolist()) for chord in pitch]
    changes = np.array([False, *(a != b for a, b in pairwise(classes))])
    whole = changes[: len(changes) // STEPS_PER_BAR * STEPS_PER_BAR].reshape(-1, STEPS_PER_BAR)
    histograms["harmony changes in a bar"] = _count(whole.sum(1), _HARMONIES)
    kinds = [CHORD_KINDS.index(_kind(chord)) for chord in classes[::STEPS_PER_BEAT]]
    histograms["chords on beats"] = _count(np.array(kinds), (0, len(CHORD_KINDS) - 1))
    return histograms


def _notes(line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pitch or -1, length in steps) of each stretch of one pitch."""
    starts = np.append(0, np.flatnonzero(np.diff(line)) + 1)
    return line[starts], np.diff(np.append(starts, len(line)))


def _kind(classes: frozenset[int]) -> str:
    if len(classes) < 3:
        return "one or two notes" if classes else "silence"
    above = {frozenset((c - root) % 12 for c in classes) for root in classes}
    return next((name for name, chord in CHORDS.items() if chord in above), "other")


def _count(values: np.ndarray, support: tuple[int, int]) -> np.ndarray:
    low, high = support
    return np.bincount(np.clip(values, low, high) - low, minlength=high - low + 1).astype(float)


def _overlap(p: np.ndarray, q: np.ndarray) -> float:
    if not p.sum() or not q.sum():
        return float("nan")
    return 1 - float(np.abs(p / p.sum() - q / q.sum()).sum()) / 2


def figure(value: float | None) -> str:
    """A number as tables show it: three figures, "-" for none."""
    if value is None or np.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
