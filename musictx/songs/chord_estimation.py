"""The chords that notes imply, and those that fit a melody, by hidden Markov models over the halves
of bars.

:func:`recognised` finds the chords that notes imply. In each half of a bar a chord is likely if the
notes are its tones and the lowest note is its root; a chord tends to last.

:func:`search` finds the chords that fit a whole melody, before an accompaniment is composed. A
state is a major or minor triad relative to the key. How often triads follow each other, and how
often melody tones lie over them, was counted in songs (``scripts/reproduce/chord_table.py`` writes
``chord_table.json``). The result is the likeliest sequence that changes about as often as the
chords of songs, in the likeliest of twelve keys; a key is a major scale or its relative minor,
whose tonic is vi.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from musictx.beats import Beats
from musictx.chords import CHORDS, Chord
from musictx.notes import Score

#: The share of the sound during a chord that is tones of the chord; how many independent notes half
#: a bar counts as (both: "chords by ear" in scripts/LOG.md); the likelihood that the lowest note is
#: the root, or another tone of the chord.
IN_CHORD, NOTES, ROOT_IN_BASS, TONE_IN_BASS = 0.8, 8.0, 0.75, 0.2
#: The probability that a chord lasts for another half of a bar (the same entry); the frequencies of
#: qualities.
STAYS = 0.7
COMMON = (0.02, 0.42, 0.26, 0.04, 0.06, 0.09, 0.03, 0.03, 0.02, 0.01, 0.02)


def recognised(score: Score) -> list[tuple[float, Chord]]:
    """The chords that the notes of ``score`` imply, as the seconds and the chord of each change.
    The first begins with the first bar, but not before 0."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return []
    clock = score.beats
    lines = halves(clock, clock.quarters(notes["end"].max()))
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
    return _changes(clock, np.array(lines), best)


def _changes(clock: Beats, lines: np.ndarray, path: np.ndarray) -> list[tuple[float, Chord]]:
    """Seconds and chord of each change in ``path``, the numbers in :data:`CHORDS` of the chords
    that begin at the ``lines``, in quarter notes."""
    changes = np.flatnonzero(np.diff(path, prepend=-1))
    times = np.maximum(clock.seconds(lines[changes]), 0.0)
    return list(zip(times.tolist(), [CHORDS[chord] for chord in path[changes]]))


def halves(clock: Beats, until: float) -> list[float]:
    """The beginnings of the halves of bars, in quarter notes, and the end of the last half, which
    lies at or after ``until``. Bars with an odd number of beats are not halved."""
    lines = [0.0]
    ends = [*clock.meter_at[1:].tolist(), np.inf]
    for meter, stop, length in zip(clock.meters, ends, clock.bar_quarters.tolist()):
        begin, step = lines[-1], length / (1 + (int(meter["numerator"]) % 2 == 0))
        count = int(np.ceil((min(stop, until) - begin) / step - 1e-6))
        lines += [min(begin + step * (n + 1), stop) for n in range(count)]
    return lines


def _likelihood(pitches: np.ndarray, sounds: np.ndarray) -> np.ndarray:
    """(chords,) the log-likelihood under each of :data:`CHORDS` of notes that sound for ``sounds``
    quarter notes each; notes with negative values do not sound."""
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
    """(chords, 12) the log-likelihoods of pitch classes, and of the pitch class of the lowest
    note."""
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


#: How many independent observations a quarter note of melody counts as. "chords searched before a
#: melody is accompanied".
PER_QUARTER = 2.0
#: A note is on the strong beat if it begins within so many quarter notes after a half bar begins.
STRONG = 0.25
#: The states are the major triads by their roots, then the minor ones: ``CHORDS[1:STATES + 1]``.
STATES = 24
#: The tonics of a major key and of its relative minor.
TONICS = (0, 12 + 9)


def implied(score: Score) -> list[tuple[float, Chord]]:
    """The chords that fit the melody of ``score`` if it is alone, else those that its notes imply:
    seconds and chord, where it changes."""
    return search(score) if score.one_voice else recognised(score)


def search(score: Score) -> list[tuple[float, Chord]]:
    """The likeliest chords under the pitched notes of ``score``: seconds and chord, where it
    changes. The first begins with the bar of the first note, but not before 0."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return []
    lines, melody, at_bar = observed(score, notes)
    path = likeliest(melody, at_bar, int(notes["pitch"][-1]) % 12)
    lines[0] -= score.beats.bar(float(lines[0]))[1]
    return _changes(score.beats, lines, 1 + path)


def draw_repeats(bars: int, random: np.random.Generator) -> list[int]:
    """Draw, for each bar of a new piece, how many bars before it the bar lies that it repeats, 0
    for none, from a Markov chain of these distances in songs."""
    distances = [0]
    for bar in range(bars):
        nats = table()["repeats"][distances[-1], : bar + 1]
        distances.append(int((nats + random.gumbel(size=len(nats))).argmax()))
    return distances[1:]


def draw(
    clock: Beats,
    quarters: float,
    random: np.random.Generator,
    key: int | None = None,
    repeats: Sequence[int] = (),
    *,
    top_p: float = 1.0,
    closes: bool = False,
) -> list[tuple[float, Chord]]:
    """Draw the chords of a new piece of this many quarter notes as songs have them: seconds and
    chord, where it changes.

    They are a Markov chain over half bars that ends as songs end, or on a tonic if it ``closes``,
    in the major ``key``, or the minor key with the same notes; by default a random one. Each is
    drawn from the likeliest ones that together have at least the probability ``top_p``. Bars but
    the last that repeat earlier ones (``repeats``, :func:`draw_repeats`) have the chords of
    these."""
    lines = np.array(halves(clock, quarters))[:-1]
    chances = table()
    at_bar = _at_bar(clock, lines).astype(int)
    bar = np.cumsum(at_bar) - 1
    back = np.zeros(len(lines), np.int64)  # in half bars
    if len(repeats):
        back = np.where(bar < bar[-1], np.array(repeats)[bar], 0) * np.bincount(bar)[0]
    last = chances["last"]
    if closes:
        last = np.where(np.isin(np.arange(STATES), TONICS), last, -np.inf)
    ahead = [last]  # how likely a song ends so after each state of a half bar
    for number in at_bar[:0:-1]:
        ahead.append(np.logaddexp.reduce(chances["follows"][number] + ahead[-1], axis=1))
    path: list[int] = []
    for number, after in enumerate(ahead[::-1]):
        if back[number]:
            path.append(path[number - back[number]])
            continue
        follows = chances["follows"][at_bar[number]]
        nats = after + (follows[path[-1]] if path else chances["first"])
        probability = np.exp(nats - np.logaddexp.reduce(nats))
        likelier = np.sort(probability)[::-1]
        least = likelier[int((likelier.cumsum() < top_p).sum().clip(max=STATES - 1))]
        nats = np.where(probability >= least, nats, -np.inf)
        path.append(int((nats + random.gumbel(size=STATES)).argmax()))
    key = int(random.integers(12)) if key is None else key
    return _changes(clock, lines, 1 + transposed(np.array(path), key))


def transposed(states: np.ndarray, semitones: int) -> np.ndarray:
    """The triads ``states``, ``semitones`` higher."""
    return (states + semitones) % 12 + 12 * (states // 12)


def _at_bar(clock: Beats, lines: np.ndarray) -> np.ndarray:
    """(n,) bool: whether a bar begins at each of the ``lines``, in quarter notes."""
    return np.array([clock.bar(float(line) + 1e-6)[1] < 1e-3 for line in lines])


def observed(score: Score, notes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The half bars from the first of ``notes`` to the last one.

    Returns (n,) their beginnings in quarter notes; (n, 2, 12) the quarter notes for which each
    pitch class sounds in them, separately for notes on the strong beat and for later notes; (n,)
    bool, whether a bar begins with each.
    """
    clock = score.beats
    start, end = clock.quarters(notes["start"]), clock.quarters(notes["end"])
    stop = float(np.maximum(end, start + 1e-2).max())  # a note may have no length
    lines = np.array(halves(clock, stop))
    lines = lines[max(int(np.searchsorted(lines, start.min() + 1e-3, side="right")) - 1, 0) :]
    sounds = np.zeros((len(lines) - 1, 2, 12))
    for number, (begin, stop) in enumerate(pairwise(lines)):
        length = np.minimum(end, stop) - np.maximum(start, begin)
        inside = length > 1e-3
        late = np.maximum(start[inside], begin) > begin + STRONG - 1e-3
        np.add.at(sounds[number], (late.astype(int), notes["pitch"][inside] % 12), length[inside])
    return lines[:-1], sounds, _at_bar(clock, lines[:-1])


def likeliest(sounds: np.ndarray, at_bar: np.ndarray, final: int) -> np.ndarray:
    """(n,) int64: the likeliest sequence of triads, in the likeliest key, among those that change
    about as often as the chords of songs. The likeliest sequence of all changes half as often.

    ``sounds`` (n, 2, 12) and ``at_bar`` (n,) are as in :func:`observed`, and ``final`` is the pitch
    class of the last note."""
    chances = table()
    follows = chances["follows"][at_bar[1:].astype(int)]
    likelihoods, fits_in = _in_keys(sounds, at_bar)
    key = int((likelihoods + chances["final"][(final - np.arange(12)) % 12]).argmax())

    def path(gain: float) -> np.ndarray:
        """The likeliest sequence if each change gains so many nats."""
        return viterbi(fits_in[key], follows + gain * (1 - np.eye(STATES)), chances["last"])[0]

    def changes(gain: float) -> int:
        return int((np.diff(path(gain)) != 0).sum())

    # With a greater gain there are never fewer changes; 10 nats outweigh every succession.
    gains = np.linspace(0, 10, 101)
    count = bisect_right(gains, _usual_changes(at_bar), key=changes)  # of gains with at most these
    return transposed(path(gains[max(count - 1, 0)]), key)


def tonic(score: Score) -> Chord:
    """The tonic triad of the key of ``score``, C major without pitched notes: the major key in
    which the likeliest triads under all notes follow each other as they do in songs, or its
    relative minor key if the tonic triad of that one sounds longer."""
    notes = score.notes[~score.notes["drum"]]
    if not len(notes):
        return CHORDS[1]
    _, sounds, at_bar = observed(score, notes)
    major = int(_in_keys(sounds, at_bar)[0].argmax())
    played = np.roll(sounds.sum((0, 1)), -major)
    is_minor = played[9] > played[7]  # the two triads differ in one tone
    return CHORDS[1 + int(transposed(np.array(TONICS[int(is_minor)]), major))]


def _in_keys(sounds: np.ndarray, at_bar: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """(12,) the log-likelihood of the likeliest sequence of triads in each major key, and 12 arrays
    (n, STATES), the ``fits`` of :func:`viterbi` in these keys. The arguments are as in
    :func:`likeliest`."""
    chances = table()
    follows = chances["follows"][at_bar[1:].astype(int)]
    tones = np.array([np.roll(chances["tones"][n // 12], n % 12, axis=1) for n in range(STATES)])
    fits = []
    for key in range(12):
        in_c = np.roll(sounds, -key, axis=2)
        fits.append(PER_QUARTER * np.einsum("nsp,csp->nc", in_c, tones))
        fits[-1][0] += chances["first"]
    return np.array([viterbi(fit, follows, chances["last"])[1] for fit in fits]), fits


def _usual_changes(at_bar: np.ndarray) -> float:
    """How often the chords of songs change on average in half bars, where ``at_bar`` (n,) says
    which of them begin a bar."""
    state, changes = np.exp(table()["first"]), 0.0
    for chances in np.exp(table()["follows"][at_bar[1:].astype(int)]):
        changes += float(state @ (1 - chances.diagonal()))
        state = state @ chances
    return changes


@cache
def table() -> Mapping[str, np.ndarray]:
    """The logarithms of the probabilities that were counted in songs.

    follows  (2, STATES, STATES) of the next triad, within a bar and at a bar line
    repeats  (R, R) of the distance to the bar that the next bar repeats (:mod:`.repeats`), after
             that of each bar
    tones    (qualities, 2, 12) of melody tones, in semitones above the root, on strong beats and
             elsewhere
    first, last  (STATES,) of the first and the last triad of a song
    final    (12,) of the last note of a melody, in semitones above the tonic
    """
    text = Path(__file__).with_name("chord_table.json").read_text("utf-8")
    return {name: np.log(rows) for name, rows in json.loads(text).items()}
