"""``RelativeAttention`` is attention: laws that hold for every scheme that needs no whole model."""

from __future__ import annotations

import pytest
import torch

from musictx.attention import RelativeAttention, attend, why_not
from musictx.attention.api import chosen
from musictx.attention.setting import Job, Setting
from musictx.attention.terms import Span, Terms
from musictx.errors import ConfigError

SCHEMES = ["huang", "huang_local", "shaw", "transformer_xl", "t5", "alibi", "rotary", "none"]
#: Those of earlier tokens alone.
PAST = ["huang_local", "alibi"]


@pytest.mark.parametrize(
    ("scheme", "causal"),
    [(name, True) for name in SCHEMES] + [(name, False) for name in SCHEMES if name not in PAST],
)
def test_self_attention_is_what_the_specification_says(scheme, causal):
    """Output and gradients equal those of the dense reference; later tokens change nothing."""
    torch.manual_seed(0)
    layers = [
        RelativeAttention(16, 2, scheme, causal=causal, context=24, implementation=name).double()
        for name in ("auto", "reference")
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(2, 20, 16, dtype=torch.float64)
    pieces = torch.tensor([[0] * 9 + [1] * 11, [0] * 20])
    got, want = (layer(x, pieces=pieces) for layer in layers)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)
    for out in (got, want):
        out.square().sum().backward()
    for (name, one), other in zip(layers[0].named_parameters(), layers[1].parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-7, atol=1e-8, msg=name)
    changed = x.clone()
    changed[:, 15:] += 1.0
    same = torch.allclose(layers[0](x)[:, :15], layers[0](changed)[:, :15])
    assert same == causal


@pytest.mark.parametrize("scheme", ["huang", "shaw", "transformer_xl", "t5", "rotary", "none"])
def test_cross_attention_counts_from_where_it_is_told(scheme):
    """Over the first half of itself, as queries of the second half: rows of self-attention."""
    torch.manual_seed(0)
    layer = RelativeAttention(16, 2, scheme, causal=False, context=24).double()
    x = torch.randn(1, 12, 16, dtype=torch.float64)
    whole = layer(x, pieces=torch.zeros(1, 12, dtype=torch.int64))
    torch.testing.assert_close(layer(x[:, 5:], x, start=5), whole[:, 5:], rtol=1e-9, atol=1e-10)
    if scheme not in ("none",):
        assert not torch.allclose(layer(x[:, 5:], x, start=2), whole[:, 5:], atol=1e-6)


@pytest.mark.parametrize("keys", [1, 128, 129, 130])
def test_queries_of_a_piece_without_keys_find_nothing(keys):
    layer = RelativeAttention(16, 2, "shaw", causal=False)
    one, other = torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, keys, dtype=torch.int64)
    found = layer(torch.randn(1, 3, 16), torch.randn(1, keys, 16), pieces=one, memory_pieces=other)
    assert torch.equal(found, layer.out.bias.expand(1, 3, 16))


def test_what_cannot_be_is_named():
    with pytest.raises(ConfigError, match="heads=3: expected a divisor of width=16"):
        RelativeAttention(16, 3)
    with pytest.raises(ConfigError, match="position=rotary: expected heads of an even size, not 3"):
        RelativeAttention(6, 2, "rotary")
    for name in ("learned", "two_d"):
        with pytest.raises(ConfigError, match=rf"^position={name}: .* needs the whole model"):
            RelativeAttention(16, 2, name)
    for added in ({"periods": [4]}, {"concat_sinusoids": 4}):
        with pytest.raises(ConfigError, match=r"periods are added .* need the whole model"):
            RelativeAttention(16, 2, {"name": "huang", **added})
    with pytest.raises(ConfigError, match="implementation=native: it computes causal attention"):
        RelativeAttention(16, 2, causal=False, implementation="native")
    assert why_not("skew", Terms(1.0)) == "it computes one table of vectors by the order of tokens"
    with pytest.raises(ValueError, match="implementation=flash: expected one of auto"):
        why_not("flash", Terms(1.0))


def test_attention_needs_no_more_than_three_tensors():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 9, 8)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(attend(q, k, v), want)
    last = attend(q[:, :, -1:], k, v)
    torch.testing.assert_close(last, want[:, :, -1:])


def test_the_choice_is_made_once_for_a_job(monkeypatch):
    """Not for each token: the length of the text is no part of the question."""
    from musictx.attention import api

    asked = []
    right = api._choice
    monkeypatch.setattr(api, "_CHOSEN", {})
    monkeypatch.setattr(api, "_choice", lambda *a: asked.append(a) or right(*a))
    q = torch.randn(1, 2, 1, 8)
    for length in range(1, 20):
        k = v = torch.randn(1, 2, length, 8)
        attend(q, k, v, Terms(0.3))
    assert len(asked) <= 2  # the first query is the only key's own
    assert chosen("auto", Job.of(Terms(0.3), Setting((Span(3, 1),), (Span(0, 4),)), q)) == "sdpa"
