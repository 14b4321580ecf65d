"""Four voices on a grid of sixteenths, as Score, Grid and ids of one token a voice and step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.chorale import grid as four
from musictx.chorale.grid import RANGES, Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.errors import UserError
from musictx.notes import Score
from musictx.tokens.vocab import BOS, EOS
from tests.chorale.parts import grids
from tests.pieces import of


@given(grids())
def test_a_grid_is_written_as_its_notes(grid):
    """Against a plain loop."""
    expected = []
    for (voice, t), pitch in np.ndenumerate(grid.pitches.T):
        if pitch >= 0 and grid.tied[t, voice]:
            expected[-1][1] = t + 1
        elif pitch >= 0:
            expected.append([t, t + 1, pitch, voice])
    notes = four.write(grid, bpm=60).notes  # a step is a quarter of a second
    times = (np.round(notes[name] * 4).tolist() for name in ("start", "end"))
    written = zip(*times, notes["pitch"].tolist(), notes["track"].tolist())
    assert sorted(map(list, written)) == sorted(expected)


@given(grids(), st.sampled_from([50.0, 97.3, 100.0, 144.0]))
def test_four_tracks_are_read_as_their_voices(grid, bpm):
    """Where no voices cross, all notes are read back, but not silence at the end."""
    pitches = np.where(grid.pitches >= 0, grid.pitches % 12 + np.array([84, 64, 48, 30]), -1)
    grid = Grid(pitches, grid.tied)
    read, lost = four.read(four.write(grid, bpm=bpm))
    assert not lost
    if not (pitches >= 0).any(axis=0).all():
        return  # fewer than four tracks are divided by pitch
    assert np.array_equal(read.pitches, pitches[: len(read)])
    assert np.array_equal(read.tied, grid.tied[: len(read)])
    assert (pitches[len(read) :] < 0).all()


def test_one_track_is_divided_by_pitch():
    rows = [(0, 8, 72), (0, 4, 67), (0, 8, 60), (0, 8, 48), (4, 8, 65), (8, 12, 71), (8, 12, 47)]
    grid, lost = four.read(of(*((start * 0.15, end * 0.15, pitch) for start, end, pitch in rows)))
    assert not lost
    assert grid.pitches[0].tolist() == [72, 67, 60, 48]
    assert grid.pitches[4].tolist() == [72, 65, 60, 48]
    assert grid.tied[4].tolist() == [True, False, True, True]
    assert grid.pitches[8].tolist() == [71, -1, -1, 47]


def test_five_at_once_are_refused_with_the_place():
    five = of((0.0, 0.6), *((1.2, 1.8, pitch) for pitch in (50, 55, 60, 64, 67)))
    with pytest.raises(UserError, match="5 notes sound at once at quarter note 3"):
        four.read(five)
    with pytest.raises(UserError, match="no pitched notes"):
        four.read(Score())


@given(st.booleans(), st.data())
def test_grids_are_decoded_from_their_ids(ties, data):
    """Without ties, equal notes in succession are one note."""
    grid = data.draw(grids(ties=ties))
    tokenizer = ChoraleTokenizer(ties=ties)
    ids = tokenizer.encode_grid(grid)
    assert len(ids) == 4 * len(grid)  # one a voice and step, nothing else
    back = tokenizer.decode_grid(ids)
    assert np.array_equal(back.pitches, grid.pitches)
    assert np.array_equal(back.tied, grid.tied)
    assert tokenizer.grammar([BOS, *ids]).allowed()[EOS]


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_ids_that_the_grammar_allows_decode_to_as_many_notes(seed, ties):
    """The end comes after whole steps, a tie after a note of its voice."""
    tokenizer = ChoraleTokenizer(ties=ties)
    table = tokenizer.vocabulary
    silence, tie = table.id("silence"), table.id("tie") if ties else -1
    random = np.random.default_rng(seed)
    state, drawn = tokenizer.grammar(), []
    for n in range(40):
        allowed = state.allowed()
        assert allowed[EOS] == (n > 0 and n % 4 == 0)
        assert not ties or allowed[tie] == (n >= 4 and drawn[n - 4] != silence)
        notes = np.flatnonzero(allowed[tie + 1 :]) + tie + 1 if ties else np.flatnonzero(allowed)
        choices = [int(random.choice(notes[notes != EOS])), silence]
        drawn.append(random.choice([*choices, tie] if ties and allowed[tie] else choices))
        state.advance(drawn[-1])
    assert state.notes == len(tokenizer.decode(drawn))
    assert state.seconds == pytest.approx(0.15 * 10)


@given(grids(ties=False), st.integers(-12, 12))
def test_transposition_keeps_voices_in_their_ranges(grid, semitones):
    """A voice outside of its range may only come nearer to it."""
    tokenizer = ChoraleTokenizer()
    moved = tokenizer.augment(tokenizer.encode_grid(grid), semitones=semitones)
    wanted = np.where(grid.pitches >= 0, grid.pitches + semitones, -1)
    fits = ((wanted < 0) | ((wanted >= tokenizer.low) & (wanted <= tokenizer.high))).all()
    for was, (low, high) in zip(grid.pitches.T, RANGES):
        notes = was[was >= 0]
        fits &= not semitones > 0 or notes.max() + semitones <= max(high, notes.max())
        fits &= not semitones < 0 or notes.min() + semitones >= min(low, notes.min())
    assert (moved is not None) == fits
    if moved is not None:
        assert np.array_equal(tokenizer.decode_grid(moved).pitches, wanted)
