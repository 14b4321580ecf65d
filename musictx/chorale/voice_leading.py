"""The checks that a student of harmony makes on a chorale in four parts.

A piece is an int array (T, 4): the pitch of soprano, alto, tenor and bass in every sixteenth step,
-1 where a voice is silent. ``tied`` (T, 4) tells held notes from repeated ones; without it an equal
pitch on the next step is the same note. A bar is 16 steps, counted from the first step.

The rules are those of the textbooks of four-part writing (Aldwell & Schachter, Kostka & Payne);
where textbooks differ, the bounds are such that Bach seldom breaks them. He does break each of them
now and then, so a count means something only in comparison with real chorales. Parallels across
the end of a phrase count too: fermatas are not in the data.
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
from musictx.chorale.grid import RANGES, VOICES
from musictx.errors import UserError

#: Sixteenths in a bar of 4/4, for pieces without a meter.
STEPS_PER_BAR = 16
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
        return f"bar {bar + 1} beat {1 + rest / 4:g}: {self.what}"

    @property
    def what(self) -> str:
        """The kind and the voices."""
        return f"{self.kind} ({', '.join(VOICES[voice] for voice in self.voices)})"


@dataclass(frozen=True)
class Assessment:
    """What the checks say of a piece.

    faults        in order of time. What lasts (crossing, spacing, a doubled note) counts once,
                  where it begins
    bars, changes  its length; steps at which a voice changes its pitch or falls silent or enters
                  ("chord changes")
    key           estimated from the whole piece; ``None`` without a note
    longest_held  bars for which a voice stood (or was silent) while others moved, at the longest
    final_triad   the last chord is a major or minor triad, the fifth dispensable, root in the bass
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


def assess(
    pitches: np.ndarray, tied: np.ndarray | None = None, *, bar: int = STEPS_PER_BAR
) -> Assessment:
    """All checks on one piece, in bars of ``bar`` sixteenths. ``UserError`` for arrays that are no
    chorale."""
    steps = _steps(pitches, tied)
    changed, (goal, came) = _changed(steps.now), came_from(steps.now[:, 3])
    sounding = steps.now[(steps.now >= 0).any(1)]
    return Assessment(
        faults=sorted(_all(steps, bar)),
        bars=len(changed) / bar,
        changes=int(changed.any(1).sum()),
        key=keys.estimate(steps.now),
        longest_held=max((held / bar for _, _, held in _held(changed)), default=0.0),
        final_triad=bool(len(sounding) and _triads(sounding[-1:])[0]),
        cadence=_CADENCES.get((goal - came) % 12, "none") if came >= 0 else "none",
    )


def faults(
    pitches: np.ndarray, tied: np.ndarray | None = None, *, bar: int = STEPS_PER_BAR
) -> list[Fault]:
    """The faults of an :class:`Assessment`, without the rest of it."""
    return sorted(_all(_steps(pitches, tied), bar))


def rates(assessments: Iterable[Assessment]) -> dict[str, float]:
    """A set of pieces as numbers with their names, all pieces taken together.

    Faults in 100 bars: 100 x sum of counts / sum of bars; then chord changes in a bar, the shares
    of pieces that end well, and the longest stand of a voice: mean of the pieces, and the worst.
    """
    assessments = list(assessments)
    if not assessments:
        raise UserError("assessments: none came, expected at least one piece")
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
class Steps:
    """Steps of four voices, each with the one before it, in any order: what most rules look at.

    before, now (N, 4): pitches, -1 = silence, and before the first step; struck (N, 4): a note
    begins. Voices that are not written yet are silent: they make no fault.
    """

    before: np.ndarray
    now: np.ndarray
    struck: np.ndarray

    @cached_property
    def way(self) -> np.ndarray:
        """(N, 4): by how many semitones a voice moves from a note right to another, else 0."""
        both = (self.now >= 0) & (self.before >= 0)
        return np.where(both, self.now - self.before, 0)


def _steps(pitches: np.ndarray, tied: np.ndarray | None) -> Steps:
    """The steps of a piece."""
    pitch = check(pitches)
    changed = _changed(pitch)
    changed[0] = True
    held = ~changed if tied is None else np.asarray(tied, bool)
    if held.shape != pitch.shape:
        raise UserError(f"tied: shape {held.shape}, expected that of pitches {pitch.shape}")
    before = np.vstack([np.full((1, len(VOICES)), -1), pitch[:-1]])
    return Steps(before, pitch, (pitch >= 0) & (~held | (pitch != before)))


def _changed(pitch: np.ndarray) -> np.ndarray:
    """(T, 4) bool: another pitch, or silence, than a step ago; nothing at the first step."""
    return np.vstack([np.zeros((1, len(VOICES)), bool), pitch[1:] != pitch[:-1]])


def check(pitches: np.ndarray) -> np.ndarray:
    """``pitches`` as int64 (T, 4), T >= 1, values -1..127; ``UserError`` if it is not that."""
    array = np.asarray(pitches)
    if array.ndim != 2 or array.shape[1] != len(VOICES) or not len(array):
        raise UserError(f"pitches: shape {array.shape}, expected (steps, 4) with a step at least")
    if array.dtype.kind not in "iu" or array.min() < -1 or array.max() > 127:
        raise UserError("pitches: expected whole numbers 0..127, and -1 for silence")
    return array.astype(np.int64)


def _all(steps: Steps, bar: int) -> Iterator[Fault]:
    for mask, where, kind in marks(steps):
        for step in np.flatnonzero(mask).tolist():
            yield Fault(step, where, kind)
    home = keys.estimate(steps.now)
    doubled, which = leading_notes(steps, -1 if home is None else home.tonic)
    for step in np.flatnonzero(doubled).tolist():
        yield Fault(step, tuple(np.flatnonzero(which[step]).tolist()), "doubled leading note")
    for voice, start, held in _held(_changed(steps.now)):
        if held > STUCK_BARS * bar:
            yield Fault(start, (voice,), "stuck voice")


#: At which of the steps, (N,) bool; between which voices, the lowest last; the kind.
Mark = tuple[np.ndarray, tuple[int, ...], str]


def marks(steps: Steps, last: int | None = None) -> Iterator[Mark]:
    """Where the faults of every kind are that shows in two steps, the doubled leading note apart;
    with ``last`` only those whose lowest voice (0 soprano..3 bass) that is."""
    for voice in range(4):
        if last in (None, voice):
            yield from _alone(steps, voice)
            for upper in range(voice):
                yield from _pair(steps, upper, voice)


def _alone(s: Steps, voice: int) -> Iterator[Mark]:
    low, high = RANGES[voice]
    outside = (s.now[:, voice] < low) | (s.now[:, voice] > high)
    yield s.struck[:, voice] & outside, (voice,), "outside its range"
    way = np.abs(s.way[:, voice])
    yield (way > 12) | np.isin(way, list(LEAPS[voice])), (voice,), "leap"


def _pair(s: Steps, upper: int, lower: int) -> Iterator[Mark]:
    where = upper, lower
    high, low = s.now[:, upper], s.now[:, lower]
    high_before, low_before = s.before[:, upper], s.before[:, lower]
    both = (high >= 0) & (low >= 0)
    both_before = (high_before >= 0) & (low_before >= 0)

    # A perfect fifth (octave or unison, compound too) to another one by motion the same way;
    # counted upwards from the lower note, whichever voice has it.
    similar = s.way[:, upper] * s.way[:, lower] > 0  # so both sound in both steps
    now, before = np.abs(high - low) % 12, np.abs(high_before - low_before) % 12
    yield similar & (now == 7) & (before == 7), where, "parallel fifths"
    yield similar & (now == 0) & (before == 0), where, "parallel octaves"

    if where == (0, 3):
        # Outer voices come the same way to a fifth or an octave, the soprano by a leap.
        leaping = similar & (np.abs(s.way[:, 0]) > 2)
        yield leaping & (now == 7) & (before != 7), where, "hidden fifths"
        yield leaping & (now == 0) & (before != 0), where, "hidden octaves"

    if lower == upper + 1:
        # Neighbours in the wrong order; overlap: one goes beyond where the other just was.
        crossed, crossed_before = both & (high < low), both_before & (high_before < low_before)
        yield crossed & ~crossed_before, where, "crossing"
        beyond = (high < low_before) | (low > high_before)
        yield both & both_before & ~crossed & ~crossed_before & beyond, where, "overlap"
        if lower < 3:
            wide, wide_before = high - low > SPACING, high_before - low_before > SPACING
            yield both & wide & ~(both_before & wide_before), where, "spacing"


def leading_notes(steps: Steps, tonic: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) where a doubled leading note begins; (N, 4) which voices have a leading note.

    The leading note in two voices of a dominant chord: V or VII of the key of ``tonic`` (0..11, or
    -1; (N,) or one for all), or a dominant seventh of any key, the fifth left out. Dominant triads
    of other keys are not seen.
    """
    note, note_before = _leading_note(steps.now, tonic), _leading_note(steps.before, tonic)
    which = (steps.now >= 0) & (steps.now % 12 == note[:, None])
    which_before = (steps.before >= 0) & (steps.before % 12 == note_before[:, None])
    held = (note == note_before) & (which == which_before).all(1)
    return (which.sum(1) > 1) & ~held, which


def _leading_note(chords: np.ndarray, tonic: int | np.ndarray) -> np.ndarray:
    """(N,) pitch class of the leading note of each chord (N, 4), -1 where it is no dominant."""
    classes, leading = _classes(chords), np.full(len(chords), -1)
    for root in range(12):
        leading[classes == _bits(root, root + 4, root + 10)] = (root + 4) % 12
    tonics = np.broadcast_to(tonic, leading.shape)
    for chord in _DOMINANTS:
        home = np.array([_bits(*(key + n for n in chord)) for key in range(12)])
        leading = np.where((tonics >= 0) & (classes == home[tonics]), (tonics + 11) % 12, leading)
    return leading


def _bits(*classes: int) -> int:
    return sum(1 << c % 12 for c in classes)


def _classes(chords: np.ndarray) -> np.ndarray:
    """(N,) the set of pitch classes of each chord (N, 4): one bit a class."""
    return np.bitwise_or.reduce(np.where(chords >= 0, 1 << chords % 12, 0), axis=1)


def _held(changed: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """(voice, first step, steps) of every stand: from a change of the voice to the last change of
    another one before the voice changes again."""
    for voice in range(4):
        others = np.flatnonzero(np.delete(changed, voice, 1).any(1))
        bounds = [0, *np.flatnonzero(changed[:, voice]).tolist(), len(changed)]
        for start, end in pairwise(bounds):
            inside = others[(others > start) & (others < end)]
            if len(inside):
                yield voice, start, int(inside[-1]) - start


def closes(pitches: np.ndarray) -> bool:
    """Whether a piece (T, 4) ends on a triad in root position, reached by a cadence."""
    pitch = check(pitches)
    sounding = pitch[(pitch >= 0).any(1)]
    _, came = came_from(pitch[:, 3])
    return bool(len(sounding) and closing(sounding[-1:], np.array([came]))[0])


def closing(chords: np.ndarray, came: np.ndarray) -> np.ndarray:
    """(N,) whether a piece closes (:func:`closes`) that ends with chord (N, 4); came (N,): the last
    pitch class of the bass that is another than its last, -1 if there is none."""
    way = (chords[:, 3] - came) % 12
    return _triads(chords) & (came >= 0) & np.isin(way, list(_CADENCES))


def _triads(chords: np.ndarray) -> np.ndarray:
    """(N,) which chords (N, 4) are major or minor triads, fifth dispensable, root in the bass."""
    bass = chords[:, 3:]
    above = _classes(np.where(chords >= 0, (chords - bass) % 12, -1)) & ~_bits(7)
    return (bass[:, 0] >= 0) & ((above == _bits(0, 3)) | (above == _bits(0, 4)))


def came_from(bass: np.ndarray) -> tuple[int, int]:
    """The last pitch class of a bass (T,), and the last before it that is another; -1 = none."""
    classes = bass[bass >= 0] % 12
    others = classes[classes != classes[-1]] if len(classes) else classes
    return int(classes[-1]) if len(classes) else -1, int(others[-1]) if len(others) else -1


def _percent(flags: Iterable[bool]) -> float:
    return 100 * float(np.mean(list(flags)))
