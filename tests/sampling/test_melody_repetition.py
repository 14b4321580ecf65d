"""What repeats: against loops over the notes themselves."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.notes import Score
from musictx.sampling import melody_repetition
from musictx.sampling.melody_repetition import MelodyRepetition
from musictx.sampling.primer import encode_primer
from musictx.sampling.strengths import (
    INTERVALS_AGREE,
    INTERVALS_COMPARED,
    MELODY_GAIN,
    ONSET_SECONDS,
    RETURN_SECONDS,
)
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS
from tests.sampling.engines import nats

PIANO = build("performance", tracks="piano")


def next_of_line(strikes, now):
    """Oracle: (pitch, intervals that agree) that goes on with the top line, by loops; None."""
    onsets = []
    for seconds, pitch in strikes:
        if not onsets or seconds - onsets[-1][-1][0] > ONSET_SECONDS + 1e-9:
            onsets.append([])
        onsets[-1].append((seconds, pitch))
    line = [max(pitch for _, pitch in onset) for onset in onsets]
    here = []
    if onsets and now - strikes[-1][0] <= ONSET_SECONDS + 1e-9:
        here = [pitch for _, pitch in onsets.pop()]
        line.pop()
    best = None
    for end in range(INTERVALS_COMPARED + 1, len(onsets) - 1):
        if strikes[-1][0] - onsets[end + 1][0][0] < RETURN_SECONDS - 1e-9:
            break
        run = []
        for back in range(INTERVALS_COMPARED):
            interval = line[len(line) - 1 - back] - line[len(line) - 2 - back]
            if line[end - back] - line[end - back - 1] != interval:
                break
            run.append(interval)
        order = len(run), line[end] == line[-1]
        if best is None or order >= best[2]:
            best = line[-1] + line[end + 1] - line[end], run, order
    if best is None or len(best[1]) < INTERVALS_AGREE or not any(best[1]) or best[0] in here:
        return None
    return best[0], len(best[1])


def random_strikes(random, count):
    """Ids of strikes of few pitches, so that runs come again, with waits up to a second; each after
    a velocity, and released."""
    table, ids = PIANO.vocabulary, []
    for number in range(count):
        wait, pitch = random.choice([0, 25, 50, 100]), random.randrange(60, 65)
        ids += [table.id("time_shift", wait)] if wait and number else []
        ids += [table.id("velocity", 1 + number % 2), table.id("note_on", pitch)]
        ids += [table.id("time_shift", 100), table.id("note_off", pitch)]
    return ids


def one_by_one(ids):
    """After each of ``ids`` the state and what has been written so far, ``bos`` first."""
    state = PIANO.grammar()
    for number, token in enumerate(ids, 1):
        state.advance(token)
        yield state, np.array([BOS, *ids[:number]])


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_what_followed_the_last_time_is_likelier(random):
    table, strikes = PIANO.vocabulary, []
    pull = MelodyRepetition(PIANO)
    assert pull(PIANO.grammar(), np.array([BOS])) is None
    for state, past in one_by_one(random_strikes(random, 60)):
        kind, value = table.token(int(past[-1]))
        strikes += [(state.seconds, value)] if kind == "note_on" else []
        wanted = np.zeros(PIANO.size)
        if (best := next_of_line(strikes, state.seconds)) is not None:
            wanted[table.id("note_on", best[0])] = -MELODY_GAIN * best[1]
        np.testing.assert_allclose(nats(pull, state, PIANO.size, past), wanted)


def test_what_is_remembered_is_what_would_be_found_again(monkeypatch):
    """Id by id, in a window that slides, against one that remembers nothing."""
    monkeypatch.setattr(melody_repetition, "MELODY_REACH", 300)
    ids = random_strikes(Random(1), 120)
    remembering, changed = MelodyRepetition(PIANO), 0
    for state, past in one_by_one(ids):
        fresh = nats(MelodyRepetition(PIANO), state, PIANO.size, past)
        np.testing.assert_array_equal(nats(remembering, state, PIANO.size, past), fresh)
        changed += bool(fresh.any())
        if len(past) % 60 == 0:  # as in a window that was cut
            cut = past[-100:]
            fresh = nats(MelodyRepetition(PIANO), state, PIANO.size, cut)
            np.testing.assert_array_equal(nats(remembering, state, PIANO.size, cut), fresh)
    assert changed > 100


def test_a_theme_that_the_window_of_the_piano_has_left_is_found():
    random = np.random.default_rng(0)
    theme = random.permutation(np.arange(36, 60))[:12].tolist()
    pitches = [*theme, *random.integers(70, 100, 1100).tolist(), *theme[:11]]
    notes = [(0.5 * n, 0.5 * n + 0.4, one, 64, 0, False, 0) for n, one in enumerate(pitches)]
    primer = encode_primer(PIANO, Score(notes=notes))
    assert len(primer.ids) > 4096 + 200  # as the piano's window is, and its theme before it
    pull = MelodyRepetition(PIANO)
    found = nats(pull, primer.state(PIANO), PIANO.size, primer.ids)
    assert found.argmin() == PIANO.vocabulary.id("note_on", theme[11])
