"""Loss, gradients, validation and randomness of a training against plain sums."""

import copy
import math
from unittest import mock

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import timer
from pytorch_lightning.plugins import MixedPrecision
from torch.nn import functional as F

from musictx.errors import UserError
from musictx.training.callbacks import Ema, averaged
from musictx.training.lit import LitMusicTransformer
from tests import untrained
from tests.training.fakes import VOCAB, FakeData, FakeModel, fake_batch, fake_training, fit

pytestmark = pytest.mark.usefixtures("one_thread")


def loss(trainer, name: str = "val/loss") -> float:
    return float(trainer.callback_metrics[name])


class Watched(LitMusicTransformer):
    """Keeps the gradients that its optimizer gets."""

    def configure_gradient_clipping(self, *args, **kwargs):
        super().configure_gradient_clipping(*args, **kwargs)
        self.gradients = {n: p.grad.clone() for n, p in self.model.named_parameters()}


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_step_weighs_every_real_target_the_same_however_batches_are_filled(accumulate):
    model = FakeModel(dropout=0.0)
    oracle = copy.deepcopy(model)
    training = fake_training(model, Watched)
    trainer = fit(training, max_steps=1, gradient_clip_val=None, accumulate_grad_batches=accumulate)

    batches = [fake_batch(n) for n in range(accumulate)]
    scored = [(b.targets != -100).sum().item() for b in batches]
    assert accumulate == 1 or len(set(scored)) > 1  # else the test could not tell
    logits = torch.cat([oracle(b.ids, piece_ids=b.piece_ids).flatten(0, 1) for b in batches])
    targets = torch.cat([b.targets.flatten() for b in batches])
    nats = -logits.log_softmax(-1)[torch.arange(len(targets)), targets.clamp(min=0)]
    (nats * (targets != -100)).sum().div(sum(scored)).backward()
    for name, p in oracle.named_parameters():
        torch.testing.assert_close(training.gradients[name], p.grad, msg=name)
    assert training.tokens == sum(scored) == loss(trainer, "train/tokens")
    mean = (nats.detach() * (targets != -100)).sum() / sum(scored)
    assert loss(trainer, "train/loss") == pytest.approx(float(mean), rel=1e-6)


class OnCuda(Watched):
    """Uses the optimizer of a GPU."""

    def configure_optimizers(self):
        with mock.patch.object(OnCuda, "device", torch.device("cuda")):
            return super().configure_optimizers()


def test_gradients_in_float16_are_clipped_when_their_scale_is_off():
    """As on a GPU, where AdamW's own kernel would take it off only after."""

    class Scaled(pl.Callback):
        def setup(self, trainer, *_, **options):
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
            trainer.strategy.precision_plugin = MixedPrecision("16-mixed", "cpu", scaler)

    options = {"max_steps": 1, "limit_val_batches": 0}
    scaled = fit(fake_training(kind=OnCuda), callbacks=[Scaled()], **options)
    expected = loss(fit(fake_training(), **options), "train/grad_norm")
    assert loss(scaled, "train/grad_norm") == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(("algorithm", "order"), [("norm", 2), ("value", math.inf)])
def test_gradients_are_clipped_after_they_are_averaged(algorithm, order):
    training, options = fake_training(kind=OnCuda), {"max_steps": 1, "precision": "bf16-mixed"}
    options |= {"gradient_clip_algorithm": algorithm, "accumulate_grad_batches": 2}
    trainer = fit(training, gradient_clip_val=1e-3, **options)
    gradients = torch.cat([g.flatten() for g in training.gradients.values()])
    assert gradients.norm(order) == pytest.approx(1e-3, rel=1e-3)
    assert loss(trainer, "train/grad_norm") > 1e-3


@pytest.mark.parametrize("ema", [0.0, 0.5])
def test_validation_is_the_sum_of_nats_over_all_targets_not_a_mean_of_batches(ema):
    batches = [fake_batch(50, rows=1, length=3), fake_batch(51, rows=5, length=40)]
    training = fake_training()
    callbacks = [Ema(ema)] if ema else []
    trainer = fit(training, FakeData(validation=batches), max_steps=3, callbacks=callbacks)
    model = training.model.eval()  # with the averages, once training has ended
    logits = [model(b.ids, piece_ids=b.piece_ids).flatten(0, 1) for b in batches]
    targets = [b.targets.flatten() for b in batches]
    expected = F.cross_entropy(torch.cat(logits), torch.cat(targets)).item()
    assert loss(trainer) == pytest.approx(expected, rel=1e-6)
    mean_of_batches = sum(map(F.cross_entropy, logits, targets)).item() / 2
    assert loss(trainer) != pytest.approx(mean_of_batches, rel=1e-4)


@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-true"])
def test_the_average_is_short_at_first_and_then_as_long_as_asked(precision):
    weights, averages, ema = [], [], Ema(0.3)

    class Look(LitMusicTransformer):
        def on_train_batch_end(self, *args):
            super().on_train_batch_end(*args)
            weights.append(self.model.hidden.weight.detach().clone())
            (average,) = (m.weight for n, m in ema._average_model.named_modules() if "hidden" in n)
            averages.append(average.detach().clone())
            with averaged(self.trainer):
                assert torch.equal(self.model.hidden.weight, averages[-1].to(weights[-1].dtype))
            assert torch.equal(self.model.hidden.weight, weights[-1])
            assert torch.equal(average, averages[-1])  # not rounded to bfloat16

    fit(fake_training(kind=Look), callbacks=[ema], precision=precision)
    expected = weights[0].to(torch.float64 if precision == "64-true" else torch.float32)
    for n, (weight, average) in enumerate(zip(weights, averages)):
        decay = min(0.3, (1 + n) / (10 + n)) if n else 0.0
        expected = decay * expected + (1 - decay) * weight.to(expected.dtype)
        torch.testing.assert_close(average, expected)


def test_hyperparameters_are_plain_and_rebuild_the_module(tmp_path):
    network = untrained.network(VOCAB, layers=2, width=32, feedforward=64)
    training = LitMusicTransformer(
        network.config.plain(), fake_training().optim, {"name": "performance"}, 3, model=network
    )
    assert LitMusicTransformer({**network.config.plain()}, {"lr": None}).optim["lr"] > 0
    trainer = fit(training, max_steps=2)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    again = LitMusicTransformer.load_from_checkpoint(tmp_path / "x.ckpt")
    assert dict(again.hparams) == dict(training.hparams)
    ids, _, piece_ids = fake_batch(3)
    with torch.no_grad():
        logits, of_again = (one.eval()(ids, piece_ids=piece_ids) for one in (training, again))
    assert torch.equal(logits, of_again)
    assert not any("ightning" in type(m).__module__ for m in network.modules())


class Rates(LitMusicTransformer):
    """Keeps the rate of each step."""

    def optimizer_step(self, *args, **kwargs):
        super().optimizer_step(*args, **kwargs)
        self.rates = [*getattr(self, "rates", []), self.trainer.optimizers[0].param_groups[0]["lr"]]


def test_the_rate_in_the_optimizer_follows_the_schedule_and_that_of_a_longer_run_its_own(tmp_path):
    whole, part = fake_training(kind=Rates), fake_training(kind=Rates)
    fit(whole, max_steps=4).save_checkpoint(tmp_path / "x.ckpt")
    shares = [0.5, 1.0] + [0.5 + 0.5 * math.cos(math.pi * k / 3) for k in (1, 2)]
    assert whole.rates == pytest.approx([1e-2 * s for s in shares])
    fit(part, max_steps=5, ckpt_path=tmp_path / "x.ckpt")
    assert part.rates == pytest.approx([1e-2 * (0.5 + 0.5 * math.cos(math.pi * 3 / 4))])


def test_a_resumed_run_in_float64_has_the_same_weights(tmp_path):
    path, runs = tmp_path / "x.ckpt", [fake_training(schedule="constant") for _ in range(3)]
    fit(runs[0], max_steps=2, precision="64-true").save_checkpoint(path)
    for training, source in zip(runs[1:], (path, None)):
        fit(training, max_steps=4, precision="64-true", ckpt_path=source)
    assert all(map(torch.equal, runs[1].parameters(), runs[2].parameters()))


class Exploding(FakeModel):
    def forward(self, ids, *, piece_ids):
        self.calls = getattr(self, "calls", 0) + self.training
        factor = math.nan if self.calls == 3 else 1.0
        return super().forward(ids, piece_ids=piece_ids) * factor


def test_a_loss_that_is_no_number_ends_training_before_it_reaches_the_weights():
    training = fake_training(Exploding())
    with pytest.raises(UserError, match=r"diverged at step 2.*lower optim\.lr \(it was 0\.01\)"):
        fit(training)
    assert all(p.isfinite().all() for p in training.model.parameters())


def test_by_the_clock_training_ends_in_time_and_counts_earlier_sessions(tmp_path, monkeypatch):
    class Slow(Rates):
        """A step takes 6 s."""

        now = 0.0

        def optimizer_step(self, *args, **kwargs):
            super().optimizer_step(*args, **kwargs)
            Slow.now += 6.0

    monkeypatch.setattr(timer.time, "monotonic", lambda: Slow.now)
    first, second = fake_training(kind=Slow), fake_training(kind=Slow)
    trainer = fit(first, max_time="00:00:01:00", val_check_interval=100)
    assert trainer.global_step == 10
    assert "val/loss" in trainer.callback_metrics
    assert first.rates[-1] < 0.1 * 1e-2
    trainer.save_checkpoint(path := tmp_path / "half.ckpt")
    Slow.now = 1e6
    trainer = fit(second, max_time="00:00:02:00", val_check_interval=100, ckpt_path=path)
    assert trainer.global_step == 20
    assert second.rates == sorted(second.rates, reverse=True)
    assert second.rates[0] > 0.4 * 1e-2
