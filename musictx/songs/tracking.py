"""Beat tracking by the onsets of notes, for music that does not follow the beats of its file.

The bar pointer model (Whiteley, Cemgil and Godsill 2006; in the form of Krebs, Boeck and Widmer
2015), on onsets of notes instead of audio. A state is a tempo and a place in the quarter note. Time
advances in frames, the tempo changes only at beats, and onsets are likelier at some places of the
quarter note than at others. Viterbi's algorithm finds the likeliest path of states. Then the length
of bars and the first downbeat are chosen so that low notes and changes of harmony are at downbeats.
"""

from __future__ import annotations

import numpy as np

from musictx.notes import METER, TEMPO, Pulse, Score, cached

#: The length of a frame; the slowest and the fastest tempo in quarter notes per minute.
FRAME_SECONDS, SLOWEST, FASTEST = 0.02, 50.0, 180.0
#: The likeliest tempo in quarter notes per minute, and the standard deviation in octaves of tempo.
USUAL_TEMPO, TEMPO_SPREAD = 95.0, 0.6
#: The probability of a change of tempo at a beat is proportional to exp(-STEADINESS * |ratio - 1|).
STEADINESS = 120.0
#: The number of tempi, and the weight of the preference for usual tempi at each beat.
TEMPO_COUNT, USUAL_TEMPO_WEIGHT = 48, 0.02
#: Places in a quarter note, with the share of onsets there.
PLACES = ((0.0, 0.45), (0.5, 0.3), (0.25, 0.1), (0.75, 0.1))
#: The standard deviation of onsets from these places in seconds, and the share of random onsets.
ONSET_SPREAD_SECONDS, RANDOM_SHARE = 0.02, 0.1
#: The mean number of onsets per quarter note, and the penalty on a beat without an onset in nats.
ONSETS_PER_QUARTER, SILENT_BEAT_PENALTY = 2.4, 0.4
#: The candidates for the number of beats in a bar.
BAR_LENGTHS = (4, 3)
#: Beats are moved to the mean of the onsets within this time of them, in seconds.
NEAR_SECONDS = 0.07
#: Music with fewer onsets or beats than this is not tracked.
FEWEST_ONSETS = 8
#: Longer music, in seconds, is not tracked, since half an hour already takes some seconds.
LONGEST_SECONDS = 1800.0


@cached
def track_beats(score: Score) -> Pulse | None:
    """The likeliest beats and bars of ``score`` by its onsets, however uncertain; ``None`` for too
    little or too much music. The first bar begins at or before the first note."""
    times, weights = _onsets(score)
    if len(times) < FEWEST_ONSETS or times[-1] - times[0] > LONGEST_SECONDS:
        return None
    beats = _move_to_onsets(_likeliest_beats(times, weights), times, weights)
    if len(beats) < FEWEST_ONSETS:
        return None
    length, downbeat = _bar_length_and_phase(score, beats)
    period = beats[1] - beats[0]
    added = 1 + int(beats[0] / period)  # beats before the first one
    added += -(added + downbeat) % length  # whole bars
    late = float(beats[0] - added * period)
    beats = np.concatenate([beats[0] - np.arange(added, 0, -1) * period, beats])
    tempos = np.zeros(len(beats) - 1, TEMPO)
    tempos["time"], tempos["bpm"] = beats[:-1] - late, 60.0 / np.diff(beats)
    return Pulse(tempos, np.array([(0.0, length, 4)], METER), late)


def _onsets(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the times of onsets in seconds, at most one per frame, and (n,) their weights, greater
    where many or loud notes begin."""
    notes = score.notes
    frame = np.round(notes["start"] / FRAME_SECONDS).astype(np.int64)
    _, first = np.unique(frame, return_index=True)
    loudness = np.add.reduceat(notes["velocity"] / 64.0, first)
    return notes["start"][first], np.minimum(0.6 + 0.3 * loudness, 1.8)


def _likeliest_beats(times: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(b,) the times of the likeliest beats in seconds, not before the first onset."""
    slow, fast = 60.0 / SLOWEST / FRAME_SECONDS, 60.0 / FASTEST / FRAME_SECONDS
    periods = np.unique(np.round(np.geomspace(fast, slow, TEMPO_COUNT)).astype(int))  # in frames
    # The states of each tempo, one per frame of its quarter note, are consecutive.
    lasts = np.cumsum(periods) - 1
    firsts = lasts + 1 - periods
    tempo = np.repeat(np.arange(len(periods)), periods)
    place = (np.arange(len(tempo)) - firsts[tempo]) / periods[tempo]
    onset, silence = _log_likelihood(place, periods[tempo])
    change = -STEADINESS * np.abs(periods[None, :] / periods[:, None] - 1)
    change -= np.log(np.exp(change).sum(axis=1, keepdims=True))
    usual = -0.5 * (np.log2(60.0 / (periods * FRAME_SECONDS) / USUAL_TEMPO) / TEMPO_SPREAD) ** 2
    frame = np.round((times - times[0]) / FRAME_SECONDS).astype(int)
    weight = np.zeros(frame[-1] + 1)
    weight[frame] = weights
    # For each state, the log-likelihood of the best path to it; for a beat in each frame at each
    # tempo, the tempo of the quarter note before it.
    value = usual[tempo] - np.log(periods[tempo]) + silence + weight[0] * onset
    previous = np.zeros((len(weight), len(periods)), np.int8)
    for t in range(1, len(weight)):
        arrivals = value[lasts][:, None] + change
        previous[t] = arrivals.argmax(axis=0)
        value[1:] = value[:-1].copy()
        value[firsts] = arrivals.max(axis=0) + USUAL_TEMPO_WEIGHT * usual
        value += silence
        if weight[t]:
            value += weight[t] * onset
    state = int(value.argmax())
    index = int(tempo[state])
    beats = [len(weight) - 1 - (state - int(firsts[index]))]  # the last one, in frames
    while beats[-1] > 0:
        index = int(previous[beats[-1], index])
        beats.append(beats[-1] - int(periods[index]))
    return times[0] + np.array([beat for beat in reversed(beats) if beat >= 0]) * FRAME_SECONDS


def _log_likelihood(place: np.ndarray, period: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(s,) and (s,): the log-likelihoods of an onset and of a frame without onset, in states at
    ``place`` (s,), 0 to 1, in a quarter note of ``period`` (s,) frames. Onsets are a Poisson
    process of :data:`ONSETS_PER_QUARTER`, whose rate has peaks at :data:`PLACES`."""
    density = np.full(len(place), RANDOM_SHARE)
    width = np.hypot(ONSET_SPREAD_SECONDS, FRAME_SECONDS / 2) / (period * FRAME_SECONDS)
    for peak, share in PLACES:
        distance = (place - peak + 0.5) % 1 - 0.5
        density += share * np.exp(-0.5 * (distance / width) ** 2) / (width * np.sqrt(2 * np.pi))
    onset = np.log(ONSETS_PER_QUARTER * density / (period * FRAME_SECONDS))
    return onset, -ONSETS_PER_QUARTER / period - np.where(place == 0, SILENT_BEAT_PENALTY, 0.0)


def _move_to_onsets(beats: np.ndarray, times: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``beats``, each moved to the weighted mean of the onsets near it; the nearest weigh most."""
    moved = beats.copy()
    for i, beat in enumerate(beats):
        low, high = np.searchsorted(times, (beat - NEAR_SECONDS, beat + NEAR_SECONDS))
        if high > low:
            near = weights[low:high] * np.exp(
                -0.5 * ((times[low:high] - beat) / (NEAR_SECONDS / 3)) ** 2
            )
            moved[i] = (near * times[low:high]).sum() / near.sum()
    return moved


def _bar_length_and_phase(score: Score, beats: np.ndarray) -> tuple[int, int]:
    """(number of beats in a bar, index of the first beat that begins a bar). Downbeats are where
    long and low notes begin, and where the pitch classes differ from those at the beat before."""
    notes = score.notes[~score.notes["drum"]]
    notes = notes if len(notes) else score.notes
    beat = np.searchsorted(beats, notes["start"] + NEAR_SECONDS / 2, side="right") - 1
    is_counted = beat >= 0
    beat = np.maximum(beat, 0)
    is_counted &= np.abs(notes["start"] - beats[beat]) < NEAR_SECONDS
    weight = np.zeros(len(beats))
    length = np.minimum(notes["end"] - notes["start"], 2.0)
    bass_weight = np.where(notes["pitch"] <= np.percentile(notes["pitch"], 25), 2.0, 0.5)
    np.add.at(weight, beat[is_counted], (length * bass_weight)[is_counted])
    chroma = np.zeros((len(beats), 12))
    np.add.at(chroma, (beat, notes["pitch"] % 12), np.minimum(length, 1.0))
    norm = chroma / np.maximum(np.linalg.norm(chroma, axis=1, keepdims=True), 1e-9)
    change = np.append(0.0, 1 - (norm[1:] * norm[:-1]).sum(axis=1))
    weight = np.sqrt(weight) / max(np.sqrt(weight).mean(), 1e-9) + change / max(change.mean(), 1e-9)
    best = (-np.inf, BAR_LENGTHS[0], 0)
    for size in BAR_LENGTHS:
        for first in range(size):
            downbeats = weight[first::size]
            contrast = (downbeats.mean() - weight.mean()) * np.sqrt(len(downbeats))
            best = max(best, (float(contrast), size, first))
    return best[1], best[2]
