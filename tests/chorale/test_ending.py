"""Chorales end where they close and nowhere else, the sooner the longer they have lasted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from musictx.chorale import ending, voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.sampling.primer import NOTHING
from musictx.tokens.vocab import BOS, EOS
from tests.chorale.parts import chords
from tests.chorale.test_harmonise import small_model
from tests.chorale.test_rules import grids
from tests.sampling.pieces import continue_each


def cost_of_end(tokenizer, grid):
    ids = tokenizer.encode_grid(grid)
    costs = ending.Closing(tokenizer)([tokenizer.grammar(ids)], np.array([[BOS, *ids]]))
    others = np.delete(costs[0], EOS)
    assert not others.any()
    return costs[0, EOS]


@settings(max_examples=60, deadline=None)
@given(grid=grids())
def test_an_end_is_possible_where_the_piece_closes(grid):
    tokenizer = ChoraleTokenizer()
    if (grid.pitches[-1] >= 0).all():
        grid = Grid.joined(grid.pitches)
        assert (cost_of_end(tokenizer, grid) == np.inf) == (not voice_leading.closes(grid.pitches))


@pytest.mark.parametrize("bars", [2, 8, 12, 30])
def test_the_longer_it_lasts_the_sooner_it_ends(bars):
    once = chords("D5 G4 B3 G3, C5 G4 E4 C3", 8)  # V I, half a bar each
    cost = cost_of_end(ChoraleTokenizer(), Grid.joined(np.tile(once, (bars, 1))))
    assert cost == pytest.approx((8 - bars) * ending.PULL)


def test_what_a_model_ends_closes():
    tokenizer = ChoraleTokenizer(low=60, high=67)
    model = small_model(tokenizer)
    pieces = continue_each(
        model,
        tokenizer,
        [NOTHING] * 4,
        seconds=60.0,
        end="model",
        seeds=[(0, i) for i in range(4)],
        sampling=SamplingConfig(top_p=1.0, rules=0.0),
    )
    ended = [piece for piece in pieces if piece.ended == "model"]
    assert ended
    for piece in ended:
        grid = tokenizer.decode_grid(piece.ids)
        assert voice_leading.closes(grid.pitches)
