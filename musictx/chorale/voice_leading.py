"""The checks that a student of harmony makes on a chorale in four parts.

A piece is a :class:`.Grid`, or its pitches (T, 4). Bars are counted from the first step and have 16
steps, unless ``bar`` says otherwise.

The rules are those of textbooks of four-part writing (Aldwell & Schachter, Kostka & Payne); where
textbooks differ, the limits are such that Bach seldom breaks them. He sometimes breaks each of
them, so compare every count with that of real chorales. Parallels across the end of a phrase are
counted, too, since the data have no fermatas.
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
from musictx.chorale.grid import RANGES, VOICES, Grid

#: Sixteenths in a bar of 4/4, for pieces without a meter.
STEPS_PER_BAR = 16
#: For each voice, the leaps (semitones) that are faults, besides all leaps beyond an octave. Bach's
#: basses leap by tritones and minor sevenths, so these are allowed there.
LEAPS = (frozenset({6, 10, 11}),) * 3 + (frozenset({11}),)
#: Widest distance (semitones) between soprano and alto, and between alto and tenor.
SPACING = 12
#: A voice is stuck if it stays for more than this many bars while others move.
STUCK_BARS = 2

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

#: Semitones above the tonic of the chords V, V without fifth, and VII, which have the leading note.
_DOMINANTS = ({7, 11, 2}, {7, 11}, {11, 2, 5})
#: How the bass reaches the pitch class of the last note, in semitones upwards.
_CADENCES = {5: "authentic", 7: "plagal", 1: "step", 2: "step", 10: "step", 11: "step"}


class Fault(NamedTuple):
    """A broken rule: its first step, its voices (0 soprano to 3 bass) and its kind (of
    :data:`KINDS`)."""

    step: int
    voices: tuple[int, ...]
    kind: str

    def __str__(self) -> str:
        bar, rest = divmod(self.step, STEPS_PER_BAR)
        return f"bar {bar + 1} beat {1 + rest / 4:g}: {self.label}"

    @property
    def label(self) -> str:
        """The kind and the names of the voices."""
        return f"{self.kind} ({', '.join(VOICES[voice] for voice in self.voices)})"


@dataclass(frozen=True)
class Assessment:
    """The results of all checks on a piece.

    faults        in order of time. A fault that lasts several steps (crossing, spacing, a doubled
                  note) counts once, at its first step
    bars          the length of the piece
    changes       steps at which a voice enters, falls silent or changes its pitch ("chord changes")
    key           estimated from the whole piece; ``None`` without a note
    longest_held  the most bars for which a voice stayed on a pitch or silent while others moved
    final_triad   the last chord is a major or minor triad in root position, perhaps without fifth
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
    """The faults of a piece, in order of time."""
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
    bars), chord changes per bar, the shares of pieces that end well, and the mean and maximum of
    :attr:`Assessment.longest_held`."""
    assessments = list(assessments)
    bars = sum(r.bars for r in assessments)
    held = [r.longest_held for r in assessments]
    return {
        **{f"{k} / 100 bars": 100 * sum(r.counts[k] for r in assessments) / bars for k in KINDS},
        "all faults / 100 bars": 100 * sum(sum(r.counts.values()) for r in assessments) / bars,
        "chord changes / bar": sum(r.changes for r in assessments) / bars,
        "ends on a triad in root position, %": _percent(r.final_triad for r in assessments),
        "bass ends a fourth up or a fifth down, %": _percent(
            r.cadence == "authentic" for r in assessments
        ),
        "bass ends so, by step or plagally, %": _percent(r.cadence != "none" for r in assessments),
        "longest stand of a voice, mean, bars": float(np.mean(held)),
        "longest stand of a voice, worst, bars": max(held),
    }


@dataclass(frozen=True)
class ChordPairs:
    """N pairs of successive chords in four voices, in any order; most rules need only such a pair.

    previous  (N, 4) pitches of the first chord; -1 for silence, and before the first step
    current   (N, 4) pitches of the second chord; a voice that is not written yet counts as silent
              and breaks no rule
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


def _changes(pitch: np.ndarray) -> np.ndarray:
    """(T, 4) bool: whether a voice differs from the step before; False at the first step."""
    return np.vstack([np.zeros((1, len(VOICES)), bool), pitch[1:] != pitch[:-1]])


#: (N,) bool, the pairs at which a kind of fault begins; its voices, the lowest last; the kind.
FaultMask = tuple[np.ndarray, tuple[int, ...], str]


def fault_masks(pairs: ChordPairs, lowest: int | None = None) -> Iterator[FaultMask]:
    """Check all rules for two successive chords, except doubled leading notes. With ``lowest``,
    check only combinations of voices whose lowest (0 soprano to 3 bass) is this one."""
    for voice in range(4):
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

    # Similar motion from a perfect fifth to another fifth, or from an octave or unison to another
    # octave or unison, compound intervals included. Intervals are measured from the lower pitch.
    similar = motion[:, upper] * motion[:, lower] > 0  # so both voices sound in both chords
    interval, interval_before = np.abs(high - low) % 12, np.abs(high_before - low_before) % 12
    yield similar & (interval == 7) & (interval_before == 7), voices, "parallel fifths"
    yield similar & (interval == 0) & (interval_before == 0), voices, "parallel octaves"

    if voices == (0, 3):
        # The outer voices reach a fifth or an octave by similar motion, the soprano by a leap.
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
    """(N,) whether a doubled leading note begins in the second chord; (N, 4) which voices have it.

    A leading note is doubled if several voices have it in a dominant chord: V or VII of the key of
    ``tonic``, or a dominant seventh without its fifth in any key. Dominant triads of other keys are
    not recognised. ``tonic`` (one for all, or (N,)) is 0 to 11, or -1 for no key.
    """
    current, previous = pairs.current, pairs.previous
    note, note_before = _leading_note(current, tonic), _leading_note(previous, tonic)
    has_note = (current >= 0) & (current % 12 == note[:, None])
    had_note = (previous >= 0) & (previous % 12 == note_before[:, None])
    is_same = (note == note_before) & (has_note == had_note).all(1)
    return (has_note.sum(1) > 1) & ~is_same, has_note


def _leading_note(chords: np.ndarray, tonic: int | np.ndarray) -> np.ndarray:
    """(N,) pitch class of the leading note of each chord (N, 4); -1 if it is no dominant."""
    classes, leading = _classes(chords), np.full(len(chords), -1)
    for root in range(12):
        leading[classes == _bits(root, root + 4, root + 10)] = (root + 4) % 12
    tonics = np.broadcast_to(tonic, leading.shape)
    for chord in _DOMINANTS:
        in_key = np.array([_bits(*(key + n for n in chord)) for key in range(12)])
        leading = np.where((tonics >= 0) & (classes == in_key[tonics]), (tonics + 11) % 12, leading)
    return leading


def _bits(*classes: int) -> int:
    """Encode a set of pitch classes as an integer with a bit for each."""
    return sum(1 << c % 12 for c in classes)


def _classes(chords: np.ndarray) -> np.ndarray:
    """(N,) the set of pitch classes of each chord (N, 4), as in :func:`_bits`."""
    return np.bitwise_or.reduce(np.where(chords >= 0, 1 << chords % 12, 0), axis=1)


def _standstills(changed: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """(voice, first step, number of steps) of each span in which a voice stays while others move:
    from a change of this voice to the last change of another voice before its own next change."""
    for voice in range(4):
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
    """Whether a piece (T, 4) ends with a cadence on a triad in root position."""
    final_triad, cadence = ending(pitches)
    return final_triad and cadence != "none"


def make_cadence(chords: np.ndarray, previous_class: np.ndarray) -> np.ndarray:
    """(N,) whether the last ``chords`` (N, 4) make a cadence (:func:`ends_with_cadence`).
    ``previous_class`` (N,) is the last pitch class of the bass before that of the chord; -1: none.
    """
    interval = (chords[:, 3] - previous_class) % 12
    return _triads(chords) & (previous_class >= 0) & np.isin(interval, list(_CADENCES))


def _triads(chords: np.ndarray) -> np.ndarray:
    """(N,) whether chords (N, 4) are major or minor triads in root position, the fifth optional."""
    bass = chords[:, 3:]
    above = _classes(np.where(chords >= 0, (chords - bass) % 12, -1)) & ~_bits(7)
    return (bass[:, 0] >= 0) & ((above == _bits(0, 3)) | (above == _bits(0, 4)))


def last_two_bass_classes(bass: np.ndarray) -> tuple[int, int]:
    """The last two distinct pitch classes of a bass (T,), the last one first; -1 if missing."""
    classes = bass[bass >= 0] % 12
    others = classes[classes != classes[-1]] if len(classes) else classes
    return int(classes[-1]) if len(classes) else -1, int(others[-1]) if len(others) else -1


def _percent(flags: Iterable[bool]) -> float:
    return 100 * float(np.mean(list(flags)))
