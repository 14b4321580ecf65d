"""The running mean against a plain loop, and that swapping loses nothing."""

import contextlib

import pytest
import torch
from torch import nn

from musictx.train.ema import Ema


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))


def test_the_mean_follows_its_formula():
    net, decay = model(), 0.9
    ema = Ema(net, decay)
    expected = [p.detach().double().clone() for p in net.parameters()]
    for n in range(120):
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn_like(p))
        ema.update(net)
        d = min(decay, (1 + n) / (10 + n))
        expected = [d * e + (1 - d) * p.double() for e, p in zip(expected, net.parameters())]
    for mean, e in zip(ema.mean.values(), expected):
        torch.testing.assert_close(mean.double(), e, rtol=1e-5, atol=1e-5)


def test_swapping_twice_gives_back_every_bit_even_after_an_error():
    net = model()
    ema = Ema(net, 0.5)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(1.0)
    ema.update(net)
    weights = [p.detach().clone() for p in net.parameters()]
    means = {name: m.clone() for name, m in ema.mean.items()}
    with contextlib.suppress(RuntimeError), ema.swapped(net):
        for p, m in zip(net.parameters(), means.values()):
            assert torch.equal(p, m)
        raise RuntimeError
    assert all(torch.equal(p, w) for p, w in zip(net.parameters(), weights))
    assert all(torch.equal(ema.mean[name], m) for name, m in means.items())


def test_a_saved_mean_goes_on_as_if_nothing_had_happened():
    net = model()
    one = Ema(net, 0.9)
    one.update(net)
    two = Ema(net, 0.9)
    two.load_state_dict(one.state_dict())
    with torch.no_grad():
        net[0].weight.mul_(2)
    one.update(net)
    two.update(net)
    assert all(torch.equal(one.mean[name], two.mean[name]) for name in one.mean)


def test_the_mean_of_another_model_is_refused():
    with pytest.raises(ValueError, match="other parameters"):
        Ema(nn.Linear(2, 2), 0.9).load_state_dict(Ema(model(), 0.9).state_dict())
