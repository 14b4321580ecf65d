"""What positions add to embeddings with any scheme: periodic vectors, concatenated sinusoids."""

from __future__ import annotations

import pytest
import torch

from musictx.attention.positions import SCHEMES, build
from musictx.attention.positions.absolute import sinusoids
from musictx.model.transformer import MusicTransformer


def model(seed=0, **position):
    torch.manual_seed(seed)
    found = MusicTransformer(
        9, layers=2, width=16, heads=2, feedforward=16, context=32, position=position
    )
    return found.eval()


@pytest.mark.parametrize("name", sorted(set(SCHEMES) - {"two_d"}))
def test_periods_and_sinusoids_reach_the_model_with_every_scheme(name):
    """Gradient to every row of every period that is met, and to the joining matrix; none elsewhere.

    (Once the attribute of the class hid the module of the object, and nothing was ever added.)
    """
    found = model(name=name, periods=[4, 3], concat_sinusoids=6)
    found(torch.randint(0, 9, (2, 3))).square().sum().backward()
    four, three = found.position.added.periods
    assert (four.weight.grad.abs().sum(1) > 0).tolist() == [True, True, True, False]
    assert (three.weight.grad.abs().sum(1) > 0).all()
    assert found.position.added.join.weight.grad.abs().min() >= 0
    assert found.position.added.join.weight.grad[:, 16:].abs().sum() > 0


@pytest.mark.parametrize("more", [{}, {"periods": [4, 3]}, {"concat_sinusoids": 6}])
@pytest.mark.parametrize("name", sorted(set(SCHEMES) - {"two_d"}))
def test_a_scheme_is_absolute_if_the_embeddings_change_with_the_place(name, more):
    """A shift by a multiple of all periods changes the embeddings of an absolute scheme only."""
    scheme = model(name=name, **more).position
    x = torch.randn(1, 5, 16)

    def embedded(begin):
        places = torch.arange(begin, begin + 5)[None]
        embeddings = scheme.embed(x, places)
        return embeddings if scheme.added is None else scheme.added(embeddings, places)

    assert scheme.absolute == (not torch.equal(embedded(0), embedded(12)))


def test_a_periodic_vector_is_added_by_position_in_the_piece():
    scheme = build({"name": "none", "periods": [4]}, heads=2, head_dim=4, width=8)
    x = torch.randn(1, 10, 8)
    found = scheme.added(x, torch.arange(5, 15)[None])
    table = scheme.added.periods[0].weight
    for t in range(10):
        torch.testing.assert_close(found[0, t], x[0, t] + table[(5 + t) % 4])


def test_sinusoids_begin_by_leaving_the_embedding_as_it_is():
    """And what they add is about as large as where they are added themselves."""
    torch.manual_seed(0)
    found = MusicTransformer(
        9, layers=1, width=64, heads=2, feedforward=8, context=32,
        position={"name": "none", "concat_sinusoids": 32},
    )  # fmt: skip
    x, places = torch.randn(1, 200, 64), torch.arange(200)
    join = found.position.added.join
    waves = sinusoids(places, 32) * 64**-0.5
    added = found.position.added(x, places) - x
    torch.testing.assert_close(added, waves[None] @ join.weight[:, 64:].T, atol=1e-5, rtol=1e-4)
    plain = sinusoids(places, 64) * 64**-0.5
    assert 0.7 < added.std() / plain.std() < 1.4
