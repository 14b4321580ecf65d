"""The chords that notes imply, and those that fit a melody, by hidden Markov models over half bars.

:func:`recognise_chords` finds the chords that notes imply. In each half bar a chord is likely if
the notes are its tones and the lowest note is its root; a chord tends to last.

:func:`search_chords` finds the chords that fit a whole melody. A state is a major or minor triad
relative to the key. The probabilities of transitions between triads, and of melody tones over each
triad, were counted in songs (``scripts/reproduce/chord_table.py`` writes ``chord_table.json``). The
result is the likeliest sequence that changes about as often as the chords of songs, in the
likeliest of twelve keys; a key stands for a major scale and its relative minor.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from musictx.beats import Beats
from musictx.chords import CHORDS, Chord
from musictx.keys import name_chords
from musictx.notes import Score

# IN_CHORD, NOTES_PER_HALF_BAR and STAY are from "chords by ear" in scripts/LOG.md.
#: The share of sounding time that belongs to tones of the chord; the number of independent notes
#: that all notes of a half bar count as.
IN_CHORD, NOTES_PER_HALF_BAR = 0.8, 8.0
#: The probability that the lowest note is the root, and that it is another tone of the chord.
ROOT_IN_BASS, TONE_IN_BASS = 0.75, 0.2
#: The log-likelihood of a chord where nothing sounds, relative to no chord.
CHORD_IN_SILENCE = -4.0
#: The weight of staying on a chord for another half bar. Each change has the weight 1 - STAY.
STAY = 0.7
#: The prior of each quality in ``chords.NAMES``, in every half bar.
QUALITY_PRIOR = (0.02, 0.42, 0.26, 0.04, 0.06, 0.09, 0.03, 0.03, 0.02, 0.01, 0.02)


def recognise_chords(score: Score) -> list[tuple[float, Chord]]:
    """The chords that the notes of ``score`` imply: (seconds, chord) at each change. The first
    chord begins with the first bar, or at 0 s if that bar begins before."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return []
    beats = score.beats
    start, end = beats.quarters(notes["start"]), beats.quarters(notes["end"])
    lines = half_bar_lines(beats, float(end.max()))
    if len(lines) < 2:
        return []
    durations = [
        np.minimum(end, stop) - np.maximum(start, begin) for begin, stop in pairwise(lines)
    ]
    emissions = np.array([_log_likelihood(notes["pitch"], row) for row in durations])
    prior = [QUALITY_PRIOR[chord.quality] / (12 if chord.quality else 1) for chord in CHORDS]
    transitions = np.log(np.where(np.eye(len(CHORDS), dtype=bool), STAY, 1 - STAY))
    path, _ = viterbi(emissions + np.log(prior), [transitions] * (len(emissions) - 1))
    return _chord_changes(beats, np.array(lines), path)


def _chord_changes(beats: Beats, lines: np.ndarray, path: np.ndarray) -> list[tuple[float, Chord]]:
    """(seconds, chord) at each change. ``path`` (n,) has the index in :data:`CHORDS` of the chord
    that begins at each of ``lines`` (n or n + 1,), in quarter notes."""
    changes = np.flatnonzero(np.diff(path, prepend=-1))
    times = np.maximum(beats.seconds(lines[changes]), 0.0)
    return list(zip(times.tolist(), [CHORDS[chord] for chord in path[changes]]))


def half_bar_lines(beats: Beats, until: float) -> list[float]:
    """The beginnings of half bars, in quarter notes, and the end of the last one, which is at or
    after ``until``. Bars with an odd number of beats are not halved."""
    lines = [0.0]
    ends = [*beats.meter_at[1:].tolist(), np.inf]
    for meter, stop, length in zip(beats.meters, ends, beats.bar_quarters.tolist()):
        begin, step = lines[-1], length / 2 if meter["numerator"] % 2 == 0 else length
        count = int(np.ceil((min(stop, until) - begin) / step - 1e-6))
        lines += [min(begin + step * (n + 1), stop) for n in range(count)]
    return lines


def _log_likelihood(pitches: np.ndarray, durations: np.ndarray) -> np.ndarray:
    """(chords,) the log-likelihood, under each of :data:`CHORDS`, of notes with ``pitches`` (n,)
    and ``durations`` (n,) in quarter notes; notes without a positive duration do not sound."""
    audible = durations > 1e-6
    if not audible.any():
        return np.where(np.arange(len(CHORDS)) == 0, 0.0, CHORD_IN_SILENCE)
    weight = np.bincount(pitches[audible] % 12, durations[audible], 12)
    log_classes, log_bass = _tone_log_probs()
    log_likelihood: np.ndarray = NOTES_PER_HALF_BAR * log_classes @ (weight / weight.sum())
    return log_likelihood + log_bass[:, int(pitches[audible].min()) % 12]


@cache
def _tone_log_probs() -> tuple[np.ndarray, np.ndarray]:
    """Two arrays (chords, 12): the log-probabilities, given each chord, of the pitch classes that
    sound, and of the pitch class of the lowest note."""
    classes = np.full((len(CHORDS), 12), 1 / 12)
    bass = np.full((len(CHORDS), 12), 1 / 12)
    for row, chord in enumerate(CHORDS[1:], 1):
        is_tone = np.isin(np.arange(12), list(chord.classes))
        count = is_tone.sum()
        classes[row] = np.where(is_tone, IN_CHORD / count, (1 - IN_CHORD) / (12 - count))
        rest = (1 - ROOT_IN_BASS - TONE_IN_BASS) / (12 - count)
        bass[row] = np.where(is_tone, TONE_IN_BASS / (count - 1), rest)
        bass[row, chord.root] = ROOT_IN_BASS
    return np.log(classes), np.log(bass)


def viterbi(
    emissions: np.ndarray, transitions: Iterable[np.ndarray], last: np.ndarray | float = 0.0
) -> tuple[np.ndarray, float]:
    """(n,) int64: the likeliest sequence of states, and its log-likelihood (Rabiner 1989, "A
    tutorial on hidden Markov models", part III.B). All arguments are log-probabilities.

    emissions    (n, states) of each observation, given each state; the first row includes the
                 probability that a sequence begins with the state
    transitions  (n - 1, states, states) of each next state, given each state
    last         (states,) that a sequence ends with each state
    """
    total, back = emissions[0], []
    for emission, log_p in zip(emissions[1:], transitions, strict=True):
        routes = total[:, None] + log_p
        back.append(routes.argmax(0))
        total = routes.max(0) + emission
    total = total + last
    path = [int(total.argmax())]
    for best in reversed(back):
        path.append(int(best[path[-1]]))
    return np.array(path[::-1]), float(total.max())


#: The number of independent observations that a quarter note of melody counts as ("chords searched
#: before a melody is accompanied" in scripts/LOG.md).
OBSERVATIONS_PER_QUARTER = 2.0
#: Notes that sound when a half bar begins, or begin within this many quarter notes of it, are on
#: the strong beat.
STRONG_QUARTERS = 0.25
#: The states are the major triads by their roots, then the minor ones: ``CHORDS[1:STATES + 1]``.
STATES = 24
#: The states of the tonic triads of a major key and of its relative minor.
TONICS = (0, 12 + 9)


def estimate_chords(score: Score) -> tuple[tuple[float, str], ...]:
    """(seconds, name) at each change: the chords that fit ``score`` if it is a single melody, else
    those that its notes imply, spelt by its key (:func:`.name_chords`)."""
    return name_chords(score, search_chords(score) if score.one_voice else recognise_chords(score))


def search_chords(score: Score) -> list[tuple[float, Chord]]:
    """The likeliest chords under the pitched notes of ``score``: (seconds, chord) at each change.
    The first chord begins with the bar of the first note, or at 0 s if that begins before."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return []
    lines, melody, is_downbeat = half_bar_durations(score, notes)
    path = likeliest_triads(melody, is_downbeat, int(notes["pitch"][-1]) % 12)
    lines[0] -= score.beats.bar(float(lines[0]))[1]
    return _chord_changes(score.beats, lines, 1 + path)


def draw_repeats(bars: int, rng: np.random.Generator) -> list[int]:
    """Draw for each of the ``bars`` of a new piece the distance in bars to the earlier bar that it
    repeats (0: none), from the Markov chain of these distances in songs."""
    distances = [0]
    for bar in range(bars):
        nats = table()["repeats"][distances[-1], : bar + 1]
        # Gumbel-max: a draw with probabilities proportional to exp(nats).
        distances.append(int((nats + rng.gumbel(size=len(nats))).argmax()))
    return distances[1:]


def draw_chords(
    beats: Beats,
    quarters: float,
    rng: np.random.Generator,
    key: int | None = None,
    repeats: Sequence[int] = (),
    *,
    top_p: float = 1.0,
    closes: bool = False,
) -> list[tuple[float, Chord]]:
    """Draw the chords of a new piece of this many ``quarters``: (seconds, chord) at each change.

    They are a Markov chain over half bars, with the transitions and endings of songs.

    key      the tonic of a major key (or its relative minor), as a pitch class; default: random
    repeats  for each bar, the distance to the bar whose chords it repeats (:func:`draw_repeats`);
             the last bar repeats none
    top_p    each chord is drawn from the likeliest ones that together have this probability
    closes   whether the last chord must be a tonic
    """
    lines = np.array(half_bar_lines(beats, quarters))[:-1]
    log_p = table()
    is_downbeat = _is_downbeat(beats, lines).astype(int)
    bar = np.cumsum(is_downbeat) - 1
    distances = np.zeros(len(lines), np.int64)  # in half bars
    if len(repeats):
        half_bars_per_bar = np.bincount(bar)[0]
        distances = np.where(bar < bar[-1], np.array(repeats)[bar], 0) * half_bars_per_bar
    last = log_p["last"]
    if closes:
        last = np.where(np.isin(np.arange(STATES), TONICS), last, -np.inf)
    endings = [last]  # from the last half bar back: log-probability of the rest, given each state
    for downbeat in is_downbeat[:0:-1]:
        endings.append(np.logaddexp.reduce(log_p["follows"][downbeat] + endings[-1], axis=1))
    path: list[int] = []
    for downbeat, distance, ending in zip(is_downbeat, distances, reversed(endings)):
        if distance:
            path.append(path[-distance])
            continue
        nats = ending + (log_p["follows"][downbeat][path[-1]] if path else log_p["first"])
        probability = np.exp(nats - np.logaddexp.reduce(nats))
        descending = np.sort(probability)[::-1]
        last_kept = min(int((descending.cumsum() < top_p).sum()), STATES - 1)
        nats = np.where(probability >= descending[last_kept], nats, -np.inf)
        path.append(int((nats + rng.gumbel(size=STATES)).argmax()))
    key = int(rng.integers(12)) if key is None else key
    return _chord_changes(beats, lines, 1 + transpose_triads(np.array(path), key))


def transpose_triads(states: np.ndarray, semitones: int) -> np.ndarray:
    """Transpose ``states`` (numbers of triads) up by ``semitones``."""
    return (states + semitones) % 12 + 12 * (states // 12)


def _is_downbeat(beats: Beats, lines: np.ndarray) -> np.ndarray:
    """(n,) bool: whether a bar begins at each of ``lines`` (n,), in quarter notes."""
    return np.array([beats.bar(float(line) + 1e-6)[1] < 1e-3 for line in lines])


def half_bar_durations(
    score: Score, notes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The half bars from the first to the last of the ``notes`` of ``score``. Returns

    lines        (n,) where they begin, in quarter notes
    durations    (n, 2, 12) quarter notes for which each pitch class sounds in each half bar: notes
                 on the strong beat, then later notes (:data:`STRONG_QUARTERS`)
    is_downbeat  (n,) bool: whether a bar begins there
    """
    beats = score.beats
    start, end = beats.quarters(notes["start"]), beats.quarters(notes["end"])
    until = float(np.maximum(end, start + 1e-2).max())  # a note may have no length
    lines = np.array(half_bar_lines(beats, until))
    lines = lines[max(int(np.searchsorted(lines, start.min() + 1e-3, side="right")) - 1, 0) :]
    durations = np.zeros((len(lines) - 1, 2, 12))
    for half, (begin, stop) in enumerate(pairwise(lines)):
        length = np.minimum(end, stop) - np.maximum(start, begin)
        sounds = length > 1e-3
        is_late = start[sounds] > begin + STRONG_QUARTERS - 1e-3
        pitch_class = notes["pitch"][sounds] % 12
        np.add.at(durations[half], (is_late.astype(int), pitch_class), length[sounds])
    return lines[:-1], durations, _is_downbeat(beats, lines[:-1])


def likeliest_triads(durations: np.ndarray, is_downbeat: np.ndarray, final: int) -> np.ndarray:
    """(n,) int64: the likeliest sequence of triads, in the likeliest key, among those that change
    about as often as the chords of songs. Unconstrained, the likeliest sequence changes half as
    often.

    ``durations`` (n, 2, 12) and ``is_downbeat`` (n,) are those of :func:`half_bar_durations`;
    ``final`` is the pitch class of the last note."""
    log_p = table()
    transitions = log_p["follows"][is_downbeat[1:].astype(int)]
    log_likelihoods, emissions = _fit_keys(durations, is_downbeat)
    key = int((log_likelihoods + log_p["final"][(final - np.arange(12)) % 12]).argmax())

    def path(gain: float) -> np.ndarray:
        """The likeliest sequence if each change gains this many nats."""
        return viterbi(emissions[key], transitions + gain * (1 - np.eye(STATES)), log_p["last"])[0]

    def changes(gain: float) -> int:
        return int((np.diff(path(gain)) != 0).sum())

    # With a greater gain there are never fewer changes; 10 nats outweigh every transition.
    gains = np.linspace(0, 10, 101)
    too_many = bisect_right(gains, _usual_changes(is_downbeat), key=changes)
    return transpose_triads(path(gains[max(too_many - 1, 0)]), key)


def tonic_triad(score: Score) -> Chord:
    """The tonic triad of the key of ``score``; C major if it has no pitched notes. The key is the
    major key with the likeliest sequence of triads under all notes, or its relative minor if the
    tonic triad of that sounds longer."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return CHORDS[1]
    _, durations, is_downbeat = half_bar_durations(score, notes)
    major = int(_fit_keys(durations, is_downbeat)[0].argmax())
    total = np.roll(durations.sum((0, 1)), -major)
    is_minor = total[9] > total[7]  # the two triads differ in one tone
    return CHORDS[1 + int(transpose_triads(np.array(TONICS[int(is_minor)]), major))]


def _fit_keys(
    durations: np.ndarray, is_downbeat: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(12,) the log-likelihood of the likeliest sequence of triads in each major key, and for each
    key (n, STATES) the ``emissions`` for :func:`viterbi`. The arguments are as in
    :func:`likeliest_triads`."""
    log_p = table()
    transitions = log_p["follows"][is_downbeat[1:].astype(int)]
    tones = np.array([np.roll(log_p["tones"][n // 12], n % 12, axis=1) for n in range(STATES)])
    emissions = []
    for key in range(12):
        relative = np.roll(durations, -key, axis=2)  # pitch classes above the tonic
        emissions.append(OBSERVATIONS_PER_QUARTER * np.einsum("nsp,csp->nc", relative, tones))
        emissions[-1][0] += log_p["first"]
    return np.array([viterbi(e, transitions, log_p["last"])[1] for e in emissions]), emissions


def _usual_changes(is_downbeat: np.ndarray) -> float:
    """The mean number of chord changes in songs over half bars with these ``is_downbeat`` (n,)."""
    state, changes = np.exp(table()["first"]), 0.0
    for transition in np.exp(table()["follows"][is_downbeat[1:].astype(int)]):
        changes += float(state @ (1 - transition.diagonal()))
        state = state @ transition
    return changes


@cache
def table() -> Mapping[str, np.ndarray]:
    """Log-probabilities that were counted in songs.

    follows  (2, STATES, STATES) of the next triad, given each triad: within a bar, at a bar line
    repeats  (R, R) of the distance to the bar that the next bar repeats (:mod:`.repeats`), given
             that distance of each bar
    tones    (qualities, 2, 12) of melody tones, in semitones above the root, on strong beats and
             elsewhere
    first, last  (STATES,) of the first and the last triad of a song
    final    (12,) of the last note of a melody, in semitones above the tonic
    """
    text = Path(__file__).with_name("chord_table.json").read_text("utf-8")
    return {name: np.log(rows) for name, rows in json.loads(text).items()}
