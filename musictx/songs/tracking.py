"""The beats of music that does not keep to those of its file, by when its notes begin.

The bar pointer model (Whiteley, Cemgil and Godsill 2006; in the form of Krebs, Boeck and Widmer
2015), on onsets instead of sound. A state is a tempo and a place in the quarter note; time goes
on in frames, tempo changes at beats alone, and onsets like some places of the quarter better than
others. The likeliest path of states is found by Viterbi's algorithm. Bars are chosen after that:
the length and the first beat for which low notes and new pitch classes begin together.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import METER, TEMPO, Pulse, Score, once

#: Seconds of a frame, and quarter notes a minute of the slowest and of the fastest music.
FRAME, SLOWEST, FASTEST = 0.02, 50.0, 180.0
#: Quarter notes a minute that are likeliest, and the deviation from it, in powers of two.
USUAL, SPREAD = 95.0, 0.6
#: How hard a change of tempo is from one beat to the next: exp(-this |ratio - 1|).
STEADY = 120.0
#: How many tempi there are, and how much usual ones are preferred at each beat.
TEMPI, PULL = 48, 0.02
#: Places in a quarter note, how many of the onsets stand there, and how exactly, in seconds.
PLACES = ((0.0, 0.45), (0.5, 0.3), (0.25, 0.1), (0.75, 0.1))
EXACT = 0.02
#: The share of the onsets that stand anywhere.
ANYWHERE = 0.1
#: Times at which notes begin in a quarter note, and what a beat without an onset costs.
ONSETS, SILENT = 2.4, 0.4
#: Beats of a bar that are tried.
BARS = (4, 3)
#: Beats are placed by the onsets so near to them, in seconds.
NEAR = 0.07
#: Fewer beats than this are none.
FEWEST = 8
#: Longer music, in seconds, is not looked through: half an hour takes some seconds.
LONGEST = 1800.0


@once
def tracked(score: Score) -> Pulse | None:
    """The likeliest beats and bars of ``score`` by its notes, however unsure; None for too little
    music, or too much. They begin at or before its first note, with a bar."""
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
    """(n,) times at which notes begin, those of one frame together, and how much each weighs: more
    where many notes begin, or loud ones."""
    notes = score.notes
    if not len(notes):
        return np.empty(0), np.empty(0)
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
    struck, silent = _liking(place, periods[tempo])
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


def _liking(place: np.ndarray, period: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log-likelihood of an onset, and that of a frame, in each state: at a ``place`` from 0 to
    1 in a quarter note of ``period`` frames. Onsets are a Poisson process of :data:`ONSETS` a
    quarter note, whose rate has peaks at :data:`PLACES`."""
    density = np.full(len(place), ANYWHERE)
    width = np.hypot(EXACT, FRAME / 2) / (period * FRAME)
    for at, share in PLACES:
        off = (place - at + 0.5) % 1 - 0.5
        density += share * np.exp(-0.5 * (off / width) ** 2) / (width * np.sqrt(2 * np.pi))
    struck = np.log(ONSETS * density / (period * FRAME))
    return struck, -ONSETS / period - np.where(place == 0, SILENT, 0.0)


def _placed(beats: np.ndarray, times: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``beats`` where the onsets near them stand: at their mean, the nearer the more."""
    smooth = beats.copy()
    for i, beat in enumerate(beats):
        low, high = np.searchsorted(times, (beat - NEAR, beat + NEAR))
        if high > low:
            near = weights[low:high] * np.exp(-0.5 * ((times[low:high] - beat) / (NEAR / 3)) ** 2)
            smooth[i] = (near * times[low:high]).sum() / near.sum()
    return smooth


def _bars(score: Score, beats: np.ndarray) -> tuple[int, int]:
    """(beats of a bar, number of the first beat that begins one)."""
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
            there = weight[first::size]
            clear = (there.mean() - weight.mean()) * np.sqrt(len(there))
            best = max(best, (float(clear), size, first))
    return best[1], best[2]
