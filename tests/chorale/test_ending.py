"""Chorales end where they close and nowhere else, the sooner the longer they have lasted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from musictx.chorale import ending, voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.sampling.music import continue_each
from musictx.sampling.primer import NOTHING
from musictx.tokens.vocab import BOS, CUT, EOS
from tests.chorale.parts import chords
from tests.chorale.test_harmonise import small_model
from tests.chorale.test_rules import grids


def cost_of_end(tokenizer, grid, first=CUT):
    ids = tokenizer.encode_grid(grid)
    costs = ending.Closing(tokenizer)([tokenizer.grammar(ids)], np.array([[first, *ids]]))
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


def test_not_too_early_and_sooner_the_longer_it_lasts():
    tokenizer = ChoraleTokenizer()

    def cost(bars, first):  # of V I, half a bar each
        once = chords("D5 G4 B3 G3, C5 G4 E4 C3", 8)
        return cost_of_end(tokenizer, Grid.joined(np.tile(once, (bars, 1))), first)

    assert cost(5, BOS) == np.inf
    assert cost(5, CUT) == cost(6, BOS) == cost(8, BOS) == 0
    assert cost(12, BOS) == pytest.approx(-4 * ending.PULL)
    assert cost(30, CUT) == pytest.approx(-22 * ending.PULL)


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
        assert len(grid) >= ending.SHORTEST
        assert voice_leading.closes(grid.pitches)
