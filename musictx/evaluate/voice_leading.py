"""The checks that a student of harmony makes on a chorale in four parts.

A piece is an int array (T, 4): the pitch of soprano, alto, tenor and bass in every sixteenth step,
-1 where a voice is silent. ``tied`` (T, 4) tells held notes from repeated ones; without it an equal
pitch on the next step is the same note. A bar is 16 steps, counted from the first step.

The rules are those of the textbooks of four-part writing (Aldwell & Schachter, Kostka & Payne);
where textbooks differ, the bounds are such that Bach seldom breaks them. He does break each of them
now and then, so a count means something only beside the count of real chorales. Parallels across
the end of a phrase count too: fermatas are not in the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from musictx.errors import UserError
from musictx.evaluate import keys

VOICES = ("soprano", "alto", "tenor", "bass")
STEPS_PER_BAR = 16
#: Lowest and highest note of each voice: C4-A5, F3-D5, C3-G4, D2-D4. Textbooks give C4-G5, G3-D5,
#: C3-G4, E2-C4, some a tone more or less; of the notes of the chorales 0.1 % lie outside.
RANGES = ((60, 81), (53, 74), (48, 67), (38, 62))
#: Melodic leaps that count, in semitones: all beyond an octave, and these. The bass may leap by a
#: tritone and by a minor seventh, as it does in Bach.
LEAPS = (frozenset({6, 10, 11}),) * 3 + (frozenset({11}),)
#: Widest distance of soprano and alto, alto and tenor.
SPACING = 12
#: A voice that stands for longer than this many bars while others move is stuck.
STUCK_BARS = 2.0

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

#: Chords with the leading note as their third or root, above the tonic: V, V without fifth, VII.
_DOMINANTS = ({7, 11, 2}, {7, 11}, {11, 2, 5})
#: How the bass reaches the pitch class of the last note, in semitones upwards.
_CADENCES = {5: "authentic", 7: "plagal", 1: "step", 2: "step", 10: "step", 11: "step"}


class Fault(NamedTuple):
    """What (one of :data:`KINDS`) begins at which step between which voices (0 soprano..3 bass)."""

    step: int
    voices: tuple[int, ...]
    kind: str

    def __str__(self) -> str:
        bar, rest = divmod(self.step, STEPS_PER_BAR)
        names = ", ".join(VOICES[voice] for voice in self.voices)
        return f"bar {bar + 1} beat {1 + rest / 4:g}: {self.kind} ({names})"


@dataclass(frozen=True)
class Report:
    """What :func:`report` found.

    counts        faults of each of :data:`KINDS`
    steps, notes, changes   length; notes struck; steps at which a voice changes its pitch or falls
                  silent or enters ("chord changes")
    key           estimated from the whole piece; ``None`` without a note
    longest_held  bars for which a voice stood (or was silent) while others moved, at the longest
    final_triad   the last chord is a major or minor triad, the fifth dispensable, root in the bass
    cadence       how the bass reaches the last pitch class: ``authentic`` (a fourth up or a fifth
                  down), ``plagal`` (the reverse), ``step`` or ``none``
    """

    counts: Mapping[str, int]
    steps: int
    notes: int
    changes: int
    key: keys.Key | None
    longest_held: float
    final_triad: bool
    cadence: str

    @property
    def bars(self) -> float:
        return self.steps / STEPS_PER_BAR

    @property
    def per_bar(self) -> dict[str, float]:
        """Faults in a bar: count / (steps / 16)."""
        return {kind: n / self.bars for kind, n in self.counts.items()}

    @property
    def per_change(self) -> dict[str, float]:
        """Faults in a chord change: count / changes."""
        return {kind: n / max(self.changes, 1) for kind, n in self.counts.items()}


def report(pitches: np.ndarray, tied: np.ndarray | None = None) -> Report:
    """All checks on one piece. ``UserError`` for arrays that are no chorale."""
    voices = _Voices.read(pitches, tied)
    counts = Counter(fault.kind for fault in _all(voices))
    stands = [held / STEPS_PER_BAR for _, _, held in _held(voices)]
    return Report(
        counts={kind: counts[kind] for kind in KINDS},
        steps=len(voices.pitch),
        notes=int(voices.struck.sum()),
        changes=int(voices.changed.any(1).sum()),
        key=keys.estimate(voices.pitch),
        longest_held=max(stands, default=0.0),
        final_triad=_final_triad(voices.pitch),
        cadence=_cadence(voices.pitch[:, 3]),
    )


def faults(pitches: np.ndarray, tied: np.ndarray | None = None) -> list[Fault]:
    """Every fault, in order of time; ``str(fault)`` says it in words. Counts as in :func:`report`.

    What lasts (crossing, spacing, a doubled note) counts once, where it begins.
    """
    return sorted(_all(_Voices.read(pitches, tied)))


def rates(reports: Iterable[Report]) -> dict[str, float]:
    """A set of pieces as numbers with their names, all pieces taken together.

    Faults in 100 bars: 100 x sum of counts / sum of bars; then chord changes in a bar, the shares
    of pieces that end well, and the longest stand of a voice: mean of the pieces, and the worst.
    """
    reports = list(reports)
    if not reports:
        raise UserError("reports: none came, expected at least one piece")
    bars = sum(r.bars for r in reports)
    held = [r.longest_held for r in reports]
    return {
        **{f"{k} / 100 bars": 100 * sum(r.counts[k] for r in reports) / bars for k in KINDS},
        "all faults / 100 bars": 100 * sum(sum(r.counts.values()) for r in reports) / bars,
        "chord changes / bar": sum(r.changes for r in reports) / bars,
        "ends on a triad in root position, %": _percent(r.final_triad for r in reports),
        "bass ends a fourth up or a fifth down, %": _percent(
            r.cadence == "authentic" for r in reports
        ),
        "bass ends so, by step or plagally, %": _percent(r.cadence != "none" for r in reports),
        "longest stand of a voice, mean, bars": float(np.mean(held)),
        "longest stand of a voice, worst, bars": max(held),
    }


@dataclass(frozen=True)
class _Voices:
    """pitch (T, 4); struck: a note begins; changed: another pitch (or silence) than a step ago;
    moved: from one note right to another; way: by how many semitones, 0 where not moved."""

    pitch: np.ndarray
    struck: np.ndarray
    changed: np.ndarray
    moved: np.ndarray
    way: np.ndarray

    @classmethod
    def read(cls, pitches: np.ndarray, tied: np.ndarray | None) -> _Voices:
        pitch = check(pitches)
        changed = np.zeros(pitch.shape, bool)
        changed[1:] = pitch[1:] != pitch[:-1]
        if tied is None:
            tied = ~changed & (np.arange(len(pitch)) > 0)[:, None]
        elif np.shape(tied) != pitch.shape:
            raise UserError(f"tied: shape {np.shape(tied)}, expected that of pitches {pitch.shape}")
        before = np.vstack([pitch[:1], pitch[:-1]])
        moved = changed & (pitch >= 0) & (before >= 0)
        struck = (pitch >= 0) & (~np.asarray(tied, bool) | changed)
        return cls(pitch, struck, changed, moved, np.where(moved, pitch - before, 0))


def check(pitches: np.ndarray) -> np.ndarray:
    """``pitches`` as int64 (T, 4), T >= 1, values -1..127; ``UserError`` if it is not that."""
    array = np.asarray(pitches)
    if array.ndim != 2 or array.shape[1] != len(VOICES) or not len(array):
        raise UserError(f"pitches: shape {array.shape}, expected (steps, 4) with a step at least")
    if array.dtype.kind not in "iu" or array.min() < -1 or array.max() > 127:
        raise UserError("pitches: expected whole numbers 0..127, and -1 for silence")
    return array.astype(np.int64)


def _all(voices: _Voices) -> Iterator[Fault]:
    for one in (_ranges, _crossings, _parallels, _hidden, _leaps, _leading_notes, _spacing, _stuck):
        yield from one(voices)


def _at(mask: np.ndarray, voices: tuple[int, ...], kind: str) -> Iterator[Fault]:
    for step in np.flatnonzero(mask):
        yield Fault(int(step), voices, kind)


def _begins(mask: np.ndarray) -> np.ndarray:
    """True on the first step of every stretch of True."""
    return mask & ~np.concatenate([[False], mask[:-1]])


def _together(pitch: np.ndarray, upper: int, lower: int) -> np.ndarray:
    return (pitch[:, upper] >= 0) & (pitch[:, lower] >= 0)


def _ranges(v: _Voices) -> Iterator[Fault]:
    for voice, (low, high) in enumerate(RANGES):
        outside = (v.pitch[:, voice] < low) | (v.pitch[:, voice] > high)
        yield from _at(v.struck[:, voice] & outside, (voice,), "outside its range")


def _crossings(v: _Voices) -> Iterator[Fault]:
    """Neighbours in the wrong order; and overlap: one goes beyond where the other just was."""
    for upper, lower in ((0, 1), (1, 2), (2, 3)):
        both = _together(v.pitch, upper, lower)
        high, low = v.pitch[:, upper], v.pitch[:, lower]
        crossed = both & (high < low)
        yield from _at(_begins(crossed), (upper, lower), "crossing")
        fine = both & ~crossed
        beyond = (high[1:] < low[:-1]) | (low[1:] > high[:-1])
        overlap = np.concatenate([[False], fine[1:] & fine[:-1] & beyond])
        yield from _at(overlap, (upper, lower), "overlap")


def _similar(v: _Voices, upper: int, lower: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(both move, the same way; interval class now; a step ago), the class 0..11 upwards from the
    lower note, whichever voice has it; -1 where one is silent."""
    classes = np.abs(v.pitch[:, upper] - v.pitch[:, lower]) % 12
    classes[~_together(v.pitch, upper, lower)] = -1
    same_way = np.sign(v.way[:, upper]) * np.sign(v.way[:, lower]) > 0
    return same_way, classes, np.concatenate([[-1], classes[:-1]])


def _parallels(v: _Voices) -> Iterator[Fault]:
    """A perfect fifth (octave or unison, compound too) to another one by motion the same way."""
    for upper, lower in combinations(range(4), 2):
        similar, now, before = _similar(v, upper, lower)
        yield from _at(similar & (now == 7) & (before == 7), (upper, lower), "parallel fifths")
        yield from _at(similar & (now == 0) & (before == 0), (upper, lower), "parallel octaves")


def _hidden(v: _Voices) -> Iterator[Fault]:
    """Outer voices come by motion the same way to a fifth or an octave, the soprano by a leap."""
    similar, now, before = _similar(v, 0, 3)
    leaping = similar & (np.abs(v.way[:, 0]) > 2)
    yield from _at(leaping & (now == 7) & (before != 7), (0, 3), "hidden fifths")
    yield from _at(leaping & (now == 0) & (before != 0), (0, 3), "hidden octaves")


def _leaps(v: _Voices) -> Iterator[Fault]:
    for voice, forbidden in enumerate(LEAPS):
        way = np.abs(v.way[:, voice])
        yield from _at((way > 12) | np.isin(way, list(forbidden)), (voice,), "leap")


def _leading_notes(v: _Voices) -> Iterator[Fault]:
    """The leading note in two voices of a dominant chord: V or VII of the key of the piece, or a
    dominant seventh of any key, the fifth left out. Dominant triads of other keys are not seen."""
    home = keys.estimate(v.pitch)
    before: tuple[int | None, tuple[int, ...]] = (None, ())
    for step, chord in enumerate(v.pitch):
        note = _leading_note({int(p) % 12 for p in chord if p >= 0}, home)
        voices = tuple(i for i, p in enumerate(chord) if p >= 0 and p % 12 == note)
        if len(voices) > 1 and (note, voices) != before:
            yield Fault(step, voices, "doubled leading note")
        before = note, voices


def _leading_note(classes: set[int], home: keys.Key | None) -> int | None:
    if home and any({(home.tonic + n) % 12 for n in chord} == classes for chord in _DOMINANTS):
        return (home.tonic + 11) % 12
    sevenths = (root for root in classes if classes == {root, (root + 4) % 12, (root + 10) % 12})
    return next(((root + 4) % 12 for root in sevenths), None)


def _spacing(v: _Voices) -> Iterator[Fault]:
    for upper, lower in ((0, 1), (1, 2)):
        wide = v.pitch[:, upper] - v.pitch[:, lower] > SPACING
        yield from _at(_begins(wide & _together(v.pitch, upper, lower)), (upper, lower), "spacing")


def _held(v: _Voices) -> Iterator[tuple[int, int, int]]:
    """(voice, first step, steps) of every stand: from a change of the voice to the last change of
    another one before the voice changes again."""
    for voice in range(4):
        others = np.flatnonzero(np.delete(v.changed, voice, 1).any(1))
        bounds = [0, *np.flatnonzero(v.changed[:, voice]).tolist(), len(v.pitch)]
        for start, end in pairwise(bounds):
            inside = others[(others > start) & (others < end)]
            if len(inside):
                yield voice, start, int(inside[-1]) - start


def _stuck(v: _Voices) -> Iterator[Fault]:
    for voice, start, held in _held(v):
        if held > STUCK_BARS * STEPS_PER_BAR:
            yield Fault(start, (voice,), "stuck voice")


def _final_triad(pitch: np.ndarray) -> bool:
    sounding = pitch[(pitch >= 0).any(1)]
    if not len(sounding) or sounding[-1, 3] < 0:
        return False
    above = {int(p - sounding[-1, 3]) % 12 for p in sounding[-1] if p >= 0}
    return above - {7} in ({0, 3}, {0, 4})


def _cadence(bass: np.ndarray) -> str:
    classes = bass[bass >= 0] % 12
    others = classes[classes != classes[-1]] if len(classes) else classes
    return _CADENCES.get(int(classes[-1] - others[-1]) % 12, "none") if len(others) else "none"


def _percent(flags: Iterable[bool]) -> float:
    return 100 * float(np.mean(list(flags)))
