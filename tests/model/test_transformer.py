"""Initial loss, dropout, precision, errors, attention weights, compiled and exported models."""

import math

import pytest
import torch
from torch.nn import functional as F

from musictx.attention.terms import Span
from musictx.model.block import attention_weights
from musictx.model.features import complete_features
from musictx.tokens import build as tokens
from tests import compiler
from tests.model.models import (
    GRID,
    VOCAB,
    build,
    close,
    every_scheme,
    in_parts,
    position_of,
    random_ids,
)
from tests.untrained import network


@pytest.mark.parametrize("more", [{}, {"periods": [4, 3]}, {"concat_sinusoids": 6}])
@every_scheme
def test_positions_are_used_and_by_relative_schemes_only_their_differences(scheme, more):
    model = build(position_of(scheme, VOCAB) | more)
    ids = random_ids(2, 20)
    close(model(ids, positions=torch.arange(20)), model(ids))
    close(model(ids, positions=torch.arange(20).expand(2, 20)), model(ids))
    shifted = model(ids, positions=Span(96, 20))  # a multiple of all blocks and periods
    if model.position.absolute:
        assert not torch.allclose(shifted, model(ids), atol=1e-3)
    elif scheme != GRID:  # there place 0 is what opens a piece
        close(shifted, model(ids))


@every_scheme
def test_the_first_loss_is_near_that_of_a_uniform_guess(scheme):
    sizes = {"layers": 4, "width": 256, "heads": 4, "feedforward": 64, "context": 64}
    model = network(300, position=position_of(scheme, 300), **sizes)
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


def test_dropout_acts_only_in_training_also_on_attention_weights_and_follows_the_seed():
    model, ids = build(dropout=0.3), random_ids(2, 30)
    assert torch.equal(model(ids), model(ids))
    still = model.train()(ids)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    runs = [torch.manual_seed(seed) and model(ids) for seed in (1, 1, 2)]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert not torch.equal(runs[0], still)


@pytest.mark.parametrize(
    ("name", "shape", "cache", "more"),
    [
        ("cache", (2, 4), (2, 8), {"piece_ids": torch.zeros(2, 4).long()}),
        ("cache", (2, 4), (1, 8), {}),
        ("fit a capacity of [23]", (2, 6), (2, 3), {}),
        ("ids", (4,), None, {}),
        ("piece_ids", (2, 4), None, {"piece_ids": torch.zeros(2, 3).long()}),
        ("positions", (2, 4), None, {"positions": torch.arange(3)}),
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_errors_name_the_invalid_argument(name, shape, cache, more, group):
    model = build(group=group)
    more = more | ({"cache": model.new_cache(*cache)} if cache else {})
    with pytest.raises(ValueError, match=name):
        model(torch.zeros(shape).long(), **more)


@pytest.mark.parametrize("shape", [{"heads": 0}, {"heads": 3}, {"heads": 16}, {"width": 0}])
def test_heads_that_do_not_divide_the_width_are_an_error(shape):
    with pytest.raises(ValueError, match=r"heads=.* expected a divisor of width"):
        build(**shape)


def test_groups_refuse_positions_of_single_ids_and_features_that_they_would_ignore():
    with pytest.raises(ValueError, match="positions"):
        build(group=2)(random_ids(1, 4), positions=Span(1, 4))
    for name, method in (("token_noise", "disturb"), ("ages", "add_to_output")):
        with pytest.raises(ValueError, match=f"{name} has {method}, which networks with groups"):
            build(group=2, features=[{"name": name}])


@pytest.mark.parametrize("scheme", ["huang", "transformer_xl", "rotary", "alibi", "none"])
@pytest.mark.parametrize("layer", [0, 1])
def test_attention_weights_times_values_are_the_output_of_attention(scheme, layer):
    model = network(VOCAB, layers=2, width=16, position={"name": scheme}).double()
    ids, seen = random_ids(2, 9), {}
    attention = model.blocks[layer].attention
    attention.qkv.register_forward_hook(lambda _m, _i, out: seen.update(v=out[..., 32:]))
    attention.out.register_forward_pre_hook(lambda _m, inputs: seen.update(head_outputs=inputs[0]))
    weights = attention_weights(model, ids, layer)
    values = seen["v"].unflatten(2, (2, 8)).transpose(1, 2)
    head_outputs = (weights @ values).transpose(1, 2).flatten(2)
    torch.testing.assert_close(head_outputs, seen["head_outputs"], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 9, dtype=torch.float64))
    assert not weights.triu(1).any()
    assert weights.requires_grad is False
    with pytest.raises(IndexError):
        attention_weights(model, ids, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Guards may run slower:RuntimeWarning")  # on Python 3.13.0
@pytest.mark.parametrize("attention", [pytest.param("auto", marks=compiler.needed), "chunked"])
def test_the_compiled_model_gives_the_same_logits(attention):
    torch._dynamo.reset()
    model, ids = build(attention=attention, dropout=0.1), random_ids(2, 30)
    compiled = torch.compile(model.train(), backend="aot_eager", fullgraph=True)
    logits = []
    for each in (compiled, model):
        torch.manual_seed(0)
        logits.append(each(ids))
    close(*logits)
    model.eval()
    close(compiled(ids), model(ids))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch, about itself
@torch.no_grad()
def test_an_exported_model_can_be_saved_and_gives_the_same_logits_for_other_ids(tmp_path):
    """Also with features. It has dense attention, which every compiler of torch supports."""
    tokenizer = tokens.build(name="performance", controls=True)
    names = ("sounding", "conditions", "echoes")
    features = complete_features([{"name": name} for name in names], tokenizer)
    model = network(tokenizer.vocabulary.size, width=16, std=0.1, features=features)
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(4, tokenizer.vocabulary.size, (1, 12), generator=draw)
    program = torch.export.export(model, (torch.ones_like(ids),), strict=False)
    targets = [str(node.target) for node in program.graph.nodes]
    assert not [target for target in targets if "musictx" in target], "torch alone runs it"
    assert not [target for target in targets if "as_strided" in target]
    torch.export.save(program, tmp_path / "network.pt2")
    close(torch.export.load(tmp_path / "network.pt2").module()(ids), model(ids))
