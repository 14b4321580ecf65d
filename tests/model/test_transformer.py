"""Laws of the model: causality, isolation, one answer with and without a cache, all saved."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from musictx.attention.terms import Span
from musictx.errors import ConfigError
from musictx.model.transformer import MusicTransformer
from tests.model import schemes
from tests.model.models import VOCAB, build, close, every_scheme, in_parts, random_ids


@every_scheme
def test_a_future_token_leaves_past_logits_identical(scheme):
    model = build(scheme)
    ids = random_ids(2, 30)
    changed = ids.clone()
    changed[:, 20:] = (changed[:, 20:] + 7) % VOCAB
    for training in (True, False):  # no dropout: training differs in nothing else
        model.train(training)
        assert torch.equal(model(ids)[:, :20], model(changed)[:, :20])
    assert not torch.equal(model(ids)[:, 20:], model(changed)[:, 20:])


@every_scheme
@pytest.mark.parametrize("attention", ["auto", "reference"])
@pytest.mark.parametrize("cached", [False, True], ids=["whole", "cached"])
def test_gradients_come_from_the_past_only(scheme, attention, cached):
    """Untied, with every token different: rows of the embedding's gradient are tokens."""
    model = build(scheme, tied=False, attention=attention)
    ids = torch.arange(30)[None]
    cache = model.new_cache(1, 30) if cached else None
    logits = model(ids, cache=cache)
    for i in (0, 7, 29):
        (gradient,) = torch.autograd.grad(
            logits[0, i].square().sum(), model.embedding.weight, retain_graph=True
        )
        assert (gradient[i + 1 :] == 0).all()
        first = 0
        if scheme == "huang_local":  # two layers, each from its block of 6 into the one before
            first = max(0, (i // 6 - 2) * 6)
        assert (gradient[:first] == 0).all()
        assert (gradient[first : i + 1].abs().sum(1) > 0).all()


@every_scheme
@pytest.mark.parametrize("attention", ["auto", "reference"])
def test_gradients_come_from_the_same_piece_only(scheme, attention):
    model = build(scheme, tied=False, attention=attention)
    ids = torch.arange(30)[None]
    pieces = torch.tensor([[0] * 9 + [1] * 15 + [-1] * 6])
    logits = model(ids, piece_ids=pieces)
    for i, first in ((5, 0), (9, 9), (20, 9), (23, 9)):
        (gradient,) = torch.autograd.grad(
            logits[0, i].square().sum(), model.embedding.weight, retain_graph=True
        )
        inside = torch.zeros(VOCAB, dtype=torch.bool)
        inside[first : i + 1] = True
        assert (gradient[~inside] == 0).all()
        assert (gradient[inside].abs().sum(1) > 0).all()


@every_scheme
def test_packed_pieces_equal_each_piece_alone(scheme):
    model = build(scheme)
    lengths = ((5, 11, 8), (13, 7, 4))  # the last run is padding
    ids = random_ids(2, 24)
    pieces = torch.stack(
        [torch.repeat_interleave(torch.tensor([0, 1, -1]), torch.tensor(row)) for row in lengths]
    )
    packed = model(ids, piece_ids=pieces)
    for b, row in enumerate(lengths):
        for first, count in ((0, row[0]), (row[0], row[1])):
            alone = model(ids[b : b + 1, first : first + count])
            close(packed[b : b + 1, first : first + count], alone)
    assert torch.isfinite(packed).all()
    assert not torch.allclose(packed, model(ids), atol=1e-3), "packing makes a difference"


@every_scheme
def test_positions_given_are_the_positions_used(scheme):
    model = build(scheme)
    ids = random_ids(2, 20)
    close(model(ids, positions=torch.arange(20)), model(ids))
    close(model(ids, positions=torch.arange(20).expand(2, 20)), model(ids))
    shifted = model(ids, positions=Span(96, 20))  # blocks of huang_local begin at 96 too
    if scheme in ("sinusoidal", "learned"):
        assert not torch.allclose(shifted, model(ids), atol=1e-3)
    elif scheme != schemes.GRID:  # there place 0 is what opens a piece
        close(shifted, model(ids))  # only differences matter


def test_relative_positions_make_a_difference_and_none_has_none():
    """Without positions a permutation of the past changes nothing at the last token."""
    ids = random_ids(1, 12)
    mixed = ids.clone()
    mixed[0, :11] = ids[0, torch.randperm(11, generator=torch.Generator().manual_seed(0))]
    model = build("none", layers=1)
    close(model(ids)[:, -1], model(mixed)[:, -1])
    for scheme in ("huang", "sinusoidal"):
        model = build(scheme, layers=1)
        assert not torch.allclose(model(ids)[:, -1], model(mixed)[:, -1], atol=1e-3)


def test_max_distance_defaults_to_half_the_context():
    model = build(context=30)
    assert model.position.terms().axes[0].table.shape == (2, 15, 8)
    assert build(context=30, shared=True).position.terms().axes[0].table.shape == (1, 15, 8)
    assert model.config.position.options["max_distance"] == 15


@every_scheme
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_every_parameter_receives_gradient_and_moves_in_a_step(scheme, tied, shared):
    model = build(scheme, tied=tied, shared=shared, dropout=0.1).train()
    ids = random_ids(2, 30)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.abs().max() > 0, name
    optimizer.step()
    assert before.keys() <= model.state_dict().keys()
    for name, p in model.state_dict().items():
        assert not torch.equal(p, before[name]), name
    if scheme == "huang":
        assert {"position.tables.0", "position.tables.1"} <= model.state_dict().keys()


@every_scheme
@pytest.mark.parametrize("tied", [False, True])
def test_config_and_state_dict_give_bit_equal_logits(scheme, tied):
    """Nothing that matters lives outside: another seed, then a strict load, is the same model."""
    model = build(scheme, tied=tied)
    torch.manual_seed(99)
    other = MusicTransformer(**model.config.plain()).eval()
    ids = random_ids(2, 30)
    assert not torch.equal(model(ids), other(ids))
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(model(ids), other(ids))
    assert other.config == model.config


def test_one_batch_is_overfitted():
    torch.manual_seed(0)
    model = MusicTransformer(
        VOCAB, layers=2, width=32, heads=2, feedforward=64, context=16, position={"name": "huang"}
    )
    ids = random_ids(2, 17)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(80):
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


@every_scheme
@pytest.mark.parametrize("width", [32, 256])
def test_the_first_loss_is_near_that_of_a_uniform_guess(scheme, width):
    torch.manual_seed(0)
    model = MusicTransformer(
        300,
        layers=4,
        width=width,
        heads=4,
        feedforward=64,
        context=64,
        position=schemes.position(scheme, 300),
    )
    ids = torch.randint(300, (4, 65))
    with torch.no_grad():
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(300), abs=0.4)


@every_scheme
def test_logits_are_float32_under_autocast_and_in_half_weights(scheme):
    model = build(scheme)
    ids = random_ids(2, 30)
    exact = model(ids)
    with torch.autocast("cpu", torch.bfloat16):
        cast = model(ids)
        cached = in_parts(model, ids, [11, 12, 13])
    low = build(scheme).bfloat16()
    for logits in (cast, cached, low(ids), in_parts(low, ids, [11, 12, 13])):
        assert logits.dtype == torch.float32
        # bfloat16 has 8 bits; errors add up over two layers
        assert (logits - exact).std() < 0.05 * exact.std()


def test_dropout_acts_in_training_only_and_follows_the_seed():
    model = build(dropout=0.3)
    ids = random_ids(2, 30)
    assert torch.equal(model(ids), model(ids))
    model.train()
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(model(ids))
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


@every_scheme
def test_dropout_is_on_attention_weights_too(scheme):
    model = build(scheme, dropout=0.3)
    ids = random_ids(2, 30)
    still = model(ids)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    assert not torch.allclose(model(ids), still, atol=1e-3)


def test_heads_and_implementations_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="attention=flash, expected one of auto, reference"):
        build(attention="flash")
    with pytest.raises(ConfigError, match=r"model.attention=skew: it knows no value_table; positi"):
        build("shaw", attention="skew")
    with pytest.raises(
        ConfigError, match=r"model.attention=chunked: it knows one axis of distance"
    ):
        build("two_d", attention="chunked")
    with pytest.raises(ValueError, match="heads=3, expected a divisor of width=16"):
        build(heads=3)


def test_hidden_states_are_what_the_logits_are_made_of():
    model = build(tied=False)
    ids = random_ids(2, 12)
    hidden = model.hidden(ids)
    assert hidden.shape == (2, 12, 16)
    close(model.output(hidden), model(ids))
