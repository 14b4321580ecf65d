"""Which checkpoints are kept, and with which weights."""

import pytest
import torch

from musictx.notes import Score
from musictx.training import callbacks, checkpoint
from musictx.training.callbacks import BestCheckpoint, Ema, Hooks, LastCheckpoint, Samples
from musictx.training.lit import LitMusicTransformer
from musictx.training.signals import Stopped, StopSignal
from tests.training.fakes import FakeData, fake_batch, fake_training, fit


def misleading() -> FakeData:
    """Data whose validation says the contrary of what is trained: it gets worse and worse."""
    batch = fake_batch(1)
    targets = torch.where(batch.targets == -100, -100, (batch.targets + 5) % 11)
    return FakeData(validation=[batch._replace(targets=targets)])


def kept(hooks: Hooks, minutes: float = 1e9) -> list:
    found = [BestCheckpoint(), LastCheckpoint(minutes=minutes)]
    for callback in found:
        callback.hooks = hooks
    return found


def weights(trainer) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in trainer.lightning_module.named_parameters()}


@pytest.mark.parametrize("moved", [False, True])
def test_the_best_checkpoint_is_the_best_even_if_it_was_before_a_stop(moved, tmp_path):
    models, said = [], []
    stop = StopSignal()
    hooks = Hooks(lambda trainer: models.append(weights(trainer)), say=said.append, stop=stop)
    folder = tmp_path / "run"

    class At6(LitMusicTransformer):
        def on_train_batch_start(self, *args):
            super().on_train_batch_start(*args)
            stop.received = self.trainer.global_step == 5

    every = {"val_check_interval": 4}
    begun = fake_training(kind=At6)
    with pytest.raises(Stopped):
        fit(begun, misleading(), folder=folder, callbacks=[stop, *kept(hooks)], **every)
    hooks.stop = StopSignal()
    assert checkpoint.read(folder / "last.ckpt")["global_step"] == 6
    if moved:
        folder = folder.rename(tmp_path / "elsewhere")
    best, _ = again = kept(hooks)
    trainer = fit(
        fake_training(), misleading(), folder=folder, callbacks=again,
        ckpt_path=folder / "last.ckpt", **every,
    )  # fmt: skip
    assert trainer.global_step == 12
    assert best.step == 4
    assert checkpoint.read(folder / "best.ckpt")["global_step"] == 4
    assert checkpoint.read(folder / "last.ckpt")["global_step"] == 12
    assert trainer.callback_metrics["val/loss"] > best.loss
    assert len(models) == 1  # the model folder was written once, at the best
    assert "best" in said[-1]
    assert {p.name for p in folder.iterdir()} == {"last.ckpt", "best.ckpt"}


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_model_folder_gets_the_averaged_weights_if_there_are_any(ema, tmp_path):
    models = []
    hooks = Hooks(lambda trainer: models.append(weights(trainer)))
    more = [Ema(ema)] if ema else []
    fit(fake_training(), folder=tmp_path, callbacks=[*more, *kept(hooks)])
    best = checkpoint.read(tmp_path / "best.ckpt")
    assert all(torch.equal(p, best["state_dict"][name]) for name, p in models[-1].items())
    training = best["current_model_state"] if ema else best["state_dict"]
    same = [torch.equal(training[name], p) for name, p in models[-1].items()]
    assert all(same) == (not ema)


def test_between_rare_validations_the_clock_makes_checkpoints(tmp_path):
    steps = []

    class Look(callbacks.pl.Callback):
        def on_train_batch_start(self, trainer, *args):
            if (tmp_path / "last.ckpt").exists():
                steps.append(checkpoint.read(tmp_path / "last.ckpt")["global_step"])

    options = {"max_steps": 3, "val_check_interval": 100}
    fit(
        fake_training(), folder=tmp_path, callbacks=[*kept(Hooks(), minutes=0.0), Look()], **options
    )
    assert steps == [1, 2]
    assert checkpoint.read(tmp_path / "last.ckpt")["global_step"] == 3


def test_a_sample_leaves_the_training_as_it_was(tmp_path):
    def weights_after(extra):
        trainer = fit(fake_training(), folder=tmp_path, callbacks=[Ema(0.9), *extra])
        return weights(trainer)

    def sample(seconds, seed):
        assert not samples.module.training
        torch.rand(100)
        return Score()

    said: list[str] = []
    samples = Samples(seconds=1.0)
    samples.hooks = Hooks(sample=sample, draw=lambda score, path: path.touch(), say=said.append)

    class Module(callbacks.pl.Callback):
        def on_fit_start(self, trainer, module):
            samples.module = module

    with_samples, without = weights_after([Module(), samples]), weights_after([])
    assert all(torch.equal(with_samples[n], without[n]) for n in without)
    assert sorted(p.name for p in (tmp_path / "samples").iterdir())[:2] == [
        "step-000005.mid",
        "step-000005.png",
    ]
    assert len(said) == 3
