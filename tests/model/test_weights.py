"""``attention_weights``: what a layer's values are weighed with."""

from __future__ import annotations

import pytest
import torch

from musictx.model import MusicTransformer, attention_weights
from tests.model.models import VOCAB, random_ids


@pytest.mark.parametrize("scheme", ["huang", "transformer_xl", "rotary", "alibi", "none"])
@pytest.mark.parametrize("layer", [0, 1])
def test_values_weighed_with_them_are_what_attention_gives(scheme, layer):
    torch.manual_seed(0)
    sizes = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "context": 24}
    model = MusicTransformer(VOCAB, position={"name": scheme}, **sizes).double().eval()
    ids, seen = random_ids(2, 9), {}
    attention = model.blocks[layer].attention
    attention.qkv.register_forward_hook(lambda _m, _i, out: seen.update(v=out[..., 32:]))
    attention.out.register_forward_pre_hook(lambda _m, inputs: seen.update(mixed=inputs[0]))
    weights = attention_weights(model, ids, layer)
    values = seen["v"].unflatten(2, (2, 8)).transpose(1, 2)
    mixed = (weights @ values).transpose(1, 2).flatten(2)
    torch.testing.assert_close(mixed, seen["mixed"], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 9, dtype=torch.float64))
    assert not weights.triu(1).any()
    assert weights.requires_grad is False


def test_a_layer_that_is_not_there_is_an_error():
    model = MusicTransformer(VOCAB, layers=1, width=16, heads=2, feedforward=32, context=24)
    with pytest.raises(IndexError):
        attention_weights(model, random_ids(1, 4), 3)
