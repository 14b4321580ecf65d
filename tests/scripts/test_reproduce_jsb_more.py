"""Memories of the training split and of the piece: against loops, and as proper distributions."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.reproduce import jsb_more as more


def chorale(seed: int, steps: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    bars = draw.integers(60, 63, (steps // 2, 4))
    return np.concatenate([bars, bars])  # what was heard comes again


def test_what_followed_the_longest_known_context_in_any_key():
    training, piece = [chorale(s, 24) for s in range(3)], chorale(0, 24) + 5  # transposed
    found = more.in_training(more.followed(training), [piece])
    assert (found.kind >= 0).mean() > 0.8
    known = found.kind // 15 == more.ORDERS.index(16)  # the whole piece up to there is known
    assert known.sum() > 20
    assert (found.right[known] == 1).all()
    stranger = more.in_training(more.followed(training), [np.full((8, 4), 20)])
    assert stranger.right.max() <= 1


@pytest.mark.parametrize("own", [False, True])
def test_a_passage_that_comes_again_is_found_in_the_piece(own):
    piece = chorale(1, 48)
    found = more.in_piece([piece], own=own)
    again = found.kind.reshape(48, 4)[24 + 8 :]
    assert (again >= 0).all()
    assert found.right.reshape(48, 4)[24 + 8 :].all()
    assert (found.kind.reshape(48, 4)[:8] == -1).all()
    for line in (piece[:, 0].tolist(), [tuple(s) for s in piece.tolist()]):
        for at, (length, after) in enumerate(more.latest_match(line)):
            lengths = [
                next((n for n in range(j + 1) if n == j or line[at - 1 - n] != line[j - 1 - n]), 0)
                for j in range(1, at)
            ]
            assert length == max(lengths, default=0)
            if length:
                assert line[at - length : at] == line[after - length : after]


def test_weights_are_the_likeliest_and_a_mixture_sums_to_one():
    draw = np.random.default_rng(3)
    known, right = draw.uniform(0.2, 0.6, 500), (draw.random(500) < 0.7).astype(float)
    expert = more.Expert(np.zeros(500, int), right)
    weight = more.fitted(known, expert)[0]
    grid = np.linspace(0.001, 0.999, 999)
    losses = [-np.log((1 - w) * known + w * right).sum() for w in grid]
    assert abs(weight - grid[int(np.argmin(losses))]) < 0.01
    # Over all tokens of a vocabulary of which each is the right one once.
    odds = draw.dirichlet(np.ones(10))
    all_right = more.Expert(np.zeros(10, int), np.eye(10)[4])
    assert more.mixed(odds, all_right, {0: weight}).sum() == pytest.approx(1)
    assert (
        more.mixed(odds, more.Expert(np.full(10, -1), right[:10]), {0: weight}).tolist()
        == odds.tolist()
    )
