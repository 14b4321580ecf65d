"""Muon against a decomposition in float64, and AdamW where Muon has no part."""

import copy

import pytest
import torch
from torch import nn

from musictx.model.transformer import MusicTransformer
from musictx.training import muon
from musictx.training.muon import Muon, orthogonal
from musictx.training.optimizer import parameter_groups


def model() -> MusicTransformer:
    torch.manual_seed(0)
    shape = {"layers": 2, "width": 16, "heads": 2, "feedforward": 32, "context": 8}
    return MusicTransformer(20, **shape, tied=False)


def losses(net, optimizer, steps: int) -> list[float]:
    found = []
    ids = torch.randint(4, 20, (3, 8), generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_the_iteration_is_the_polynomial_of_the_singular_values(shape):
    given = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    u, s, v = torch.linalg.svd(given, full_matrices=False)
    s = s / (s.norm(dim=-1, keepdim=True) + 1e-7)
    for _ in range(muon.STEPS):
        s = muon.A * s + muon.B * s**3 + muon.C * s**5
    torch.testing.assert_close(orthogonal(given), u @ torch.diag_embed(s) @ v, atol=1e-9, rtol=0)


def test_the_result_is_nearly_orthogonal_and_a_zero_matrix_stays_zero():
    given = torch.randn(1, 40, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    s = torch.linalg.svdvals(orthogonal(given))
    assert 0.6 < s.min() <= s.max() < 1.3
    assert not orthogonal(torch.zeros(1, 4, 3)).any()


@pytest.mark.parametrize("faster", [True, False], ids=["bfloat16", "float32"])
def test_float32_is_near_the_exact_result_on_every_device(faster, monkeypatch):
    monkeypatch.setattr(muon, "multiplies_bfloat16", lambda device: faster)
    given = torch.randn(2, 64, 48, generator=torch.Generator().manual_seed(4))
    exact = orthogonal(given.double())
    error = float((orthogonal(given).double() - exact).norm() / exact.norm())
    assert error < (0.03 if faster else 1e-5)
    assert error > (1e-4 if faster else 0), "bfloat16 was not used"


def test_a_step_is_the_formula_written_out():
    p = nn.Parameter(torch.randn(6, 4, dtype=torch.float64))
    before = p.detach().clone()
    optimizer = Muon(
        [{"params": [p], "muon": True, "split": 3, "weight_decay": 0.1}], lr=0.01, momentum=0.9
    )
    total = torch.zeros_like(p)
    for _ in range(2):
        gradient = torch.randn_like(p)
        p.grad = gradient.clone()
        optimizer.step()
        total = 0.9 * total + gradient
        ahead = gradient + 0.9 * total
        step = torch.cat([orthogonal(part[None])[0] for part in ahead.split(2)])
        before = before * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 4**0.5 * step
    torch.testing.assert_close(p.detach(), before)


def test_without_matrices_it_is_adamw():
    one, other = model(), model()
    mine, theirs = parameter_groups(one, 0.1), parameter_groups(other, 0.1)
    assert losses(one, Muon(mine, lr=0.01), 4) == losses(
        other, torch.optim.AdamW(theirs, lr=0.01), 4
    )


def test_it_learns_and_a_saved_state_goes_on_bit_for_bit():
    net = model()
    optimizer = Muon(parameter_groups(net, 0.01, muon=True), lr=0.02)
    first = losses(net, optimizer, 10)
    assert first[-1] < first[0] - 0.3
    other = copy.deepcopy(net)
    again = Muon(parameter_groups(other, 0.01, muon=True), lr=0.02)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert losses(net, optimizer, 3) == losses(other, again, 3)
