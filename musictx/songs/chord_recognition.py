"""The chords that notes imply: for each half of a bar the one whose tones are likeliest there and
whose root lies in the bass, by a hidden Markov model in which chords tend to stay."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from musictx.beats import Beats
from musictx.chords import CHORDS, Chord
from musictx.notes import Score

#: The share of what sounds within a chord that is its tones; how many independent
#: notes half a bar counts as; the likelihood that the lowest note is the root, or another tone.
IN_CHORD, NOTES, ROOT_IN_BASS, TONE_IN_BASS = 0.8, 8.0, 0.75, 0.2
#: The chance that a chord stays for another half of a bar, and how common qualities are.
STAYS = 0.7
COMMON = (0.02, 0.42, 0.26, 0.04, 0.06, 0.09, 0.03, 0.03, 0.02, 0.01, 0.02)


def recognised(score: Score) -> list[tuple[float, Chord]]:
    """The chords that the notes of ``score`` imply: seconds and chord, where it changes."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return []
    clock = score.beats
    lines = halves(clock, float(clock.quarters(notes["end"].max())))
    if len(lines) < 2:
        return []
    start, end = (clock.quarters(notes[name]) for name in ("start", "end"))
    fits = np.array(
        [
            _likelihood(notes["pitch"], np.minimum(end, stop) - np.maximum(start, begin))
            for begin, stop in pairwise(lines)
        ]
    )
    best = _likeliest(fits + np.log(_prior()))
    changes = np.flatnonzero(np.diff(best, prepend=-1))
    return [(float(clock.seconds(lines[n])), CHORDS[best[n]]) for n in changes]


def halves(clock: Beats, until: float) -> list[float]:
    """Where the halves of bars begin, those of an odd number of beats whole, in quarter notes, and
    the end of the last one, at or after ``until``."""
    lines = [0.0]
    ends = [*clock.meter_at[1:].tolist(), np.inf]
    for meter, stop, length in zip(clock.meters, ends, clock.bar_quarters.tolist()):
        begin, step = lines[-1], length / (1 + (int(meter["numerator"]) % 2 == 0))
        count = int(np.ceil((min(stop, until) - begin) / step - 1e-6))
        lines += [min(begin + step * (n + 1), stop) for n in range(count)]
    return lines


def _likelihood(pitches: np.ndarray, sounds: np.ndarray) -> np.ndarray:
    """Of each of :data:`CHORDS` the logarithm of how likely notes are that sound so long; none
    does where ``sounds`` is negative."""
    audible = sounds > 1e-6
    if not audible.any():
        silence = np.full(len(CHORDS), -4.0)
        silence[0] = 0.0
        return silence
    weight = np.bincount(pitches[audible] % 12, sounds[audible], 12)
    tones, lowest = _tones(), np.zeros(12)
    lowest[int(pitches[audible].min()) % 12] = 1.0
    log_likelihood: np.ndarray = NOTES * tones.log_classes @ (weight / weight.sum())
    return log_likelihood + tones.log_bass @ lowest


class _Tones(NamedTuple):
    """(chords, 12) float64: logarithms of the likelihood of a pitch class; of the lowest one."""

    log_classes: np.ndarray
    log_bass: np.ndarray


@cache
def _tones() -> _Tones:
    classes = np.full((len(CHORDS), 12), 1 / 12)
    bass = np.full((len(CHORDS), 12), 1 / 12)
    for row, chord in enumerate(CHORDS[1:], 1):
        inside = np.isin(np.arange(12), list(chord.classes))
        count = inside.sum()
        classes[row] = np.where(inside, IN_CHORD / count, (1 - IN_CHORD) / (12 - count))
        rest = (1 - ROOT_IN_BASS - TONE_IN_BASS) / (12 - count)
        bass[row] = np.where(inside, TONE_IN_BASS / (count - 1), rest)
        bass[row, chord.root] = ROOT_IN_BASS
    return _Tones(np.log(classes), np.log(bass))


@cache
def _prior() -> np.ndarray:
    return np.array([COMMON[chord.quality] / (12 if chord.quality else 1) for chord in CHORDS])


def _likeliest(fits: np.ndarray) -> np.ndarray:
    """(n,) int64: the likeliest sequence (Viterbi) of chords that stay with :data:`STAYS`, else
    are any; from logarithms (n, chords)."""
    stay, leave = np.log(STAYS), np.log(1 - STAYS)
    total, back = fits[0], np.zeros(fits.shape, np.int64)
    for n in range(1, len(fits)):
        other = int(np.argmax(total))
        stays = total + stay > total[other] + leave
        back[n] = np.where(stays, np.arange(len(total)), other)
        total = np.where(stays, total + stay, total[other] + leave) + fits[n]
    path = [int(np.argmax(total))]
    for row in back[:0:-1]:
        path.append(int(row[path[-1]]))
    return np.array(path[::-1])
