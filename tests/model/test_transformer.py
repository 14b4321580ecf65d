"""Laws of the model: causality, isolation, one answer with and without a cache, all saved."""

from __future__ import annotations

import contextlib
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from musictx.attention import native
from musictx.attention.api import IMPLEMENTATIONS
from musictx.attention.positions import SCHEMES
from musictx.attention.terms import Span
from musictx.errors import ConfigError, UserError
from musictx.model.transformer import MusicTransformer
from tests.model import schemes

VOCAB = 40
every_scheme = pytest.mark.parametrize("scheme", [*sorted(SCHEMES), schemes.GRID])


def build(scheme: str = "huang", seed: int = 0, shared: bool = False, **more) -> MusicTransformer:
    torch.manual_seed(seed)
    position = schemes.position(scheme, VOCAB, shared=shared)
    sizes = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "context": 24}
    model = MusicTransformer(VOCAB, position=position, **(sizes | more))
    with torch.no_grad():  # logits that depend on everything, not nearly equal ones as at the start
        for p in model.parameters():
            p.mul_(2.5) if p.dim() > 1 else p.add_(0.1 * torch.randn_like(p))
    return model.eval()


def random_ids(rows: int, count: int, seed: int = 1) -> Tensor:
    return torch.randint(VOCAB, (rows, count), generator=torch.Generator().manual_seed(seed))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5)


# ---- causality and isolation


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


# ---- the cache


def in_parts(model: MusicTransformer, ids: Tensor, cuts: list[int]) -> Tensor:
    """Logits with a cache, one forward for each part between ``cuts``."""
    cache = model.new_cache(ids.shape[0], ids.shape[1])
    edges = [0, *sorted(set(cuts)), ids.shape[1]]
    with torch.no_grad():
        parts = [model(ids[:, a:b], cache=cache) for a, b in pairwise(edges) if b > a]
    return torch.cat(parts, dim=1)


@every_scheme
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 39), max_size=12))
def test_cached_decoding_equals_the_full_forward_for_any_split(scheme, cuts):
    """40 tokens: longer than the context (24) and the table (12)."""
    model = build(scheme)
    ids = random_ids(2, 40)
    close(in_parts(model, ids, cuts), model(ids).detach())


@every_scheme
@pytest.mark.parametrize("attention", ["auto", "reference"])
def test_token_by_token_equals_the_full_forward(scheme, attention):
    model = build(scheme, attention=attention)
    ids = random_ids(1, 30)
    close(in_parts(model, ids, list(range(30))), model(ids).detach())


@every_scheme
@torch.no_grad()
def test_forked_rows_equal_separate_runs(scheme):
    model = build(scheme)
    prompt, rest = random_ids(1, 10), random_ids(3, 6, seed=2)
    cache = model.new_cache(1, 16)
    model(prompt, cache=cache)
    fork = cache.fork(3)
    together = torch.cat([model(rest[:, i : i + 1], cache=fork) for i in range(6)], dim=1)
    for row in range(3):
        whole = model(torch.cat([prompt, rest[row : row + 1]], dim=1))
        close(together[row : row + 1], whole[:, 10:])


@every_scheme
@torch.no_grad()
def test_slide_drops_the_oldest_tokens_and_keeps_all_distances(scheme):
    """In one layer keys know nothing of other tokens, so sliding is exactly a shorter input."""
    model = build(scheme, layers=1)
    ids = random_ids(2, 40)
    cache = model.new_cache(2, 12)
    model(ids[:, :12], cache=cache)
    for t in range(12, 40):
        cache.slide(1)
        got = model(ids[:, t : t + 1], cache=cache)
        alone = model(ids[:, t - 11 : t + 1], positions=Span(t - 11, 12))
        close(got[:, 0], alone[:, -1])
    assert cache.key_span == Span(28, 12)


@torch.no_grad()
def test_the_cache_is_refused_where_it_has_no_meaning():
    model = build()
    ids = random_ids(2, 4)
    with pytest.raises(ValueError, match="the cache knows the positions"):
        model(ids, cache=model.new_cache(2, 8), piece_ids=torch.zeros(2, 4).long())
    with pytest.raises(ValueError, match="cache has 1 rows and 2 layers, expected 2 and 2"):
        model(ids, cache=model.new_cache(1, 8))
    with pytest.raises(ValueError, match="do not fit a capacity of 3"):
        model(ids, cache=model.new_cache(2, 3))
    with pytest.raises(ValueError, match="ids have shape"):
        model(ids[0])
    with pytest.raises(ValueError, match="piece_ids have shape"):
        model(ids, piece_ids=torch.zeros(2, 3).long())


# ---- positions


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
    assert model.config["position"]["max_distance"] == 15


# ---- learning, saving, loading


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
    other = MusicTransformer(**model.config).eval()
    ids = random_ids(2, 30)
    assert not torch.equal(model(ids), other(ids))
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(model(ids), other(ids))
    assert other.config == model.config


def test_missing_tables_are_refused_by_a_strict_load():
    state = build().state_dict()
    del state["position.tables.1"]
    with pytest.raises(RuntimeError, match=r"position\.tables\.1"):
        build(seed=5).load_state_dict(state)


def able(scheme: str) -> list[str]:
    """The implementations that take the scheme."""
    found = []
    for name in IMPLEMENTATIONS:
        with contextlib.suppress(ConfigError):
            build(scheme, attention=name)
            found.append(name)
    return found


@every_scheme
@pytest.mark.parametrize("shared", [False, True])
def test_models_are_the_same_whichever_implementation_computes_them(scheme, shared):
    """Logits and the gradient of every parameter, on packed rows longer than the table."""
    ids = random_ids(2, 40)
    pieces = torch.tensor([[0] * 25 + [1] * 15, [0] * 40])
    found = {}
    for attention in set(able(scheme)) - {"native", "fused"}:  # these know no float64
        model = build(scheme, attention=attention, shared=shared).double()
        logits = model(ids, piece_ids=pieces)
        loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
        loss.backward()
        found[attention] = {n: p.grad for n, p in model.named_parameters()} | {"logits": logits}
    assert len(found) > 1
    for attention, got in found.items():
        for name, wanted in found["reference"].items():
            torch.testing.assert_close(
                got[name], wanted, rtol=1e-4, atol=1e-7, msg=f"{attention}: {name}"
            )


@pytest.mark.parametrize("scheme", ["huang", "alibi", "t5", "rotary", schemes.GRID])
def test_the_native_operator_computes_the_same_model(scheme):
    """In float32, with the error that float32 allows."""
    try:
        native.library.load()
    except UserError as error:
        pytest.skip(str(error))
    ids, pieces = random_ids(2, 40), torch.tensor([[0] * 25 + [1] * 15, [0] * 40])
    found = []
    for attention in ("reference", "native"):
        model = build(scheme, attention=attention)
        logits = model(ids, piece_ids=pieces)
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        found.append({n: p.grad for n, p in model.named_parameters()} | {"logits": logits})
    for name, wanted in found[0].items():
        torch.testing.assert_close(found[1][name], wanted, rtol=1e-3, atol=1e-5, msg=name)


def test_which_implementations_take_a_scheme():
    in_other_precisions = ["native", "fused"]
    assert able("huang") == ["auto", "reference", "skew", "chunked", *in_other_precisions]
    assert able("transformer_xl") == ["auto", "reference", "chunked", "sdpa", "fused"]
    assert able("two_d") == ["auto", "reference"]
    assert able(schemes.GRID) == ["auto", "reference", "chunked", *in_other_precisions]
    assert able("rotary") == ["auto", "reference", "chunked", "sdpa", *in_other_precisions]


@every_scheme
def test_one_step_lowers_the_loss(scheme):
    torch.manual_seed(0)
    position = schemes.position(scheme, VOCAB)
    model = MusicTransformer(
        VOCAB, layers=2, width=16, heads=2, feedforward=32, context=24, position=position
    )
    ids = random_ids(4, 25)

    def loss() -> Tensor:
        return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    before = loss()
    before.backward()
    optimizer.step()
    assert loss() < before


def test_one_batch_is_learnt_by_heart():
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


# ---- the rest


@every_scheme
@torch.no_grad()
def test_generating_past_the_training_length_works(scheme):
    model = build(scheme, context=8)
    ids = random_ids(1, 70)
    logits = in_parts(model, ids, list(range(1, 70)))
    assert torch.isfinite(logits).all()
    close(logits, model(ids))


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


def test_the_compiled_and_the_exported_model_give_the_same_logits():
    torch._dynamo.reset()
    model = build().requires_grad_(False)
    ids = random_ids(2, 30)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    try:
        native.library.load()
    except UserError as error:
        pytest.skip(str(error))
    close(compiled(ids), model(ids))
    program = torch.export.export(model, (ids,))
    assert not [n for n in program.graph.nodes if "musictx" in str(n.target)], "torch alone runs it"
    close(program.module()(ids), model(ids))


def test_hidden_states_are_what_the_logits_are_made_of():
    model = build(tied=False)
    ids = random_ids(2, 12)
    hidden = model.hidden(ids)
    assert hidden.shape == (2, 12, 16)
    close(model.output(hidden), model(ids))
