"""Sets of chorales as distributions, to be laid side by side; the longest span that was copied.

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
from musictx.evaluate.copies import CopyIndex
from musictx.evaluate.distance import distance

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
    """Overlapping area of each pair of histograms, 0 to 1, as distributions on their common
    support; nan if one is empty."""
    return {
        name: distance(counts, b.histograms[name]).overlap for name, counts in a.histograms.items()
    }


def summary(these: Statistics) -> dict[str, float]:
    """The single numbers of a set, by name."""
    return {
        "pieces": these.pieces,
        "bars": these.bars,
        "harmony changes / bar": these.harmony_changes,
        "beats with a major or minor triad, %": 100 * these.consonant,
        "beats with a seventh chord, %": 100 * these.sevenths,
    }


class Copies:
    """The steps of a corpus, to find spans of them again (:mod:`musictx.evaluate.copies`)."""

    def __init__(self, corpus: Sequence[np.ndarray]) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._index = CopyIndex([self._successions(piece) for piece in corpus])

    def longest(self, piece: np.ndarray) -> int:
        """Steps of the longest span of ``piece`` that a piece of the corpus has too, in all voices,
        in any one transposition; between silences of all voices another one may begin."""
        return self._index.longest(self._successions(piece)).notes

    def _successions(self, piece: np.ndarray) -> np.ndarray:
        """(T - 1,) int32, a number for each chord after another: both as intervals above their
        first voice that sounds, and by how much that one rises."""
        pitch = check(piece)
        sounds = pitch.max(axis=1) >= 0
        height = pitch[np.arange(len(pitch)), np.argmax(pitch >= 0, 1)]
        chord = np.where(pitch >= 0, pitch - height[:, None], -1000)
        rise = np.where(sounds[1:] & sounds[:-1], np.diff(height), 0)
        rows = np.hstack([chord[:-1], chord[1:], rise[:, None]]).tolist()
        numbers = self._numbers
        return np.array([numbers.setdefault(tuple(r), len(numbers)) for r in rows], np.int32)


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


def figure(value: float | None) -> str:
    """A number as tables show it: three figures, "-" for none."""
    if value is None or np.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
