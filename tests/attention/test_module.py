"""``RelativeAttention`` is attention: laws that hold for every scheme that needs no whole model."""

import pytest
import torch

from musictx.attention import RelativeAttention, attend
from musictx.errors import ConfigError
from tests import compiler


@pytest.mark.parametrize("scheme", ["huang", "shaw", "transformer_xl", "t5", "rotary", "none"])
def test_cross_attention_counts_positions_from_start(scheme):
    """The last tokens as queries over all tokens give the last rows of self-attention."""
    torch.manual_seed(0)
    layer = RelativeAttention(16, 2, scheme, causal=False, context=24).double()
    x = torch.randn(1, 12, 16, dtype=torch.float64)
    whole = layer(x, pieces=torch.zeros(1, 12, dtype=torch.int64))
    torch.testing.assert_close(layer(x[:, 5:], x, start=5), whole[:, 5:], rtol=1e-9, atol=1e-10)
    if scheme != "none":
        assert not torch.allclose(layer(x[:, 5:], x, start=2), whole[:, 5:], atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"heads": 3}, "heads=3"),
        ({"heads": 0}, "heads=0"),
        ({"heads": 2.0}, "heads=2.0: expected an integer"),
        ({"context": -3}, "context=-3"),
        ({"causal": "no"}, "causal=no"),
        ({"dropout": 1}, "dropout=1"),
        ({"width": 6, "position": "rotary"}, "position=rotary"),
        ({"position": "learned"}, "position=learned"),
        ({"position": "two_d"}, "position=two_d"),
        ({"position": {"name": "huang", "periods": [4]}}, "periods"),
        ({"causal": False, "implementation": "native"}, "implementation=native"),
    ],
)
def test_errors_name_the_invalid_argument(arguments, name):
    with pytest.raises(ConfigError, match=name):
        RelativeAttention(**{"width": 16, "heads": 2} | arguments)


@pytest.mark.parametrize(
    ("shapes", "masks", "words"),
    [
        ([(16,)], {}, r"\(16,\)"),
        ([(2, 5, 8)], {}, r"\(2, 5, 8\)"),
        ([(2, 5, 16), (3, 16)], {}, r"\(3, 16\)"),
        ([(2, 5, 16)], {"attn_mask": torch.zeros(2, 5, 5) > 0}, "attn_mask .*expected"),
        ([(2, 5, 16)], {"memory_pieces": torch.zeros(2, 5)}, "expected memory_pieces if"),
        ([(2, 5, 16)] * 2, {"pieces": torch.zeros(2, 5)}, "expected memory_pieces if"),
        ([(2, 5, 16)], {"key_padding_mask": torch.zeros(2, 5)}, "key_padding_mask .*expected"),
    ],
)
def test_errors_name_the_invalid_input(shapes, masks, words):
    with pytest.raises(ValueError, match=words):
        RelativeAttention(16, 2)(*(torch.zeros(shape) for shape in shapes), **masks)


def test_attend_with_three_tensors_is_plain_causal_attention():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 9, 8)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(attend(q, k, v), want)
    last = attend(q[:, :, -1:], k, v)
    torch.testing.assert_close(last, want[:, :, -1:])


@pytest.mark.parametrize("mask", ["padding", "hidden", "hidden by head", "both"])
@pytest.mark.parametrize("memory", [False, True])
def test_masks_mean_the_same_as_in_torch(mask, memory):
    """Without relative terms the layer equals ``nn.MultiheadAttention``, including gradients."""
    torch.manual_seed(1)
    layer = RelativeAttention(16, 2, "none", causal=False).double()
    theirs = torch.nn.MultiheadAttention(16, 2, batch_first=True, dtype=torch.float64)
    theirs.in_proj_weight.data = layer.qkv.weight.data
    theirs.in_proj_bias.data = layer.qkv.bias.data
    theirs.out_proj.load_state_dict(layer.out.state_dict())
    x = torch.randn(3, 7, 16, dtype=torch.float64, requires_grad=True)
    other = torch.randn(3, 9, 16, dtype=torch.float64) if memory else x
    keys, given = other.shape[1], {}
    if mask in ("padding", "both"):
        given["key_padding_mask"] = torch.rand(3, keys) < 0.4
    if mask != "padding":
        given["attn_mask"] = torch.rand(*([6] if "head" in mask else []), 7, keys) < 0.4
    for hidden in given.values():
        hidden[..., 0] = False  # no query is left without a key
    got, want = layer(x, other if memory else None, **given), theirs(x, other, other, **given)[0]
    torch.testing.assert_close(got, want)
    grads = [torch.autograd.grad(out.square().sum(), x)[0] for out in (got, want)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    "implementation", ["local", "chunked", "skew", pytest.param("native", marks=compiler.needed)]
)
def test_padding_and_other_pieces_do_not_affect_tokens(implementation):
    torch.manual_seed(0)
    kind = ("huang", implementation) if implementation != "local" else ("huang_local", "auto")
    layer = RelativeAttention(16, 2, kind[0], context=12, implementation=kind[1])
    x, lengths = torch.randn(3, 10, 16), [10, 6, 3]
    padding = torch.arange(10) >= torch.tensor(lengths)[:, None]
    found = layer(x, key_padding_mask=padding)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row, :length], layer(x[row, :length]))
    pieces = torch.tensor([[0] * 5 + [3] * 5] * 3)
    found = layer(x, key_padding_mask=padding, pieces=pieces)
    torch.testing.assert_close(found[1, :6], layer(x[1, :6], pieces=pieces[1, :6]))
    found = layer(x, key_padding_mask=padding.flip(1), pieces=pieces, start=6)
    torch.testing.assert_close(found[1, 5:], layer(x[1, 5:], start=6))


@pytest.mark.parametrize("scheme", ["huang", "huang_local", "rotary"])
def test_no_tokens_give_an_empty_output_and_an_empty_memory_gives_zero(scheme):
    layer = RelativeAttention(16, 2, scheme, context=24)
    x, nothing = torch.randn(2, 5, 16), torch.randn(2, 0, 16)
    torch.testing.assert_close(layer(x, nothing), layer.out.bias.expand(2, 5, 16))
    assert layer(nothing, x).shape == layer(nothing).shape == (2, 0, 16)


@pytest.mark.parametrize("scheme", ["huang", "rotary", "transformer_xl"])
def test_a_sequence_without_batch_dimension_is_a_batch_of_one_also_on_meta(scheme):
    torch.manual_seed(0)
    layer = RelativeAttention(16, 2, scheme, context=24)
    x = torch.randn(9, 16)
    torch.testing.assert_close(layer(x), layer(x[None])[0])
    for shape in ((9, 16), (2, 9, 16)):
        out = layer.to("meta")(torch.empty(shape, device="meta"))
        assert (out.shape, out.device.type) == (shape, "meta")


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
@pytest.mark.parametrize("scheme", ["huang", "rotary"])
def test_a_traced_or_exported_layer_accepts_batches_of_other_sizes(scheme):
    layer, x = RelativeAttention(16, 2, scheme, context=24), torch.randn(5, 7, 16)
    size = {0: torch.export.Dim("batch")}
    exported = torch.export.export(layer, (x[:2],), dynamic_shapes=[size], strict=False)
    for alike in (torch.jit.trace(layer, (x[:2],)), exported.module()):
        torch.testing.assert_close(alike(x), layer(x))
