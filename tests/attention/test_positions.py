"""What each position scheme learns and adds, and positions added to any embeddings."""

import math
import re
import sys

import pytest
import torch

from musictx.attention import positions
from musictx.attention.positions import rotary
from musictx.attention.positions.absolute import sinusoids
from musictx.attention.positions.t5 import bucket
from musictx.attention.terms import Axis, Span, Terms
from musictx.errors import ConfigError
from tests.oracles.schemes import t5_bucket
from tests.untrained import network

SIZES = {"heads": 2, "head_dim": 4, "width": 8}


def build(name, *, layers=1, context=256, causal=True, **options):
    sizes = {"layers": layers, "context": context, "causal": causal}
    return positions.build({"name": name} | options, **SIZES, **sizes)


def test_sinusoids_are_those_of_the_paper():
    places = torch.tensor([0, 1, 17, 5000, 100_000])
    found = sinusoids(places, 6)
    for row, p in zip(found.tolist(), places.tolist()):
        for channel in range(3):
            angle = p / 10000 ** (2 * channel / 6)
            assert row[2 * channel] == pytest.approx(math.sin(angle), abs=1e-6)
            assert row[2 * channel + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoids_are_added_and_learned_positions_past_the_table_share_its_last_row():
    x, sums = torch.zeros(2, 3, 8), build("sinusoidal")
    want = sinusoids(torch.tensor([4, 5, 6]), 8) / math.sqrt(8)
    torch.testing.assert_close(sums.embed(x, Span(4, 3))[1], want)
    assert not sums.state_dict()
    found = build("learned", max_distance=5)
    assert torch.equal(found.embed(x, Span(2, 3))[0], found.table[2:])
    rows = found.embed(x, torch.tensor([[3, 4, 5], [100, 0, 4]]))
    assert torch.equal(rows, found.table[torch.tensor([[3, 4, 4], [4, 0, 4]])])


@pytest.mark.parametrize("causal", [True, False])
def test_t5_buckets_are_those_of_the_article_at_any_distance(causal):
    for distance in range(-200, 201):
        assert bucket(distance, 32, 128, causal=causal) == t5_bucket(-distance, 32, 128, causal)


def test_rotary_is_precise_at_long_positions_in_float32():
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 2, 64), torch.randn(1, 1, 2, 64)
    products = []
    for start in (0, 1_000_000):
        at = Span(start, 2)
        products.append(rotary.rotated(q, at) @ rotary.rotated(k, at).transpose(-1, -2))
    torch.testing.assert_close(products[0], products[1], rtol=1e-5, atol=1e-5)


#: Ids 0..4: nothing, three steps, one step, pitch 60, pitch 67.
TOKENS = {"kind": "tokens", "size": 5, "steps": [[1, 2, 3], [2, 3, 1]]}
TOKENS |= {"pitches": [[3, 4, 60], [4, 5, 67]]}


def test_two_d_computes_time_and_pitch_from_the_tokens():
    scheme = build("two_d", coordinates=TOKENS, max_time=6)
    ids = torch.tensor([[3, 1, 4, 2, 0, 3], [0, 0, 2, 2, 2, 4]])
    as_query, as_key = scheme.coordinates(ids, Span(0, 6), None)
    assert as_key[:, 0].tolist() == [[0, 3, 3, 4, 4, 4], [0, 0, 1, 2, 3, 3]]
    assert torch.equal(as_query[:, 0], as_key[:, 0])
    time, pitch = scheme.terms(0).axes[1:]
    rows = (as_query[0, 1, :, None] - as_key[0, 1]).clamp(pitch.low, pitch.high)
    assert (pitch.low, pitch.high) == (-8, 8), "seven semitones, and a row each for none"
    # tokens 0, 2, 5 have pitches 60, 67, 60
    assert rows[0].tolist() == [0, -8, -7, -8, -8, 0]
    assert rows[1].tolist() == [8, -8, 8, -8, -8, 8], "no pitch itself: which keys have one"
    assert (time.low, time.high, time.coordinate, pitch.coordinate) == (0, 5, 2, 3)
    deep = build("two_d", coordinates=TOKENS, layers=4, first_layers=2)
    assert [len(deep.terms(layer).axes) for layer in range(4)] == [3, 3, 1, 1]


def test_two_d_on_a_grid_computes_the_voice_from_the_position_in_the_piece():
    scheme = build("two_d", coordinates={"kind": "grid", "voices": 4})
    assert list(scheme.readers) == ["voice"], "no pitches, no axis of pitch"
    places = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 1, 2]])
    as_query, as_key = scheme.coordinates(torch.zeros(1, 9).long(), places, None)
    assert as_query[0].tolist() == [[0, 1, 2, 3, 0, 1, 0, 1, 2]]
    assert as_key[0].tolist() == [[-1, 0, 1, 2, 3, 0, -1, 0, 1]]
    _, voices = scheme.terms().axes
    assert (voices.low, voices.high, voices.coordinate) == (-3, 3, 2)
    assert voices.labels.tolist() == [0, 1, 2, 3], "what opens a piece, -1, is not measured"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("two_d", {}, "two_d"),
        ("two_d", {"coordinates": TOKENS | {"voices": 4}}, "coordinates.kind=tokens: "),
        ("two_d", {"coordinates": TOKENS | {"pitches": [[3, 9, 60]]}}, "coordinates.pitches"),
        ("huang", {"window": 3}, "position.window"),
        ("t5", {"max_distance": 10}, "position.max_distance=10"),
        ("no.such:Scheme", {}, "name=no.such:Scheme"),
        ("collections:OrderedDict", {}, "PositionScheme"),
    ],
)
def test_errors_name_the_invalid_option(name, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        build(name, **options)


class Nearest(positions.PositionScheme):
    def __init__(self, sizes, *, start):
        super().__init__(sizes)
        self.bias = torch.nn.Parameter(torch.full((sizes.heads, 2), start))

    def terms(self, layer=0, *, reach=0):
        return Terms(scale=self.scale, axes=(Axis(bias=self.bias, low=0, high=1),))


@pytest.mark.parametrize(
    "named", [{"name": f"{__name__}:Nearest"}, {"_target_": f"{__name__}.Nearest"}]
)
def test_a_class_of_the_users_own_is_a_scheme(named, monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Nearest.__module__])
    config = named | {"start": 3.0, "periods": [4]}
    scheme = positions.build(config, **SIZES)
    assert isinstance(scheme, Nearest)
    assert scheme.terms().axes[0].bias.tolist() == [[3.0, 3.0]] * 2
    assert len(scheme.added.periods) == 1
    for wrong, word in (({"stat": 3.0}, "stat"), ({"start": [1]}, "full")):
        with pytest.raises(ConfigError, match=rf"^position\.name=.*{word}"):
            positions.build(config | wrong, **SIZES)
    with pytest.raises(ConfigError, match=r"^position\.name=.*start"):
        positions.build(named, **SIZES)


def test_default_lengths_of_tables_are_those_of_the_papers():
    assert build("learned", context=17).table.shape == (17, 8)
    assert build("huang", context=30).terms().axes[0].table.shape == (2, 15, 4)
    assert build("shaw").terms().axes[0].table.shape == (1, 17, 4), "k = 16, shared by heads"


def test_periods_and_sinusoids_are_added_at_the_scale_of_sinusoids_alone():
    position = {"name": "none", "periods": [4], "concat_sinusoids": 32}
    added = network(9, width=64, position=position).position.added
    x, places = torch.randn(1, 200, 64), torch.arange(5, 205)
    torch.nn.init.normal_(added.periods[0].weight)
    waves = sinusoids(places, 32) * 64**-0.5 @ added.join.weight[:, 64:].T
    want = x[0] + waves + added.periods[0].weight[places % 4]
    torch.testing.assert_close(added(x, places[None])[0], want, atol=1e-4, rtol=1e-4)
    assert 0.7 < waves.std() / (sinusoids(places, 64) * 64**-0.5).std() < 1.4
