"""One token a voice and sixteenth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.chorale.grid import RANGES, Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.errors import ConfigError
from musictx.tokens import build
from musictx.tokens.vocab import BOS, EOS
from tests.chorale.test_grid import grids


@given(st.booleans(), st.data())
def test_grids_come_back(ties, data):
    """Without ties repeated notes are one."""
    grid = data.draw(grids(ties=ties))
    tokenizer = ChoraleTokenizer(ties=ties)
    ids = tokenizer.encode_grid(grid)
    assert len(ids) == 4 * len(grid)  # one a voice and step, nothing else
    back = tokenizer.decode_grid(ids)
    assert np.array_equal(back.pitches, grid.pitches)
    assert np.array_equal(back.tied, grid.tied)


@given(grids(), st.booleans(), st.integers(0, 3))
def test_pitches_of_half_written_pieces_are_those_of_the_whole(grid, ties, missing):
    tokenizer = ChoraleTokenizer(ties=ties)
    ids = tokenizer.encode_grid(grid)[None].repeat(2, axis=0)
    written = ids[:, : max(ids.shape[1] - missing, 0)]
    expected = np.where(np.arange(ids.shape[1]) < written.shape[1], grid.pitches.reshape(-1), -1)
    pieces = tokenizer.written(written)
    assert (pieces.step, pieces.voice) == divmod(written.shape[1], 4)
    assert pieces.table.shape == (2, -(-written.shape[1] // 4), 4)
    for row in pieces.table:
        assert row.reshape(-1).tolist() == expected[: row.size].tolist()


@given(grids(), st.booleans())
def test_every_encoding_is_grammatical_and_its_notes_are_counted(grid, ties):
    tokenizer = ChoraleTokenizer(ties=ties)
    ids = tokenizer.encode_grid(grid)
    state = tokenizer.grammar([BOS, *ids])
    assert state.notes == len(tokenizer.decode(ids))
    assert state.seconds == pytest.approx(0.15 * len(grid))
    assert state.allowed()[EOS]


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_whatever_the_grammar_allows_decodes_to_as_many_notes(seed, ties):
    tokenizer = ChoraleTokenizer(ties=ties)
    random = np.random.default_rng(seed)
    state, drawn = tokenizer.grammar(), []
    for _ in range(40):
        allowed = np.flatnonzero(state.allowed())
        allowed = allowed[allowed != EOS]
        drawn.append(int(random.choice(allowed)))
        state.advance(drawn[-1])
    assert state.notes == len(tokenizer.decode(drawn))


def test_the_end_comes_after_whole_steps_and_a_tie_after_a_note():
    tokenizer = ChoraleTokenizer(ties=True)
    silence, tie = tokenizer.vocabulary.id("silence"), tokenizer.vocabulary.id("tie")
    note = tokenizer.vocabulary.id("pitch", 60)
    state = tokenizer.grammar()
    assert not state.allowed()[EOS]
    assert not state.allowed()[tie]
    for token in (note, silence, note):
        state.advance(token)
        assert not state.allowed()[EOS]
    state.advance(note)
    assert state.allowed()[EOS]
    assert state.allowed()[tie]
    state.advance(tie)
    assert not state.allowed()[tie]  # the alto was silent
    with pytest.raises(ValueError, match="alto"):
        state.advance(tie)


def test_a_step_left_half_written_is_held():
    tokenizer = ChoraleTokenizer()
    grid = Grid.joined(np.array([[72, 67, 60, 48]]))
    ids = [*tokenizer.encode_grid(grid), tokenizer.vocabulary.id("pitch", 74)]
    assert tokenizer.decode_grid(ids).pitches.tolist() == [[72, 67, 60, 48], [74, 67, 60, 48]]


@given(grids(ties=False), st.integers(-12, 12))
def test_transposition_keeps_voices_in_their_ranges(grid, semitones):
    tokenizer = ChoraleTokenizer()
    low, high = np.array(RANGES).T
    inside = np.where(grid.pitches >= 0, low + (grid.pitches - 40) % (high - low + 1), -1)
    grid = Grid.joined(inside)
    ids = tokenizer.encode_grid(grid)
    moved = tokenizer.augment(ids, semitones=semitones)
    wanted = np.where(inside >= 0, inside + semitones, -1)
    fits = ((wanted < 0) | ((wanted >= low) & (wanted <= high))).all()
    assert (moved is not None) == fits
    if moved is not None:
        assert np.array_equal(tokenizer.decode_grid(moved).pitches, wanted)


def test_a_voice_already_outside_may_come_nearer():
    tokenizer = ChoraleTokenizer()
    ids = tokenizer.encode_grid(Grid.joined(np.array([[84, 67, 60, 48]])))
    assert tokenizer.augment(ids, semitones=1) is None
    assert tokenizer.augment(ids, semitones=-1) is not None
    assert np.array_equal(tokenizer.augment(ids, stretch=1.05), ids)


def test_it_is_a_tokenizer_that_can_be_built_again():
    tokenizer = ChoraleTokenizer(low=36, high=81, ties=True)
    again = build.build(**tokenizer.to_config())
    assert again.fingerprint == tokenizer.fingerprint
    assert again.fingerprint != build.build("chorale", low=36, high=81).fingerprint
    with pytest.raises(ConfigError, match="low"):
        ChoraleTokenizer(low=90, high=80)


def test_pitches_out_of_range_are_silence_and_counted():
    tokenizer = ChoraleTokenizer(low=50, high=81)
    score = ChoraleTokenizer().decode(
        ChoraleTokenizer().encode_grid(Grid.joined(np.array([[72, 67, 60, 48]] * 2)))
    )
    ids, lost = tokenizer.encode_with_report(score)
    assert lost["notes outside pitches 50..81 left out"] == 1
    assert tokenizer.decode_grid(ids).pitches.tolist() == [[72, 67, 60, -1]] * 2
