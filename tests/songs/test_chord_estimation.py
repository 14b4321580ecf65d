"""Chords recognised in notes, and the likeliest chords of a melody, in any key."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.apps.tasks import gap_task, task_of
from musictx.beats import Beats, Pulse
from musictx.chords import CHORDS, NAMES, NONE, Chord, chord_changes
from musictx.config import AccompanyConfig, InfillConfig
from musictx.notes import METER, Score
from musictx.songs import chord_estimation as estimation
from musictx.songs.chord_estimation import STATES, draw_chords, recognise_chords, search_chords
from musictx.songs.infill import with_chords
from tests.pieces import of

quick, table = settings(max_examples=40), estimation.table


def of_chords(names: list[Chord], semitones: int = 0) -> Score:
    """Return a bar of 4/4 for each chord: the root in the bass, its tones above."""
    notes = []
    for bar, chord in enumerate(names):
        tones = [36 + chord.root, *(60 + tone for tone in sorted(chord.classes))]
        notes += [(2.0 * bar, 2.0 * bar + 2, tone + semitones) for tone in tones]
    return of(*notes)


TRIADS = ("maj", "min", "sus2", "sus4", "dim")
plain = st.sampled_from([chord for chord in CHORDS[1:] if NAMES[chord.quality] in TRIADS])


@quick
@given(st.lists(plain, min_size=1, max_size=8), st.integers(-5, 5))
def test_plain_triads_are_recognised_in_every_key(names, semitones):
    found = recognise_chords(of_chords(names, semitones))
    expected = [
        (2.0 * n, Chord((chord.root + semitones) % 12, chord.quality))
        for n, chord in enumerate(names)
        if n == 0 or names[n - 1] != chord
    ]
    assert found == expected


def test_halves_of_bars_follow_the_meters():
    meters = np.array([(0.0, 4, 4), (4.0, 3, 4), (7.0, 6, 8), (9.0, 4, 4)], METER)
    lines = estimation.half_bar_lines(Beats(Score(meters=meters)), 21.0)
    assert lines == [0, 2, 4, 6, 8, 11, 14, 15.5, 17, 18, 20, 22]


def test_drums_and_silence_have_no_chord():
    drums = of((0.0, 0.5, 36, 80, 0, True), (0.5, 1.0, 38, 80, 0, True))
    assert search_chords(drums) == search_chords(Score()) == recognise_chords(Score()) == []
    assert estimation.tonic_triad(drums) == CHORDS[1]
    gap = of(*((start, start + 2, pitch) for start in (0, 12) for pitch in (36, 60, 64, 67)))
    assert [chord for _, chord in recognise_chords(gap)] == [Chord(0, 1), NONE, Chord(0, 1)]


def test_no_chord_begins_before_the_file():
    played = replace(of_chords([Chord(0, 1)]), pulse=Pulse(Score().tempos, Score().meters, -0.3))
    assert (played.beats.seconds(0.0), recognise_chords(played)[0][0]) == (-0.3, 0.0)


def probabilities(closes=False):
    """(24, 24, 24) of all sequences of three half bars, of which the first begins a bar."""
    first, last, follows = (np.exp(table()[name]) for name in ("first", "last", "follows"))
    if closes:  # C or A minor
        last[[n for n in range(STATES) if n not in (0, 12 + 9)]] = 0.0
    joint = np.einsum("a,ab,bc,c->abc", first, follows[0], follows[1], last)
    return joint / joint.sum()


@pytest.mark.parametrize("closes", [False, True])
def test_chords_are_drawn_from_the_chain_of_songs_that_end_like_songs_or_on_a_tonic(closes):
    joint, shares = probabilities(closes), np.zeros((3, STATES))
    clock, random = Beats(Score()), np.random.default_rng(0)
    for _ in range(1500):
        chords = dict(draw_chords(clock, 6.0, random, key=0, closes=closes))
        for half in range(3):  # a chord lasts until the next one
            chord = chords[max(time for time in chords if time <= half + 1e-6)]
            shares[half, chord.root + 12 * (NAMES[chord.quality] == "min")] += 1 / 1500
    for half, others in enumerate(((1, 2), (0, 2), (0, 1))):
        assert np.abs(shares[half] - joint.sum(others)).sum() / 2 < 0.06


def test_a_small_top_p_draws_the_likeliest_chords():
    """Each of three half bars, given those before it."""
    joint = probabilities()
    path = [int(joint.sum((1, 2)).argmax())]
    path.append(int(joint.sum(2)[path[0]].argmax()))
    path.append(int(joint[path[0], path[1]].argmax()))
    for seed in range(3):
        random = np.random.default_rng(seed)
        chords = dict(draw_chords(Beats(Score()), 6.0, random, key=0, top_p=0.0))
        at = [chords[max(time for time in chords if time <= half + 1e-6)] for half in range(3)]
        assert [c.root + 12 * (NAMES[c.quality] == "min") for c in at] == path


@quick
@given(st.integers(0, 11), st.integers(0, 99))
def test_chords_in_another_key_are_transposed_and_have_its_tonic(key, seed):
    inside, transposed = (
        draw_chords(Beats(Score()), 64, np.random.default_rng(seed), k, closes=True)
        for k in (0, key)
    )
    expected = [(time, Chord((c.root + key) % 12, c.quality)) for time, c in inside]
    assert transposed == expected
    major, minor = CHORDS[1 + key], CHORDS[13 + (key + 9) % 12]
    assert estimation.tonic_triad(of_chords([chord for _, chord in transposed])) in (major, minor)
    for quality in (major.quality, minor.quality):
        primary = [Chord((key + up) % 12, quality) for up in (0, 5, 7, 0)]
        assert estimation.tonic_triad(of_chords(primary)) == primary[0]


def test_bars_repeat_as_in_songs_and_have_the_chords_of_the_bars_that_they_repeat():
    random, clock, pairs = np.random.default_rng(0), Beats(Score()), Counter()
    for _ in range(300):
        repeats = estimation.draw_repeats(40, random)
        assert all(distance <= bar for bar, distance in enumerate(repeats))
        pairs.update(pairwise(repeats[33:]))
    chances, total = np.exp(table()["repeats"][0]), sum(n for (a, _), n in pairs.items() if not a)
    for distance in (0, 1, 2, 4, 8):
        assert pairs[0, distance] / total == pytest.approx(chances[distance], abs=0.04)
    chords = dict(draw_chords(clock, 160.0, random, repeats=repeats))
    bars = [
        [chords[max(t for t in chords if t <= 2 * bar + h)] for h in (0, 1)] for bar in range(40)
    ]
    for bar, distance in enumerate(repeats[:-1]):
        assert bars[bar] == bars[bar - distance]


melodies = st.lists(st.tuples(st.integers(55, 76), st.sampled_from([0.25, 0.5, 1.0])), min_size=4)


def tune(notes, tempo=120.0, transposed=0):
    """Return a melody of (pitch, quarter notes)."""
    pitches, lengths = zip(*notes)
    ends = (np.cumsum(lengths) * 60 / tempo).tolist()
    rows = zip([0.0, *ends], ends, (pitch + transposed for pitch in pitches))
    return of(*rows, tempos=[(0.0, tempo)])


@given(melodies.filter(lambda notes: sum(length for _, length in notes) <= 6))
@settings(max_examples=8)
def test_no_other_sequence_that_changes_as_often_is_likelier(notes):
    """In one key: compared with random sequences and with all that differ in a triad, by a plain
    loop."""
    score = tune(notes)
    lines, sounds, at_bar = estimation.half_bar_durations(score, score.notes)
    chances = table()

    def log_likelihood(states):
        total = chances["first"][states[0]] + chances["last"][states[-1]]
        for n, state in enumerate(states):
            if n:
                total += chances["follows"][int(at_bar[n]), states[n - 1], state]
            for late, pitch_class in np.argwhere(sounds[n]).tolist():
                tone = chances["tones"][state // 12, late, (pitch_class - key - state) % 12]
                total += estimation.OBSERVATIONS_PER_QUARTER * sounds[n, late, pitch_class] * tone
        return total

    def changes(states):
        return sum(a != b for a, b in pairwise(states))

    best, likeliest_in = estimation.likeliest_triads(sounds, at_bar, notes[-1][0] % 12), []
    draws = np.random.default_rng(0).integers(0, STATES, (20, len(lines))).tolist()
    for key in range(12):
        relative = ((best - key) % 12 + 12 * (best // 12)).tolist()
        others = [
            [*relative[:n], other, *relative[n + 1 :]]
            for n, other in product(range(len(lines)), range(STATES))
        ]
        rivals = [log_likelihood(o) for o in others + draws if changes(o) >= changes(best)]
        likeliest_in.append(log_likelihood(relative) >= max(rivals) - 1e-9)
    assert any(likeliest_in)


def test_the_chords_of_a_melody_change_about_as_often_as_those_of_songs():
    """Drawn chords have their average; those of a random melody never have more changes."""
    random = np.random.default_rng(0)
    drawn = [len(draw_chords(Beats(Score()), 256.0, random)) for _ in range(100)]
    melody = tune([(int(pitch), 1.0) for pitch in random.choice([60, 62, 64, 65, 67, 69, 71], 256)])
    assert 0.9 * np.mean(drawn) < len(search_chords(melody)) < 1.03 * np.mean(drawn)
    assert len(search_chords(tune([(67, 1.0)] * 256))) == 1, "a drone"


@given(melodies, st.integers(-11, 11), st.sampled_from([60.0, 90.0, 180.0]))
@settings(max_examples=30)
def test_chords_go_with_the_key_and_the_tempo(notes, up, tempo):
    """Up to ties, which random melodies do not have."""
    chords = search_chords(tune(notes))
    moved = search_chords(tune(notes, tempo, up))
    expected = [Chord((chord.root + up) % 12, chord.quality) for _, chord in chords]
    assert [chord for _, chord in moved] == expected
    assert [time for time, _ in moved] == pytest.approx([t * 120 / tempo for t, _ in chords])


def test_only_a_melody_without_chords_gets_estimated_chords():
    melody = tune([(60, 1), (64, 1), (67, 2)])
    marked = replace(melody, markers=((0.0, "F:maj"),))
    request = AccompanyConfig(melody="x.mid")
    assert chord_changes(with_chords(task_of(request, melody)).given) == search_chords(melody)
    assert with_chords(task_of(request, marked)).given.markers == marked.markers
    inside = gap_task(melody, InfillConfig(file="x.mid", begin="0s", end="1s"))
    assert with_chords(inside) is inside
