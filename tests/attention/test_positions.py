"""The schemes: what each one learns, and what it adds."""

from __future__ import annotations

import math

import pytest
import torch

from musictx.attention import positions, reference
from musictx.attention.positions.absolute import sinusoids
from musictx.attention.terms import Span
from musictx.config import POSITIONS, PositionConfig
from musictx.errors import ConfigError

SIZES = {"heads": 2, "head_dim": 4, "width": 8}


def test_the_names_are_those_of_the_configuration():
    assert set(positions.SCHEMES) == set(POSITIONS)
    assert PositionConfig().name in positions.SCHEMES


@pytest.mark.parametrize("shared", [False, True])
def test_huang_learns_a_table_for_each_layer_and_head_or_one_for_all_heads(shared):
    scheme = positions.build("huang", **SIZES, max_distance=5, shared=shared, layers=3)
    shapes = {name: tuple(p.shape) for name, p in scheme.named_parameters()}
    heads = 1 if shared else 2
    assert shapes == {f"tables.{layer}": (heads, 5, 4) for layer in range(3)}
    tables = [scheme.terms(layer).axes[0].table for layer in range(3)]
    assert not torch.equal(tables[0], tables[1])
    assert scheme.terms().scale == 0.5


def test_huang_tables_begin_with_both_signs():
    table = positions.build("huang", **SIZES, max_distance=500).terms().axes[0].table.detach()
    assert abs(float(table.mean())) < 0.05
    assert float(table.std()) == pytest.approx(0.5, rel=0.05)


def test_huang_row_d_is_distance_d_and_far_distances_share_the_last():
    """A table that says +9 at one distance makes a query look exactly there."""
    scheme = positions.build("huang", **SIZES, max_distance=3)
    q = torch.ones(1, 2, 6, 4)
    k = torch.zeros(1, 2, 6, 4)
    for distance, seen in ((0, [5]), (1, [4]), (2, [0, 1, 2, 3])):
        with torch.no_grad():
            scheme.tables[0].zero_()
            scheme.tables[0][:, distance] = 9.0
        weights = reference.attention_weights(
            q, k, scheme.terms(), query_positions=Span(0, 6), key_positions=Span(0, 6)
        )
        last = weights[0, 0, 5].detach()
        assert last[seen].sum() > 0.99
        assert last[seen].max() == pytest.approx(float(last[seen].min()))


def test_sinusoids_are_those_of_the_paper():
    places = torch.tensor([0, 1, 17, 5000, 100_000])
    found = sinusoids(places, 6)
    for row, p in zip(found.tolist(), places.tolist()):
        for channel in range(3):
            angle = p / 10000 ** (2 * channel / 6)
            assert row[2 * channel] == pytest.approx(math.sin(angle), abs=1e-6)
            assert row[2 * channel + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoidal_adds_by_position_and_learns_nothing():
    scheme = positions.build("sinusoidal", **SIZES, max_distance=1)
    x = torch.zeros(2, 3, 8)
    by_span = scheme.embed(x, Span(4, 3))
    torch.testing.assert_close(by_span[0], sinusoids(torch.tensor([4, 5, 6]), 8) / math.sqrt(8))
    by_row = scheme.embed(x, torch.tensor([[4, 5, 6], [0, 1, 0]]))
    assert torch.equal(by_row[0], by_span[0])
    assert torch.equal(by_row[1, 0], by_row[1, 2])
    assert not scheme.state_dict()
    assert not scheme.terms().relative


def test_none_says_nothing():
    scheme = positions.build("none", **SIZES, max_distance=1)
    x = torch.randn(2, 3, 8)
    assert scheme.embed(x, Span(0, 3)) is x
    assert scheme.rotate(x, x, Span(0, 3), Span(0, 3)) == (x, x)
    assert not scheme.terms().relative


def test_wrong_names_and_sizes_are_refused():
    with pytest.raises(ConfigError, match=r"position\.name=rope: expected one of huang"):
        positions.build("rope", **SIZES, max_distance=1)
    with pytest.raises(ConfigError, match=r"position\.max_distance=0"):
        positions.build("huang", **SIZES, max_distance=0)
