"""Check the voice leading of chorales in four parts, as a student of harmony does.

A piece is a :class:`.Grid`, or its pitches (T, 4). Bars are counted from the first step; ``bar`` is
their length in steps.

The rules are those of textbooks of four-part writing (Aldwell & Schachter, Kostka & Payne). Where
these differ, the limits are such that Bach seldom breaks them. He sometimes breaks each of them, so
compare every count with that of real chorales. Parallels from one phrase to the next are counted,
too, since the published data have no fermatas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from musictx import keys
from musictx.chorale.grid import PER_QUARTER, RANGES, VOICES, Grid

#: Sixteenths in a bar of 4/4, for pieces without a meter.
STEPS_PER_BAR = 16
#: For each voice, the leaps (semitones) that are faults, besides all leaps beyond an octave. Bach's
#: basses leap by tritones and minor sevenths, so the bass may.
LEAPS = (frozenset({6, 10, 11}),) * 3 + (frozenset({11}),)
#: Widest distance (semitones) between soprano and alto, and between alto and tenor.
SPACING = 12
#: A voice is stuck if it stays for more than this many bars while others move.
STUCK_BARS = 2

#: The kinds of faults.
KINDS = (
    "outside its range",
    "crossing",
    "overlap",
    "parallel fifths",
    "parallel octaves",
    "hidden fifths",
    "hidden octaves",
    "leap",
    "doubled leading note",
    "spacing",
    "stuck voice",
)

#: The chords that contain the leading note, in semitones above the tonic: V, V without its fifth,
#: and VII.
_DOMINANTS = ({7, 11, 2}, {7, 11}, {11, 2, 5})
#: {interval by which the bass reaches its last pitch class, in semitones upwards: the cadence}.
_CADENCES = {5: "authentic", 7: "plagal", 1: "step", 2: "step", 10: "step", 11: "step"}


class Fault(NamedTuple):
    """A broken rule: its first step, its voices (0 soprano to 3 bass) and its kind (of
    :data:`KINDS`)."""

    step: int
    voices: tuple[int, ...]
    kind: str

    def __str__(self) -> str:
        bar, offset = divmod(self.step, STEPS_PER_BAR)
        return f"bar {bar + 1} beat {1 + offset / PER_QUARTER:g}: {self.label}"

    @property
    def label(self) -> str:
        """The kind and the names of the voices."""
        return f"{self.kind} ({', '.join(VOICES[voice] for voice in self.voices)})"


@dataclass(frozen=True)
class Assessment:
    """The results of all checks on a piece.

    faults        sorted by step. A fault that lasts several steps (crossing, spacing, a doubled
                  note) counts once, at its first step
    bars          the length of the piece
    changes       the number of steps at which a voice enters, falls silent or changes its pitch
    key           estimated from the whole piece; ``None`` without a note
    longest_held  the longest time, in bars, in which a voice stays on a pitch or silent while
                  others move
    final_triad   whether the last chord is a major or minor triad in root position, with or without
                  its fifth
    cadence       how the bass reaches the last pitch class: ``authentic`` (a fourth up or a fifth
                  down), ``plagal`` (the reverse), ``step`` or ``none``
    """

    faults: list[Fault]
    bars: float
    changes: int
    key: keys.Key | None
    longest_held: float
    final_triad: bool
    cadence: str

    @property
    def counts(self) -> Mapping[str, int]:
        """Faults of each of :data:`KINDS`."""
        counts = Counter(fault.kind for fault in self.faults)
        return {kind: counts[kind] for kind in KINDS}


def assess(grid: Grid, *, bar: int = STEPS_PER_BAR) -> Assessment:
    """Apply all checks to a piece with bars of ``bar`` sixteenths."""
    pitches = grid.pitches
    changed = _changes(pitches)
    final_triad, cadence = ending(pitches)
    return Assessment(
        faults=faults(grid, bar=bar),
        bars=len(changed) / bar,
        changes=int(changed.any(1).sum()),
        key=keys.estimate(pitches),
        longest_held=max((steps / bar for _, _, steps in _standstills(changed)), default=0.0),
        final_triad=final_triad,
        cadence=cadence,
    )


def faults(grid: Grid, *, bar: int = STEPS_PER_BAR) -> list[Fault]:
    """The faults of a piece, sorted by step."""
    previous = np.vstack([np.full((1, len(VOICES)), -1), grid.pitches[:-1]])
    pairs = ChordPairs(previous, grid.pitches, grid.onsets)
    result = [
        Fault(step, voices, kind)
        for mask, voices, kind in fault_masks(pairs)
        for step in np.flatnonzero(mask).tolist()
    ]
    doubled, has_leading_note = leading_notes(pairs, tonic(grid.pitches))
    for step in np.flatnonzero(doubled).tolist():
        voices = tuple(np.flatnonzero(has_leading_note[step]).tolist())
        result.append(Fault(step, voices, "doubled leading note"))
    for voice, start, length in _standstills(_changes(grid.pitches)):
        if length > STUCK_BARS * bar:
            result.append(Fault(start, (voice,), "stuck voice"))
    return sorted(result)


def tonic(pitches: np.ndarray) -> int:
    """The tonic of a piece (T, 4) as a pitch class; -1 without a note."""
    key = keys.estimate(pitches)
    return -1 if key is None else key.tonic


def rates(assessments: Iterable[Assessment]) -> dict[str, float]:
    """Averages over a set of pieces, by name: faults per 100 bars (100 x sum of counts / sum of
    bars), chord changes per bar, the percentages of pieces that end with a triad and with a
    cadence, and the mean and maximum of :attr:`Assessment.longest_held`."""
    assessments = list(assessments)
    bars = sum(r.bars for r in assessments)
    held = [r.longest_held for r in assessments]
    cadences = np.array([r.cadence for r in assessments])
    final_triads = [r.final_triad for r in assessments]
    return {
        **{f"{k} / 100 bars": 100 * sum(r.counts[k] for r in assessments) / bars for k in KINDS},
        "all faults / 100 bars": 100 * sum(sum(r.counts.values()) for r in assessments) / bars,
        "chord changes / bar": sum(r.changes for r in assessments) / bars,
        "ends on a triad in root position, %": 100 * float(np.mean(final_triads)),
        "bass ends a fourth up or a fifth down, %": 100 * float(np.mean(cadences == "authentic")),
        "bass ends so, by step or plagally, %": 100 * float(np.mean(cadences != "none")),
        "longest stand of a voice, mean, bars": float(np.mean(held)),
        "longest stand of a voice, worst, bars": max(held),
    }


@dataclass(frozen=True)
class ChordPairs:
    """N pairs of successive chords in four voices, which may come from different pieces. Most rules
    need only such a pair.

    previous  (N, 4) pitches of the first chord; -1 for silence, and before the first step
    current   (N, 4) pitches of the second chord; -1 for silence, and for a voice that is not
              written yet
    onsets    (N, 4) bool: a note begins in the second chord
    """

    previous: np.ndarray
    current: np.ndarray
    onsets: np.ndarray

    @cached_property
    def motion(self) -> np.ndarray:
        """(N, 4): the melodic interval of each voice in semitones; 0 where either chord has a
        rest."""
        both = (self.current >= 0) & (self.previous >= 0)
        return np.where(both, self.current - self.previous, 0)


def _changes(pitches: np.ndarray) -> np.ndarray:
    """(T, 4) bool: whether a voice differs from the step before; False at the first step."""
    return np.vstack([np.zeros((1, len(VOICES)), bool), pitches[1:] != pitches[:-1]])


#: (N,) bool: the pairs in whose second chord a fault begins; the voices, the lowest last; the kind.
FaultMask = tuple[np.ndarray, tuple[int, ...], str]


def fault_masks(pairs: ChordPairs, lowest: int | None = None) -> Iterator[FaultMask]:
    """Check all rules for two successive chords, except that on doubled leading notes. With
    ``lowest``, yield only the faults whose lowest voice (0 soprano to 3 bass) is this one."""
    for voice in range(len(VOICES)):
        if lowest in (None, voice):
            yield from _voice_faults(pairs, voice)
            for upper in range(voice):
                yield from _pair_faults(pairs, upper, voice)


def _voice_faults(pairs: ChordPairs, voice: int) -> Iterator[FaultMask]:
    """The faults of a single voice."""
    low, high = RANGES[voice]
    outside = (pairs.current[:, voice] < low) | (pairs.current[:, voice] > high)
    yield pairs.onsets[:, voice] & outside, (voice,), "outside its range"
    leap = np.abs(pairs.motion[:, voice])
    yield (leap > 12) | np.isin(leap, list(LEAPS[voice])), (voice,), "leap"


def _pair_faults(pairs: ChordPairs, upper: int, lower: int) -> Iterator[FaultMask]:
    """The faults between two voices."""
    voices, motion = (upper, lower), pairs.motion
    high, low = pairs.current[:, upper], pairs.current[:, lower]
    high_before, low_before = pairs.previous[:, upper], pairs.previous[:, lower]
    both = (high >= 0) & (low >= 0)
    both_before = (high_before >= 0) & (low_before >= 0)

    # Parallels: similar motion from a perfect fifth to another one, or from an octave or unison to
    # another one, compound intervals included. Intervals are measured from the lower pitch.
    similar = motion[:, upper] * motion[:, lower] > 0  # so both voices sound in both chords
    interval, interval_before = np.abs(high - low) % 12, np.abs(high_before - low_before) % 12
    yield similar & (interval == 7) & (interval_before == 7), voices, "parallel fifths"
    yield similar & (interval == 0) & (interval_before == 0), voices, "parallel octaves"

    if voices == (0, 3):
        # Hidden: the outer voices reach the interval by similar motion, the soprano by a leap.
        leaping = similar & (np.abs(motion[:, 0]) > 2)
        yield leaping & (interval == 7) & (interval_before != 7), voices, "hidden fifths"
        yield leaping & (interval == 0) & (interval_before != 0), voices, "hidden octaves"

    if lower == upper + 1:
        # Crossing: the lower voice is above the upper voice. Overlap: a voice moves beyond the
        # pitch that its neighbour had in the previous chord.
        crossed, crossed_before = both & (high < low), both_before & (high_before < low_before)
        yield crossed & ~crossed_before, voices, "crossing"
        beyond = (high < low_before) | (low > high_before)
        yield both & both_before & ~crossed & ~crossed_before & beyond, voices, "overlap"
        if lower < 3:
            wide, wide_before = high - low > SPACING, high_before - low_before > SPACING
            yield both & wide & ~(both_before & wide_before), voices, "spacing"


def leading_notes(pairs: ChordPairs, tonic: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) bool: whether a doubled leading note begins in the second chord; (N, 4) bool: the voices
    that have the leading note.

    A leading note is doubled if several voices have it in a dominant chord: V or VII of the key of
    ``tonic``, or a dominant seventh without its fifth in any key. Dominant triads of other keys are
    not recognised. ``tonic`` is 0 to 11, or -1 for no key: one for all pairs, or (N,).
    """
    current, previous = pairs.current, pairs.previous
    note, note_before = _leading_note(current, tonic), _leading_note(previous, tonic)
    has_note = (current >= 0) & (current % 12 == note[:, None])
    had_note = (previous >= 0) & (previous % 12 == note_before[:, None])
    is_same = (note == note_before) & (has_note == had_note).all(1)
    return (has_note.sum(1) > 1) & ~is_same, has_note


def _leading_note(chords: np.ndarray, tonic: int | np.ndarray) -> np.ndarray:
    """(N,) the pitch class of the leading note of each chord (N, 4); -1 if it is no dominant."""
    classes, leading = _class_sets(chords), np.full(len(chords), -1)
    for root in range(12):
        leading[classes == _class_set(root, root + 4, root + 10)] = (root + 4) % 12
    tonics = np.broadcast_to(tonic, leading.shape)
    for chord in _DOMINANTS:
        in_key = np.array([_class_set(*(key + n for n in chord)) for key in range(12)])
        leading = np.where((tonics >= 0) & (classes == in_key[tonics]), (tonics + 11) % 12, leading)
    return leading


def _class_set(*classes: int) -> int:
    """Encode a set of pitch classes as an integer with a bit for each."""
    return sum(1 << c % 12 for c in classes)


def _class_sets(chords: np.ndarray) -> np.ndarray:
    """(N,) int64: the set of pitch classes of each chord (N, 4), as in :func:`_class_set`."""
    return np.bitwise_or.reduce(np.where(chords >= 0, 1 << chords % 12, 0), axis=1)


def _standstills(changed: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield (voice, first step, number of steps) of each span in which a voice stays while others
    move: from a change of the voice to the last change of another one before its own next change.
    """
    for voice in range(len(VOICES)):
        others = np.flatnonzero(np.delete(changed, voice, 1).any(1))
        bounds = [0, *np.flatnonzero(changed[:, voice]).tolist(), len(changed)]
        for start, end in pairwise(bounds):
            inside = others[(others > start) & (others < end)]
            if len(inside):
                yield voice, start, int(inside[-1]) - start


def ending(pitches: np.ndarray) -> tuple[bool, str]:
    """:attr:`Assessment.final_triad` and :attr:`Assessment.cadence` of a piece (T, 4)."""
    sounding = pitches[(pitches >= 0).any(1)]
    last, previous = last_two_bass_classes(pitches[:, 3])
    cadence = _CADENCES.get((last - previous) % 12, "none") if previous >= 0 else "none"
    return bool(len(sounding) and _triads(sounding[-1:])[0]), cadence


def ends_with_cadence(pitches: np.ndarray) -> bool:
    """Whether a piece (T, 4) ends with any cadence, on a triad in root position."""
    final_triad, cadence = ending(pitches)
    return final_triad and cadence != "none"


def is_cadence(chords: np.ndarray, previous_class: np.ndarray) -> np.ndarray:
    """(N,) bool: whether a piece whose last chord is one of ``chords`` (N, 4) ends with a cadence
    (:func:`ends_with_cadence`). ``previous_class`` (N,): the last other pitch class of the bass
    before the chord; -1 without one."""
    interval = (chords[:, 3] - previous_class) % 12
    return _triads(chords) & (previous_class >= 0) & np.isin(interval, list(_CADENCES))


def _triads(chords: np.ndarray) -> np.ndarray:
    """(N,) bool: whether chords (N, 4) are major or minor triads in root position; the fifth may be
    missing."""
    bass = chords[:, 3:]
    above = _class_sets(np.where(chords >= 0, (chords - bass) % 12, -1)) & ~_class_set(7)
    return (bass[:, 0] >= 0) & ((above == _class_set(0, 3)) | (above == _class_set(0, 4)))


def last_two_bass_classes(bass: np.ndarray) -> tuple[int, int]:
    """The last pitch class of a bass (T,), and the last one that differs from it; -1 if missing."""
    classes = bass[bass >= 0] % 12
    last = int(classes[-1]) if len(classes) else -1
    others = classes[classes != last]
    return last, int(others[-1]) if len(others) else -1
