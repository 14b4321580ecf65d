"""Laws of every network, with each position scheme, each feature, and groups of ids as one step:
outputs do not depend on later ids or other pieces, a cache does not change them, and a state dict
has all that was learned. Then errors of the cache."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from musictx.attention.positions import SCHEMES
from musictx.attention.positions.coordinates import token_coordinates
from musictx.attention.terms import Span
from musictx.errors import ConfigError
from musictx.model.cache import KVCache
from musictx.model.features import complete_features
from musictx.model.transformer import MusicTransformer
from musictx.tokens import build as tokens
from tests.chorale.features import test_grid
from tests.model.features import test_conditions, test_motif_memory, test_sounding
from tests.model.models import GRID, build, close, every_scheme, in_parts, random_ids, with_feature
from tests.songs import test_grouped
from tests.songs.features import test_lookahead

SOUNDING = {"recent": 3, "chords": 2, **test_sounding.EVENTS}
#: Feature -> (a function that makes a model, a function from a seed to a piece of 60 ids)
FEATURES: dict[str, tuple[Callable[[], MusicTransformer], Callable[[int], Tensor]]] = {
    "sounding": (
        lambda: with_feature(test_sounding.VOCAB, "sounding", **SOUNDING),
        lambda seed: test_sounding.music(1, 60, seed),
    ),
    "echoes": (
        lambda: with_feature(test_motif_memory.VOCAB, "echoes", **test_motif_memory.GIVEN),
        lambda seed: test_motif_memory.music(1, 90, seed)[:, 30:],  # the theme returns
    ),
    "intervals": (
        lambda: with_feature(test_grid.VOCAB, "intervals", **test_grid.GIVEN),
        lambda seed: test_sounding.music(1, 60, seed) % test_grid.VOCAB,
    ),
    "conditions": (
        lambda: with_feature(test_conditions.VOCAB, "conditions", **test_conditions.GIVEN),
        lambda seed: torch.tensor([test_conditions.window(seed)[:60]]),
    ),
    "grid": (test_grid.model, lambda seed: test_grid.music(1, seed)[:, :60]),
}
NETWORKS = [*sorted(SCHEMES), GRID, "added positions", *FEATURES, "groups"]
every_network = pytest.mark.parametrize("name", NETWORKS)
every_feature = pytest.mark.parametrize("name", FEATURES)


@functools.cache
def network(name: str) -> tuple[MusicTransformer, Tensor]:
    """A model, and two pieces (2, T) longer than its tables."""
    if name in FEATURES:
        make, piece = FEATURES[name]
        return make(), torch.cat([piece(5), piece(6)])
    if name == "groups":
        rows = [test_lookahead.window(seed)[:201] for seed in (0, 1)]
        return test_grouped.model(position={"name": "huang", "periods": [4]}), torch.tensor(rows)
    added = {"name": "huang", "periods": [4], "concat_sinusoids": 4}
    return build(added if name == "added positions" else name), random_ids(2, 40)


@every_network
@torch.no_grad()
def test_outputs_do_not_depend_on_later_ids(name):
    """Change all ids from a position within a group on."""
    model, ids = network(name)
    place = ids.shape[1] // 2 + 2
    changed = ids.clone()
    changed[:, place:] = ids[:, 1 : 1 + ids.shape[1] - place]
    for training in (True, False):  # no dropout: training differs in nothing else
        logits = []
        for each in (ids, changed):
            torch.manual_seed(0)
            logits.append(model.train(training)(each))
        assert torch.equal(logits[0][:, :place], logits[1][:, :place])
        assert not torch.equal(logits[0][:, place:], logits[1][:, place:])


@every_network
@torch.no_grad()
def test_packed_pieces_equal_each_piece_alone(name):
    """With padding between the pieces, up to a multiple of five ids, and after them."""
    model, ids = network(name)
    one, two = ids[:1, :33], ids[1:]
    row = torch.cat([one, ids.new_zeros(1, 2), two, ids.new_zeros(1, 4)], 1)
    counts = torch.tensor([33, 2, two.shape[1], 4])
    pieces = torch.repeat_interleave(torch.tensor([0, -1, 1, -1]), counts)[None]
    packed = model(row, piece_ids=pieces)
    close(packed[:, :33], model(one))
    close(packed[:, 35:-4], model(two))
    assert torch.isfinite(packed).all()
    assert not torch.allclose(packed, model(row), atol=1e-3), "packing makes a difference"


@every_network
@settings(max_examples=8)
@given(cuts=st.lists(st.integers(1, 39), max_size=12))
@example(cuts=list(range(61)))
def test_a_cache_gives_the_same_logits_for_any_split(name, cuts):
    """Also token by token, and for more tokens than the context and the tables."""
    model, ids = network(name)
    close(in_parts(model, ids, [cut for cut in cuts if cut < ids.shape[1]]), model(ids).detach())


@every_scheme
@torch.no_grad()
def test_a_cache_that_forks_and_slides_keeps_all_distances(scheme):
    """In a network of one layer, keys do not depend on other tokens, so sliding is the same as a
    shorter input."""
    model, ids = build(scheme, layers=1), random_ids(2, 40)
    ids[1, :16] = ids[0, :16]
    cache = model.new_cache(1, 12)
    model(ids[:1, :12], cache=cache)
    for t in range(12, 40):
        cache.slide(1)
        cache = cache.fork(2) if t == 16 else cache
        rows = ids[: cache.rows]
        got = model(rows[:, t : t + 1], cache=cache)
        alone = model(rows[:, t - 11 : t + 1], positions=Span(t - 11, 12))
        close(got[:, 0], alone[:, -1])


@every_network
@torch.no_grad()
def test_config_and_state_dict_give_bit_equal_logits(name):
    """A model of another seed is the same model after a strict load."""
    model, ids = network(name)
    torch.manual_seed(99)
    other = MusicTransformer(**model.config.plain()).eval().to(model.embedding.weight.dtype)
    assert not torch.equal(model(ids), other(ids))
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(model(ids), other(ids))
    assert other.config == model.config


@every_network
def test_every_parameter_gets_a_gradient(name):
    model, ids = network(name)
    named = dict(model.named_parameters())
    total = model(ids).logsumexp(-1).sum()
    for which, gradient in zip(named, torch.autograd.grad(total, [*named.values()])):
        assert gradient.any(), which


def initial(name: str, **more: Any) -> MusicTransformer:
    return MusicTransformer(**network(name)[0].config.plain() | more).double().eval()


@pytest.mark.parametrize("name", ["sounding", "conditions", "echoes"])
def test_a_feature_that_is_added_to_a_model_changes_nothing_at_first(name):
    model, plain, ids = initial(name), initial(name, features=[]), network(name)[1]
    assert model.config.feature(name) is not None
    state = model.state_dict()
    plain.load_state_dict({key: state[key] for key in plain.state_dict()})
    assert torch.equal(model(ids), plain(ids))


@every_feature
def test_scores_have_no_effect_at_first(name):
    model, ids = initial(name), network(name)[1]
    x, logits = torch.randn(2, 60, 16).double(), torch.randn(2, 60, model.config.vocab_size)
    for part in model.features:
        state = part.read(ids, ids[:, :0], torch.arange(60).expand(2, -1))
        assert part.score(logits, x, state).equal(logits)
        assert part.add_to_output(x, state).equal(x)


@pytest.mark.parametrize(
    ("tokenizer", "names"),
    [("notes", ["harmony", "ahead", "echoes", "repeats"]), ("performance", ["bars"])],
)
def test_errors_name_the_tokens_that_a_feature_or_scheme_needs(tokenizer, names):
    for name in names:
        with pytest.raises(ConfigError, match=f"^model.features={name}: expected tokenizer="):
            complete_features([{"name": name}], tokens.build(tokenizer))
    with pytest.raises(ConfigError, match=r"^position\.name=two_d: expected tokenizer="):
        token_coordinates(tokens.build("notes"))


def make_cache(capacity: int = 10) -> KVCache:
    return KVCache(layers=2, rows=2, heads=2, capacity=capacity, head_dim=3, coordinates=2)


def append(cache: KVCache, count: int) -> None:
    for layer in range(2):
        cache.append(layer, *torch.randn(2, 2, 2, count, 3))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: append(c, 3),  # more than fit
        lambda c: c.add_ids(torch.zeros(2, 1).long(), torch.zeros(2, 3, 1).long()),
        lambda c: c.slide(3),
        lambda c: c.fork(2),
    ],
)
def test_a_cache_refuses_misuse_and_does_not_change(wrong):
    cache = make_cache(capacity=4)
    append(cache, 2)
    with pytest.raises(ValueError, match=r"expected|fit a capacity of 4"):
        wrong(cache)
    assert cache.length == 2
    cache.slide(1)
    append(cache, 3)
    assert (cache.start, cache.length, cache.next_position) == (1, 4, 5)
