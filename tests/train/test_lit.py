"""Loss, gradients, validation and randomness of a training against plain sums."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.train import lit
from musictx.train.lit import Training, batch_seed
from tests.train.fakes import OPTIM, VOCAB, FakeData, FakeModel, fake_batch, fake_training, fit


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def transformer(**options) -> MusicTransformer:
    torch.manual_seed(0)
    shape = {"layers": 2, "width": 32, "heads": 2, "feedforward": 64, "context": 16}
    return MusicTransformer(VOCAB, **(shape | options))


def test_one_batch_is_learnt_by_heart():
    training = fake_training(transformer(), steps=80, warmup=5)
    fit(training, FakeData(validation=[fake_batch(0)], same=True), every=80)
    assert training.validation_nll < 0.05


class Watched(Training):
    """Notes the gradients that the optimizer is given."""

    def configure_gradient_clipping(self, *args, **kwargs):
        super().configure_gradient_clipping(*args, **kwargs)
        self.seen = {n: p.grad.clone() for n, p in self.model.named_parameters()}


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_step_weighs_every_real_target_the_same_however_batches_are_filled(accumulate):
    model = FakeModel(dropout=0.0)
    oracle = FakeModel(dropout=0.0)
    oracle.load_state_dict(model.state_dict())
    training = Watched(model, optim=OPTIM | {"clip": 0.0}, steps=1, accumulate=accumulate)
    fit(training, FakeData(), every=1)

    batches = [fake_batch(n) for n in range(accumulate)]
    scored = [(b.targets != -100).sum().item() for b in batches]
    assert accumulate == 1 or len(set(scored)) > 1  # else the test could not tell
    logits = torch.cat([oracle(b.ids, piece_ids=b.piece_ids).flatten(0, 1) for b in batches])
    targets = torch.cat([b.targets.flatten() for b in batches])
    nats = -logits.log_softmax(-1)[torch.arange(len(targets)), targets.clamp(min=0)]
    (nats * (targets != -100)).sum().div(sum(scored)).backward()
    for name, p in oracle.named_parameters():
        torch.testing.assert_close(training.seen[name], p.grad, msg=name)
    training.drain()
    assert training.tokens == sum(scored)


def test_gradients_are_clipped_after_they_are_averaged():
    training = Watched(FakeModel(), optim=OPTIM | {"clip": 1e-3}, steps=1, accumulate=2)
    fit(training, FakeData(), every=1)
    norm = torch.stack([g.norm() for g in training.seen.values()]).norm()
    assert norm == pytest.approx(1e-3, rel=1e-3)
    assert training.gradient_norm > 1e-3


def test_every_parameter_of_the_model_is_trained():
    model = transformer(position={"name": "huang"}, tied=False)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    training = fake_training(model, steps=2)
    fit(training, FakeData(), every=2)
    for name, p in model.named_parameters():
        assert not torch.equal(p, before[name]), name


@pytest.mark.parametrize("ema", [0.0, 0.5])
def test_validation_is_the_sum_of_nats_over_all_targets_not_a_mean_of_batches(ema):
    batches = [fake_batch(50, rows=1, length=3), fake_batch(51, rows=5, length=40)]
    training = fake_training(steps=3, ema=ema)
    fit(training, FakeData(validation=batches), every=3)
    model = FakeModel().eval()
    model.load_state_dict(training.model.state_dict())
    if ema:
        model.load_state_dict(training.ema.mean)
    sums = [
        F.cross_entropy(
            model(b.ids, piece_ids=b.piece_ids).flatten(0, 1), b.targets.flatten(), reduction="sum"
        ).item()
        for b in batches
    ]
    counts = [(b.targets != -100).sum().item() for b in batches]
    assert training.validation_nll == pytest.approx(sum(sums) / sum(counts), rel=1e-6)
    mean_of_batches = sum(s / c for s, c in zip(sums, counts)) / 2
    assert training.validation_nll != pytest.approx(mean_of_batches, rel=1e-4)
    assert training.validation_targets == sum(counts)


def test_validation_changes_neither_weights_nor_means():
    class Look(Training):
        def on_validation_epoch_start(self):
            self.before = [p.detach().clone() for p in self.model.parameters()]
            super().on_validation_epoch_start()

        def on_validation_epoch_end(self):
            super().on_validation_epoch_end()
            self.same = all(map(torch.equal, self.before, self.model.parameters()))

    training = Look(FakeModel(), optim=OPTIM | {"ema": 0.9}, steps=4)
    fit(training, FakeData(), every=4)
    assert training.same


class Noisy(nn.Module):
    """Notes the random numbers that each batch was given."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(VOCAB))
        self.drawn: list[float] = []

    def forward(self, ids, *, piece_ids):
        if self.training:
            self.drawn.append(torch.rand(()).item())
        return self.scale * F.one_hot(ids, VOCAB)


def test_the_draws_of_a_batch_depend_on_its_number_alone():
    whole = Noisy()
    fit(fake_training(whole, steps=6, accumulate=2), FakeData(), every=4)
    assert len(set(whole.drawn)) == 12
    part = Noisy()
    training = fake_training(part, steps=6, accumulate=2)
    training.step = 3  # as after a resume
    data = FakeData()
    torch.rand(17)
    fit(training, data, every=4)
    assert data.asked == list(range(6, 12))
    assert part.drawn == whole.drawn[6:]


def test_batch_seeds_differ_by_seed_rank_and_number():
    seeds = {batch_seed(s, r, n) for s in range(3) for r in range(3) for n in range(3)}
    assert len(seeds) == 27


def test_the_learning_rate_follows_the_schedule_in_the_optimizer():
    seen = []

    class Rates(Training):
        def optimizer_step(self, *args, **kwargs):
            super().optimizer_step(*args, **kwargs)
            seen.append(self.trainer.optimizers[0].param_groups[0]["lr"])

    fit(Rates(FakeModel(), optim=OPTIM, steps=4), FakeData(), every=3)
    shares = [0.5, 1.0] + [0.5 + 0.5 * math.cos(math.pi * k / 3) for k in (1, 2)]
    assert seen == pytest.approx([1e-2 * s for s in shares])


class Exploding(FakeModel):
    def forward(self, ids, *, piece_ids):
        self.calls = getattr(self, "calls", 0) + self.training
        factor = math.nan if self.calls == 3 else 1.0
        return super().forward(ids, piece_ids=piece_ids) * factor


def test_a_loss_that_is_no_number_ends_training_before_it_reaches_the_weights():
    training = fake_training(Exploding())
    with pytest.raises(UserError, match=r"diverged at step 2.*lower optim\.lr \(it was 0\.01\)"):
        fit(training, FakeData())
    assert all(p.isfinite().all() for p in training.model.parameters())


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_by_the_clock_training_ends_when_its_time_is_up_and_counts_earlier_sittings(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(lit, "time", clock)
    rates = []

    class Timed(Training):
        def optimizer_step(self, *args, **kwargs):
            super().optimizer_step(*args, **kwargs)
            rates.append(self.learning_rate)
            clock.now += 6.0

    training = Timed(FakeModel(), optim=OPTIM, steps=1, minutes=2.0)
    training._seconds_before = 60.0  # as restore() sets it
    fit(training, FakeData(), every=100)
    assert training.step == 10  # 10 x 6 s are the second minute
    assert training.validation_nll is not None
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1 * 1e-2
