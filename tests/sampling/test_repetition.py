"""What repeats: melodies that go on as they did, and the subject of a piece, note for note."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.sampling.constants import (
    BREATH_QUANTILE,
    INTERVALS_COMPARED,
    MELODY_GAIN,
    PHRASE_SECONDS,
    REPRISE_SECONDS,
)
from musictx.sampling.constraints import GrammarRow
from musictx.sampling.primer import encode_primer
from musictx.sampling.repetition import MelodyRepetition, Reprise, subject_of
from musictx.tokens import events as ev
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS
from tests.pieces import of
from tests.sampling.engines import nats

PIANO = build("performance", tracks="piano")


def test_a_theme_that_the_window_of_the_piano_has_left_is_found():
    random = np.random.default_rng(0)
    theme = random.permutation(np.arange(36, 60))[:12].tolist()
    pitches = [*theme, *random.integers(70, 100, 1100).tolist(), *theme[:11]]
    notes = [(0.5 * n, 0.5 * n + 0.4, one) for n, one in enumerate(pitches)]
    notes += [(start + 0.01, end, one - 12) for start, end, one in notes[:20]]  # below the line
    primer = encode_primer(PIANO, of(*sorted(notes)))
    assert len(primer.ids) > 4096 + 200  # as the piano's window is, and its theme before it
    table, state = PIANO.vocabulary, PIANO.grammar(primer.ids)
    costs = nats(MelodyRepetition(PIANO.note_events), state, table.size, primer.ids)
    expected = np.zeros(table.size)
    expected[table.id("note_on", theme[11])] = -MELODY_GAIN * INTERVALS_COMPARED
    np.testing.assert_allclose(costs, expected)


def piece(notes):
    """Ids of notes (start, end, pitch)."""
    return PIANO.encode(of(*notes))


def a_piece(seed, count=40):
    """A random piece (start, end, pitch): onsets of one to three notes, and waits of 0.1 to 1 s."""
    rng, notes, now = np.random.default_rng(seed), [], 0.0
    for _ in range(count):
        for pitch in rng.choice(np.arange(40, 80), rng.integers(1, 4), replace=False).tolist():
            notes.append((now, now + round(rng.uniform(0.05, 2.0), 2), pitch))
        now = round(now + rng.uniform(0.1, 1.0), 2)
    return notes


def phrase_of(notes):
    """Oracle: the notes before the onset after the longest wait; the onsets, and the stop."""
    onsets = sorted({start for start, _, _ in notes})
    best = None
    for before, onset in pairwise(onsets):
        wait = round(onset - before, 2)
        if PHRASE_SECONDS[0] <= onset <= PHRASE_SECONDS[1] and (best is None or wait > best[0]):
            best = wait, onset
    return [note for note in notes if note[0] < best[1]], onsets, best[1]


def what_happens(ids, start):
    """(steps after ``start`` seconds, whether it is a strike, pitch) of strikes and releases."""
    events, _ = ev.from_ids(ids.astype(np.int64), PIANO.vocabulary)
    rows, first = events[["step", "action", "pitch"]].tolist(), round(start * 100)
    return {(step - first, what == ev.ON, pitch) for step, what, pitch in rows if step >= first}


def go_on(ids, reprise, seed):
    """``ids`` and those that the penalty asks for after them, drawn from all that neither it nor
    the grammar forbids."""
    rng, state, ids = np.random.default_rng(seed), PIANO.grammar(ids), ids.tolist()
    while (nats := reprise(GrammarRow(state), np.array([BOS, *ids]))) is not None:
        ids.append(int(rng.choice(np.flatnonzero(state.allowed() & (nats == 0)))))
        state.advance(ids[-1])
    return np.array(ids)


def returned(notes, away=REPRISE_SECONDS + 1.0, breath=1.5, head=None, more=(), held=91):
    """Primer, and the ids up to a strike of the ``head`` after a wait for it, ``away`` after the
    primer has ended; ``more`` pitches are struck with it."""
    phrase, _, _ = phrase_of(notes)
    head = max(p for start, _, p in phrase if start == 0) if head is None else head
    primer = piece(notes)
    reprise = Reprise(PIANO.vocabulary, PIANO.note_events, primer)
    state = PIANO.grammar(primer)
    reprise(GrammarRow(state), np.array([BOS, *primer]))
    end = state.seconds
    last = round(end + away - breath, 2)
    tail = [(round(end + 0.1, 2), last, 90), (last, last + 5, held)]
    tail += [(round(end + away, 2), end + away + 5, pitch) for pitch in (*more, head)]
    ids = piece([*notes, *tail]).tolist()
    place = max(n for n, token in enumerate(ids) if token == PIANO.vocabulary.id("note_on", head))
    return reprise, np.array(ids[: place + 1]), round(end + away, 2)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_subject_ends_before_the_longest_wait(seed):
    notes = a_piece(seed)
    phrase, onsets, stop = phrase_of(notes)
    subject = subject_of(piece(notes), PIANO.vocabulary, PIANO.note_events.step_seconds)
    struck = subject.events[subject.events["action"] == 1]
    assert sorted((s / 100, p) for s, p in struck[["step", "pitch"]].tolist()) == sorted(
        (start, pitch) for start, _, pitch in phrase
    )
    assert (subject.events["step"] < round(stop * 100)).all()
    assert subject.opening == {pitch for start, _, pitch in notes if start == 0}
    assert np.isclose(subject.breath / 100, np.quantile(np.diff(onsets), BREATH_QUANTILE))


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans())
def test_after_its_first_note_the_subject_returns_note_for_note(seed, same):
    notes = a_piece(seed)
    stop = phrase_of(notes)[2]
    held = min(pitch for start, _, pitch in notes if start == 0) if same else 91
    reprise, ids, start = returned(notes, held=held)
    again = what_happens(go_on(ids, reprise, seed), start)
    subject = {one for one in what_happens(piece(notes), 0.0) if one[0] < round(stop * 100)}
    assert subject <= again
    assert {pitch for _, _, pitch in again - subject} <= {held}
    assert not any(strikes for _, strikes, _ in again - subject)
    row = GrammarRow(PIANO.grammar(ids))
    assert reprise(row, np.array([BOS, *ids])) is None, "it was left just now"


def test_a_first_onset_that_is_spread_over_steps_is_struck_once():
    notes = [(0.0, 0.05, 50), (0.01, 0.05, 60), *(note for note in a_piece(1) if note[0] > 0)]
    phrase, _, stop = phrase_of(notes)
    reprise, ids, start = returned(notes, head=60)
    again = what_happens(go_on(ids, reprise, 0), start)
    struck = [pitch for step, strikes, pitch in again if strikes and step < round(stop * 100)]
    assert sorted(struck) == sorted(pitch for _, _, pitch in phrase)


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_it_returns_only_after_a_while_at_a_phrase_with_its_first_notes_alone(seed):
    notes = a_piece(seed)
    soon = REPRISE_SECONDS - 0.1
    for changed in ({"away": soon}, {"breath": 0.1}, {"head": 30}, {"more": (30,)}):
        reprise, ids, _ = returned(notes, **changed)
        assert reprise(GrammarRow(PIANO.grammar(ids)), np.array([BOS, *ids])) is None, changed


def test_a_return_is_broken_off_where_a_note_of_it_is_not_drawn():
    reprise, ids, _ = returned(a_piece(1))
    state, ids = PIANO.grammar(ids), ids.tolist()
    assert reprise(GrammarRow(state), np.array([BOS, *ids])) is not None
    for _ in range(3):  # longer than any wait in the subject
        ids.append(PIANO.vocabulary.id("time_shift", 100))
        state.advance(ids[-1])
    assert reprise(GrammarRow(state), np.array([BOS, *ids])) is None
