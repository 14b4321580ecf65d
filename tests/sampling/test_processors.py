"""Each rule against its plain definition: a sorted loop over a vocabulary of ten."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import SamplingConfig
from musictx.errors import ConfigError
from musictx.sampling import processors
from musictx.sampling.processors import KindTemperature, Temperature, TopP
from musictx.tokens.performance import PerformanceTokenizer

V = 10
PIANO = PerformanceTokenizer(low=60, high=65, velocity_bins=1)
NO_IDS = torch.zeros(1, 0, dtype=torch.int64)

# Few distinct values, so that ties are common, and forbidden ids; one id at least is allowed.
logit = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-20, 20, allow_nan=False), st.just(-math.inf)
)
rows = st.lists(logit, min_size=V, max_size=V).filter(lambda row: max(row) > -math.inf)


def probabilities(row):
    top = max(row)
    weights = [math.exp(x - top) for x in row]
    return [w / sum(weights) for w in weights]


def ranking(row):
    """Ids from the likeliest down, of equal ones the smaller id first."""
    return sorted(range(V), key=lambda i: (-row[i], i))


def apply(rule, row):
    given_row = torch.tensor([row], dtype=torch.float64)
    before = given_row.clone()
    out = rule(NO_IDS, given_row)
    assert torch.equal(given_row, before), "a rule changed its input in place"
    return out[0].tolist()


def check(row, out, keep):
    for i in range(V):
        assert out[i] == (row[i] if i in keep else -math.inf)
    assert any(x > -math.inf for x in out), "nothing is left to draw"


@settings(max_examples=150)
@given(rows, st.integers(1, 99).map(lambda n: n / 100 + 0.00123))
def test_top_p_keeps_the_smallest_set_that_reaches_p(row, p):
    share, keep, chances = 0.0, set(), probabilities(row)
    for i in ranking(row):
        if share >= p:
            break
        keep.add(i)
        share += chances[i]
    check(row, apply(TopP(p), row), keep)


@settings(max_examples=50)
@given(rows, st.floats(0.05, 5) | st.just(1e-300))
def test_temperature_divides_the_logits(row, value):
    expected = probabilities([x / value for x in row])
    assert probabilities(apply(Temperature(value), row)) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=50)
@given(rows)
def test_temperature_zero_leaves_the_first_of_the_likeliest(row):
    check(row, apply(Temperature(0.0), row), {ranking(row)[0]})


@given(row=rows, kind=st.sets(st.integers(0, V - 1), min_size=1), value=st.floats(0.2, 5.0))
def test_the_temperature_of_a_kind_divides_its_logits_and_leaves_its_share(row, kind, value):
    logits = torch.tensor([row], dtype=torch.float64)
    found = KindTemperature(np.array(sorted(kind)), value)(NO_IDS, logits)[0].softmax(-1).tolist()
    before = probabilities(row)
    share = sum(before[i] for i in kind)
    within = [row[i] / value if i in kind else -math.inf for i in range(V)]
    expected = list(before)
    if max(within) > -math.inf:
        for i, p in enumerate(probabilities(within)):
            if i in kind:
                expected[i] = share * p
    assert found == pytest.approx(expected, abs=1e-9)


def test_processors_are_those_asked_for_in_their_order():
    config = SamplingConfig(temperatures={"note_on": 0.5}, temperature=0.8, top_p=0.9)
    one, *others = processors.of_sampling(config, PIANO.vocabulary, 1.0)
    assert one.members.tolist() == [*range(*PIANO.vocabulary.range("note_on"))]
    assert others == [Temperature(0.8), TopP(0.9)]
    with pytest.raises(ConfigError, match=r"temperatures\.trill: .* expected .*note_on"):
        processors.of_sampling(SamplingConfig(temperatures={"trill": 1.0}), PIANO.vocabulary, 1.0)
