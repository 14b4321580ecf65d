"""The grammar takes all that the tokenizer writes and lets nothing through that is no music."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests.strategies import scores
from tests.tokens.test_performance import TOKENIZERS

tokenizers = st.sampled_from(TOKENIZERS)
quick = settings(deadline=None, max_examples=60)
PIANO = PerformanceTokenizer()


def ids(tokenizer: PerformanceTokenizer, *words: str) -> list[int]:
    pairs = (word.split(":") for word in words)
    return [tokenizer.vocabulary.id(kind, int(value)) for kind, value in pairs]


def kinds(tokenizer: PerformanceTokenizer, mask: np.ndarray) -> set[str]:
    return {tokenizer.vocabulary.token(int(i))[0] for i in np.flatnonzero(mask)}


@quick
@given(tokenizers, st.one_of(scores(), scores(grid=None)))
def test_every_encoding_is_accepted_and_may_end(tokenizer, piece):
    encoded = tokenizer.encode(piece)
    state = tokenizer.grammar([CUT, *encoded])
    assert state.notes == len(tokenizer.decode(encoded))
    assert state.allowed()[EOS] == (len(encoded) > 0)
    steps = sum(v for k, v in map(tokenizer.vocabulary.token, encoded) if k == "time_shift")
    assert state.seconds == pytest.approx(steps * tokenizer.step_ms / 1000)


def accepts(state, token_id: int) -> bool:
    """Whether ``advance`` takes an id; the state stays."""
    try:
        state.copy().advance(token_id)
    except ValueError:
        return False
    return True


@quick
@given(tokenizers, st.integers(0, 2**31))
def test_whatever_is_drawn_within_the_grammar_decodes_note_for_note(tokenizer, seed):
    generator = np.random.default_rng(seed)
    state = tokenizer.grammar()
    drawn: list[int] = []
    for _ in range(80):
        unasked = state.copy()  # knows no mask yet
        allowed = state.allowed()
        for one in tokenizer.vocabulary.kinds:
            token_id = int(generator.integers(*tokenizer.vocabulary.range(one)))
            assert accepts(unasked, token_id) == allowed[token_id]
        for pitch in state.sounding.here():
            token_id = tokenizer.vocabulary.id("note_off", pitch)
            assert accepts(unasked, token_id) == allowed[token_id]
        assert allowed.shape == (tokenizer.size,)
        assert not allowed[[PAD, BOS, CUT]].any()
        by_kind = sorted(kinds(tokenizer, allowed))
        assert by_kind
        kind = by_kind[generator.integers(len(by_kind))]  # kinds alike, else notes drown releases
        first, end = tokenizer.vocabulary.range(kind)
        token_id = first + int(generator.choice(np.flatnonzero(allowed[first:end])))
        state.advance(token_id)
        if kind == "eos":
            assert kinds(tokenizer, state.allowed()) == {"eos"}
            break
        drawn.append(token_id)
    piece = tokenizer.decode(drawn)
    assert len(piece) == state.notes
    assert piece.notes["start"].max(initial=0) <= state.seconds + 1e-9
    tokenizer.grammar(drawn)
    if state.notes:
        tokenizer.grammar(tokenizer.encode(piece))
    if state.allowed().sum() == 1 and state.allowed()[EOS]:  # ended: nothing was left sounding
        closed = [tokenizer.vocabulary.token(i)[0] for i in drawn]
        assert closed.count("note_on") == closed.count("note_off")


def test_a_release_only_of_what_sounds_and_as_often_as_it_sounds():
    state = PIANO.grammar(ids(PIANO, "velocity:9", "note_on:60", "note_on:60", "time_shift:5"))
    off = PIANO.vocabulary.range("note_off")[0]
    for _ in range(2):
        assert np.flatnonzero(state.allowed()[off : off + 128]).tolist() == [60]
        assert not state.allowed()[EOS]
        state.advance(off + 60)
    assert not state.allowed()[off : off + 128].any()
    assert state.allowed()[EOS]
    with pytest.raises(ValueError, match="note_off:60 is not allowed after note_off"):
        state.advance(off + 60)


def test_no_note_of_zero_length_and_no_release_after_a_strike_in_one_step():
    written = ids(PIANO, "velocity:9", "note_on:60", "time_shift:5", "note_on:62")
    state = PIANO.grammar(written)
    assert "note_off" not in kinds(PIANO, state.allowed())
    state.advance(PIANO.vocabulary.id("time_shift", 1))
    assert "note_off" in kinds(PIANO, state.allowed())


def test_a_piece_begins_with_its_loudness_and_without_silence():
    assert kinds(PIANO, PIANO.grammar().allowed()) == {"velocity"}
    ensemble = PerformanceTokenizer(tracks="programs")
    assert kinds(ensemble, ensemble.grammar().allowed()) == {"program", "velocity"}


def test_nothing_is_said_twice():
    v = PIANO.vocabulary
    state = PIANO.grammar(ids(PIANO, "velocity:9", "note_on:60"))
    assert not state.allowed()[v.id("velocity", 9)]
    state.advance(v.id("velocity", 8))
    assert kinds(PIANO, state.allowed()) == {"note_on"}
    state.advance(v.id("note_on", 61))
    state.advance(v.id("time_shift", 100))
    assert "time_shift" in kinds(PIANO, state.allowed())
    state.advance(v.id("time_shift", 99))
    assert not {"time_shift", "eos"} & kinds(PIANO, state.allowed())


def test_a_program_is_followed_by_something_it_is_for():
    tokenizer = PerformanceTokenizer(tracks="programs")
    v = tokenizer.vocabulary
    opening = ids(tokenizer, "program:3", "velocity:9", "note_on:60", "time_shift:5", "program:4")
    state = tokenizer.grammar(opening)
    assert kinds(tokenizer, state.allowed()) == {"velocity", "note_on"}  # 60 sounds in program 3
    state.advance(v.id("velocity", 7))
    assert kinds(tokenizer, state.allowed()) == {"note_on"}
    state.advance(v.id("note_on", 50))
    state.advance(v.id("time_shift", 5))
    off = v.range("note_off")[0]
    assert np.flatnonzero(state.allowed()[off : off + 128]).tolist() == [50]
    state.advance(v.id("program", 3))
    assert np.flatnonzero(state.allowed()[off : off + 128]).tolist() == [60]
    assert not state.allowed()[v.id("program", 3)]


@pytest.mark.parametrize(
    ("prefix", "refused"),
    [
        (("note_off:40",), "token 0: note_off:40 is not allowed after start"),
        (("velocity:4", "velocity:3"), "token 1: velocity:3 is not allowed after velocity"),
        (
            ("velocity:4", "note_on:60", "note_off:41"),
            "token 2: note_off:41 is not allowed after note_on",
        ),
    ],
)
def test_a_prefix_that_cannot_be_is_refused_by_its_place(prefix, refused):
    with pytest.raises(ValueError, match=refused):
        PIANO.grammar(ids(PIANO, *prefix))


def test_copies_go_their_own_ways_and_masks_cannot_be_written():
    state = PIANO.grammar(ids(PIANO, "velocity:9", "note_on:60", "time_shift:5"))
    other = state.copy()
    other.advance(PIANO.vocabulary.id("note_off", 60))
    assert state.allowed()[PIANO.vocabulary.id("note_off", 60)]
    assert not other.allowed()[PIANO.vocabulary.id("note_off", 60)]
    with pytest.raises(ValueError, match="read-only"):
        state.allowed()[:] = True


@pytest.mark.parametrize("token_id", [-1, PIANO.size, PAD])
def test_ids_that_are_no_events_are_refused(token_id):
    with pytest.raises(ValueError, match="is not allowed after start"):
        PIANO.grammar().advance(token_id)
