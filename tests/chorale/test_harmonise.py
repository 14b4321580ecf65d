"""Given voices stay, and the others are composed."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch

from musictx.chorale import voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.harmonise import compose_voices
from musictx.chorale.particles import run_filter
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.chorale.tune import melody_of
from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.tokens.vocab import BOS, EOS
from tests.chorale.parts import small_model, voice_of

FREE = SamplingConfig(top_p=1.0)
compose = partial(compose_voices, particles=4, sampling=FREE, seed=(0,))


def faults_of(grid):
    """Count the faults of a grid; an end that does not close is one more."""
    faults = voice_leading.faults(grid)
    return len(faults) + (not voice_leading.ends_with_cadence(grid.pitches))


def melody(pitches):
    table = np.full((len(pitches), 4), -1)
    table[:, 0] = pitches
    return melody_of(Grid.from_pitches(table))[0]


def log_likelihood(model, pieces, changed=lambda log_p: log_p):
    """Return (n,) ln p of whole pieces with ``eos``, of log-probabilities after ``changed``."""
    rows = torch.tensor([[BOS, *piece, EOS] for piece in pieces])
    with torch.no_grad():
        log_p = changed(model(rows[:, :-1]).double().log_softmax(-1))
    return log_p.gather(-1, rows[:, 1:, None]).sum((1, 2)).numpy()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("voices", [(0,), (3,), (0, 3)])
def test_the_given_voices_stay(ties, voices):
    tokenizer = ChoraleTokenizer(low=55, high=70, ties=ties)
    joined = Grid.from_pitches(np.random.default_rng(1).integers(60, 62, (8, 4)))
    struck = np.arange(8)[:, None] == 3  # repeated notes, for which tokens without ties have no id
    given = Grid(joined.pitches, joined.tied & ~struck)
    grid = compose(small_model(tokenizer), tokenizer, given, fixed=voice_of(given, *voices)).grid
    assert np.array_equal(grid.pitches[:, voices], given.pitches[:, voices])
    assert np.array_equal(grid.tied[:, voices], given.tied[:, voices])


@pytest.mark.parametrize("intervals", [False, True])
def test_the_nats_are_those_of_the_whole_piece(intervals):
    """The sum over draws, resampling and the cache is the model's likelihood of the piece."""
    tokenizer = ChoraleTokenizer(low=55, high=70)
    model = small_model(tokenizer, intervals=intervals)
    made = compose(model, tokenizer, melody([60, 62, 64, 65, 67]), particles=7)
    (nats,) = -log_likelihood(model, [made.ids.tolist()]) / len(made.ids)
    assert made.nats_per_token == pytest.approx(nats, abs=1e-5)


@pytest.mark.parametrize(("strength", "same", "value"), [(0.0, False, 0.5), (1.2, True, 1.0)])
def test_particles_have_the_product_of_model_and_rules(strength, same, value, monkeypatch):
    """Oracle: p x exp(-strength x faults), pitches at the usual temperature, over all pieces of two
    steps. Where two voices stay the ``same``, an end that closes counts from the first one on."""
    cool = partial(SamplingConfig, temperatures={"note_on": value})
    monkeypatch.setattr("musictx.chorale.particles.SamplingConfig", cool)
    monkeypatch.setattr("musictx.chorale.particles.RESAMPLE_BELOW", 2.0)  # after each note
    tokenizer = ChoraleTokenizer(low=60, high=63)
    model = small_model(tokenizer, seed=5)
    given = Grid.from_pitches(np.array([[63, 63 if same else 61, -1, -1], [63, 63, -1, -1]]))
    first = tokenizer.vocabulary.id("silence")
    forced = tokenizer.encode_grid(given).reshape(2, 4)[:, :2].astype(int)
    lower = itertools.product(range(first, tokenizer.vocabulary.size), repeat=4)
    pieces = np.array([[*forced[0], *ids[:2], *forced[1], *ids[2:]] for ids in lower])

    def drawn_alone(log_p):
        """Normalise free notes over silence and pitches; the end has probability 1."""
        free = torch.arange(9)[:, None] % 4 >= 2
        log_p = log_p - log_p[..., first:].logsumexp(-1, keepdim=True) * free
        pitches = log_p[..., first + 1 :]
        cooler = (pitches / value).log_softmax(-1) + pitches.logsumexp(-1, keepdim=True)
        log_p[..., first + 1 :] = torch.where(free, cooler, pitches)
        log_p[:, -1] = 0.0
        return log_p

    joint = log_likelihood(model, pieces.tolist(), drawn_alone)
    faults = [faults_of(tokenizer.decode_grid(piece)) for piece in pieces]
    assert len(set(faults)) > 3
    target = np.exp(joint - strength * np.array(faults))
    target /= target.sum()
    drawn_shares = np.zeros(len(pieces))
    place = {tuple(piece): i for i, piece in enumerate(pieces.tolist())}
    sampling = SamplingConfig(top_p=1.0, rules=strength)
    for seed in range(4):
        options = {"fixed": voice_of(given, 0, 1), "particles": 200, "sampling": sampling}
        drawn = run_filter(model, tokenizer, given, seed=(seed,), **options)
        shares = np.exp(drawn.weights - drawn.weights.max())
        for piece, share in zip(drawn.ids.tolist(), shares / shares.sum() / 4):
            drawn_shares[place[tuple(piece)]] += share
    for values in (pieces[:, 3], pieces[:, 6], pieces[:, 7], np.array(faults)):  # marginals
        assert np.abs(np.bincount(values, target - drawn_shares)).sum() / 2 < 0.06


@pytest.mark.parametrize(("position", "most"), [("learned", 23), ("two_d", 95)])
def test_a_melody_that_is_too_long_is_refused(position, most):
    tokenizer = ChoraleTokenizer()
    with pytest.raises(UserError, match=f"{most + 1} sixteenths, expected 1 to {most}"):
        compose(small_model(tokenizer, position=position), tokenizer, melody([60] * (most + 1)))


def test_fixed_notes_stay_and_the_beginning_may_be_read_at_once():
    """Bars in the middle are composed; reading the beginning at once gives the same notes."""
    tokenizer = ChoraleTokenizer(low=55, high=70)
    model = small_model(tokenizer)
    given = Grid.from_pitches(np.random.default_rng(2).integers(58, 66, (12, 4)))
    fixed = np.ones((12, 4), bool)
    fixed[4:8, 1:3] = False
    options = {"fixed": fixed, "particles": 5, "sampling": FREE, "seed": (3,)}
    slow, quick = (run_filter(model, tokenizer, given, begin=b, **options) for b in (0, 4))
    assert np.array_equal(slow.ids, quick.ids)
    expected = np.tile(tokenizer.encode_grid(given), (5, 1))
    assert np.array_equal(*(a.reshape(5, 12, 4)[:, fixed] for a in (slow.ids, expected)))
    np.testing.assert_allclose(np.ptp(slow.log_probability - quick.log_probability), 0, atol=1e-4)


def test_further_tries_reduce_faults(monkeypatch):
    tokenizer = ChoraleTokenizer(low=48, high=72)
    model = small_model(tokenizer)
    tune = melody(np.repeat([60, 62, 64, 65, 67, 65], 3).tolist())
    module = "musictx.chorale.harmonise."

    def worth(tries, seed):
        monkeypatch.setattr(module + "MAX_TRIES", tries)
        made = compose(model, tokenizer, tune, seed=(seed,))
        return -made.nats_per_token * len(made.ids) - 3.0 * faults_of(made.grid)

    before, after = ([worth(tries, seed) for seed in range(3)] for tries in (0, 6))
    assert all(a >= b - 1e-4 for a, b in zip(after, before))
    assert sum(after) > sum(before) + 3
