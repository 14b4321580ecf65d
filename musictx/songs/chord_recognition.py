"""The chords that notes imply: for each half of a bar the one whose tones are likeliest there and
whose root lies in the bass, by a hidden Markov model in which chords tend to stay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

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
    common = [COMMON[chord.quality] / (12 if chord.quality else 1) for chord in CHORDS]
    follows = np.log(np.where(np.eye(len(CHORDS), dtype=bool), STAYS, 1 - STAYS))
    best, _ = viterbi(fits + np.log(common), [follows] * (len(fits) - 1))
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
    log_classes, log_bass = _tones()
    log_likelihood: np.ndarray = NOTES * log_classes @ (weight / weight.sum())
    return log_likelihood + log_bass[:, int(pitches[audible].min()) % 12]


@cache
def _tones() -> tuple[np.ndarray, np.ndarray]:
    """(chords, 12) logarithms of the likelihood of a pitch class, and of the lowest one."""
    classes = np.full((len(CHORDS), 12), 1 / 12)
    bass = np.full((len(CHORDS), 12), 1 / 12)
    for row, chord in enumerate(CHORDS[1:], 1):
        inside = np.isin(np.arange(12), list(chord.classes))
        count = inside.sum()
        classes[row] = np.where(inside, IN_CHORD / count, (1 - IN_CHORD) / (12 - count))
        rest = (1 - ROOT_IN_BASS - TONE_IN_BASS) / (12 - count)
        bass[row] = np.where(inside, TONE_IN_BASS / (count - 1), rest)
        bass[row, chord.root] = ROOT_IN_BASS
    return np.log(classes), np.log(bass)


def viterbi(
    fits: np.ndarray, follows: Sequence[np.ndarray] | np.ndarray, last: np.ndarray | float = 0.0
) -> tuple[np.ndarray, float]:
    """(n,) int64: the likeliest sequence of states, and the logarithm of its likelihood (Rabiner
    1989, "A tutorial on hidden Markov models", part III.B). All arguments are logarithms.

    fits     (n, states) how likely each state is with what is observed; in the first row also how
             likely a sequence begins with it
    follows  (n - 1, states, states) how likely a state is followed by another one
    last     (states,) how likely a sequence ends with each
    """
    total, back = fits[0], []
    for fit, chances in zip(fits[1:], follows, strict=True):
        routes = total[:, None] + chances
        back.append(routes.argmax(0))
        total = routes.max(0) + fit
    total = total + last
    path = [int(total.argmax())]
    for best in reversed(back):
        path.append(int(best[path[-1]]))
    return np.array(path[::-1]), float(total.max())
