"""Beat tracking by the onsets of notes, for music that does not follow the beats of its file.

The bar pointer model (Whiteley, Cemgil and Godsill 2006; in the form of Krebs, Boeck and Widmer
2015), on onsets instead of sound. A state is a tempo and a place in the quarter note. Time advances
in frames, the tempo changes at beats alone, and onsets are likelier at some places of the quarter
note than at others. The likeliest path of states is found by Viterbi's algorithm. Bars are chosen
after that: the length and the first beat for which low notes and new pitch classes begin with bars.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import METER, TEMPO, Pulse, Score, cached

#: Seconds of a frame, and quarter notes a minute of the slowest and of the fastest music.
FRAME, SLOWEST, FASTEST = 0.02, 50.0, 180.0
#: The likeliest tempo in quarter notes a minute, and the standard deviation in octaves of tempo.
USUAL, SPREAD = 95.0, 0.6
#: How unlikely changes of tempo are from one beat to the next: exp(-STEADY * |ratio - 1|).
STEADY = 120.0
#: The number of tempi, and the weight of the preference for usual tempi at each beat.
TEMPI, PULL = 48, 0.02
#: Places in a quarter note, with the share of onsets there; the deviation of onsets in seconds.
PLACES = ((0.0, 0.45), (0.5, 0.3), (0.25, 0.1), (0.75, 0.1))
EXACT = 0.02
#: The share of onsets that are distributed uniformly.
ANYWHERE = 0.1
#: The mean number of onsets in a quarter note, and the cost of a beat without an onset.
ONSETS, SILENT = 2.4, 0.4
#: The candidates for the number of beats in a bar.
BARS = (4, 3)
#: Beats are moved to the mean of the onsets that are so near to them, in seconds.
NEAR = 0.07
#: Music with fewer onsets or beats than this is not tracked.
FEWEST = 8
#: Longer music, in seconds, is not tracked, since half an hour already takes some seconds.
LONGEST = 1800.0


@cached
def tracked(score: Score) -> Pulse | None:
    """The likeliest beats and bars of ``score`` by its onsets, however uncertain; ``None`` for too
    little or too much music. They begin with a bar, at or before the first note."""
    times, weights = _onsets(score)
    if len(times) < FEWEST or times[-1] - times[0] > LONGEST:
        return None
    beats = _placed(_path(times, weights), times, weights)
    if len(beats) < FEWEST:
        return None
    length, first = _bars(score, beats)
    before = 1 + int(beats[0] / (beats[1] - beats[0]))  # quarters before the first
    before += -(before + first) % length
    late = float(beats[0] - before * (beats[1] - beats[0]))
    beats = np.concatenate([beats[0] - np.arange(before, 0, -1) * (beats[1] - beats[0]), beats])
    tempos = np.zeros(len(beats) - 1, TEMPO)
    tempos["time"], tempos["bpm"] = beats[:-1] - late, 60.0 / np.diff(beats)
    return Pulse(tempos, np.array([(0.0, length, 4)], METER), late)


def _onsets(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the times of onsets, where onsets in one frame count as one, and (n,) their weights:
    greater where many or loud notes begin."""
    notes = score.notes
    frame = np.round(notes["start"] / FRAME).astype(np.int64)
    _, first = np.unique(frame, return_index=True)
    loud = np.add.reduceat(notes["velocity"] / 64.0, first)
    return notes["start"][first], np.minimum(0.6 + 0.3 * loud, 1.8)


def _path(times: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(b,) seconds of the likeliest beats, from the first onset on."""
    slow, fast = 60.0 / SLOWEST / FRAME, 60.0 / FASTEST / FRAME
    periods = np.unique(np.round(np.geomspace(fast, slow, TEMPI)).astype(int))
    lasts = np.cumsum(periods) - 1
    firsts = lasts + 1 - periods
    tempo = np.repeat(np.arange(len(periods)), periods)
    place = (np.arange(len(tempo)) - firsts[tempo]) / periods[tempo]
    struck, silent = _log_likelihood(place, periods[tempo])
    change = -STEADY * np.abs(periods[None, :] / periods[:, None] - 1)
    change -= np.log(np.exp(change).sum(axis=1, keepdims=True))
    usual = -0.5 * (np.log2(60.0 / (periods * FRAME) / USUAL) / SPREAD) ** 2
    frame = np.round((times - times[0]) / FRAME).astype(int)
    weight = np.zeros(frame[-1] + 1)
    weight[frame] = weights
    # State by state: the likelihood of the best path to it; and for each beat of each tempo, which
    # tempo the quarter note before it had.
    value = usual[tempo] - np.log(periods[tempo]) + silent + weight[0] * struck
    before = np.zeros((len(weight), len(periods)), np.int8)
    for t in range(1, len(weight)):
        arrived = value[lasts][:, None] + change
        before[t] = arrived.argmax(axis=0)
        value[1:] = value[:-1].copy()
        value[firsts] = arrived.max(axis=0) + PULL * usual
        value += silent
        if weight[t]:
            value += weight[t] * struck
    state = int(value.argmax())
    kind = int(tempo[state])
    beats = [len(weight) - 1 - (state - int(firsts[kind]))]
    while beats[-1] > 0:
        kind = int(before[beats[-1], kind])
        beats.append(beats[-1] - int(periods[kind]))
    return times[0] + np.array([beat for beat in reversed(beats) if beat >= 0]) * FRAME


def _log_likelihood(place: np.ndarray, period: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log-likelihood of an onset, and that of a frame, in each state: at a ``place`` from 0 to
    1 in a quarter note of ``period`` frames. Onsets are a Poisson process of :data:`ONSETS` a
    quarter note, whose rate has peaks at :data:`PLACES`."""
    density = np.full(len(place), ANYWHERE)
    width = np.hypot(EXACT, FRAME / 2) / (period * FRAME)
    for peak, share in PLACES:
        off = (place - peak + 0.5) % 1 - 0.5
        density += share * np.exp(-0.5 * (off / width) ** 2) / (width * np.sqrt(2 * np.pi))
    struck = np.log(ONSETS * density / (period * FRAME))
    return struck, -ONSETS / period - np.where(place == 0, SILENT, 0.0)


def _placed(beats: np.ndarray, times: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``beats``, each moved to the weighted mean of the onsets near it; the nearest weigh most."""
    smooth = beats.copy()
    for i, beat in enumerate(beats):
        low, high = np.searchsorted(times, (beat - NEAR, beat + NEAR))
        if high > low:
            near = weights[low:high] * np.exp(-0.5 * ((times[low:high] - beat) / (NEAR / 3)) ** 2)
            smooth[i] = (near * times[low:high]).sum() / near.sum()
    return smooth


def _bars(score: Score, beats: np.ndarray) -> tuple[int, int]:
    """(number of beats in a bar, number of the first beat that begins a bar)."""
    notes = score.notes[~score.notes["drum"]]
    notes = notes if len(notes) else score.notes
    beat = np.searchsorted(beats, notes["start"] + NEAR / 2, side="right") - 1
    on = (beat >= 0) & (np.abs(notes["start"] - beats[np.maximum(beat, 0)]) < NEAR)
    low = np.percentile(notes["pitch"], 25)
    weight = np.zeros(len(beats))
    length = np.minimum(notes["end"] - notes["start"], 2.0)
    bass = np.where(notes["pitch"] <= low, 2.0, 0.5)
    np.add.at(weight, beat[on], (length * bass)[on])
    chroma = np.zeros((len(beats), 12))
    np.add.at(chroma, (np.maximum(beat, 0), notes["pitch"] % 12), np.minimum(length, 1.0))
    norm = chroma / np.maximum(np.linalg.norm(chroma, axis=1, keepdims=True), 1e-9)
    change = np.append(0.0, 1 - (norm[1:] * norm[:-1]).sum(axis=1))
    weight = np.sqrt(weight) / max(np.sqrt(weight).mean(), 1e-9) + change / max(change.mean(), 1e-9)
    best = (-np.inf, BARS[0], 0)
    for size in BARS:
        for first in range(size):
            downbeats = weight[first::size]
            contrast = (downbeats.mean() - weight.mean()) * np.sqrt(len(downbeats))
            best = max(best, (float(contrast), size, first))
    return best[1], best[2]
