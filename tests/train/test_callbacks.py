"""Which checkpoints are kept, and with which weights."""

import pytest
import torch

from musictx.notes import Score
from musictx.train import callbacks, checkpoint
from musictx.train.callbacks import Checkpoints, Samples
from musictx.train.stopping import Stopped, StopRequest
from tests.train.fakes import FakeData, fake_batch, fake_training, fit


def misleading() -> FakeData:
    """Data whose validation says the contrary of what is trained: it gets worse and worse."""
    batch = fake_batch(1)
    targets = torch.where(batch.targets == -100, -100, (batch.targets + 5) % 11)
    return FakeData(validation=[batch._replace(targets=targets)])


class Run:
    """A training in a folder that can be left and taken up again."""

    def __init__(self, folder, **options) -> None:
        self.folder = folder
        self.options = {"steps": 12, **options}
        self.request = StopRequest()
        self.models: list[dict] = []
        self.said: list[str] = []

    def go(self, data=None, every=4, seconds=1e9, extra=()):
        training = fake_training(**self.options)
        if (self.folder / "last.ckpt").exists():
            training.restore(checkpoint.read(self.folder / "last.ckpt"))
        keep = Checkpoints(
            self.folder,
            validate_every=every,
            request=self.request,
            save_model=lambda model, t: self.models.append(
                {n: p.detach().clone() for n, p in model.named_parameters()}
            ),
            say=self.said.append,
            seconds=seconds,
        )
        fit(training, data or misleading(), every=every, callbacks=[keep, *extra])
        return training


def test_the_best_checkpoint_is_the_best_even_if_it_was_before_a_stop(tmp_path):
    run = Run(tmp_path)
    original = callbacks._agree

    def stop_at_6(trainer, *wishes):
        run.request.signal = 2 if trainer.lightning_module.step == 6 else None
        wishes = (bool(run.request), *wishes[1:])
        return original(trainer, *wishes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(callbacks, "_agree", stop_at_6)
        with pytest.raises(Stopped):
            run.go()
    run.request.signal = None
    assert checkpoint.read(tmp_path / "last.ckpt")["step"] == 6
    training = run.go()
    assert training.step == 12
    assert training.best["step"] == 4
    assert checkpoint.read(tmp_path / "best.ckpt")["step"] == 4
    last = checkpoint.read(tmp_path / "last.ckpt")
    assert (last["step"], last["best"]) == (12, training.best)
    assert last["validation_nll"] > training.best["nll"]
    assert len(run.models) == 1  # the model folder was written once, at the best
    assert "best" in run.said[-1]
    assert {p.name for p in tmp_path.iterdir()} == {"last.ckpt", "best.ckpt"}


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_model_folder_gets_the_averaged_weights_if_there_are_any(ema, tmp_path):
    run = Run(tmp_path, ema=ema)
    training = run.go(FakeData())
    state = checkpoint.read(tmp_path / "best.ckpt")
    kept = state["ema"]["mean"] if ema else state["model"]
    assert all(torch.equal(p, kept[name]) for name, p in run.models[-1].items())
    after = dict(training.model.named_parameters())
    last = checkpoint.read(tmp_path / "last.ckpt")["model"]
    assert all(torch.equal(after[name], last[name]) for name in after)


def test_between_rare_validations_the_clock_makes_checkpoints(tmp_path):
    run = Run(tmp_path, steps=3)
    steps = []

    class Look(callbacks.pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, *args):
            if (tmp_path / "last.ckpt").exists():
                steps.append(checkpoint.read(tmp_path / "last.ckpt")["step"])

    run.go(every=100, seconds=0.0, extra=[Look()])
    assert steps == [1, 2, 2]  # that of step 3 waits for its validation
    assert checkpoint.read(tmp_path / "last.ckpt")["step"] == 3


def test_a_sample_leaves_the_training_as_it_was(tmp_path):
    def weights_after(extra):
        training = fake_training(ema=0.9)
        fit(training, FakeData(), callbacks=extra)
        return dict(training.model.named_parameters())

    def sample(model, seconds, seed):
        assert not model.training
        torch.rand(100)
        return Score()

    said: list[str] = []
    samples = Samples(
        tmp_path / "s",
        sample,
        lambda score, path: path.touch(),
        seconds=1.0,
        seed=0,
        say=said.append,
    )
    with_samples, without = weights_after([samples]), weights_after([])
    assert all(torch.equal(with_samples[n], without[n]) for n in without)
    assert sorted(p.name for p in (tmp_path / "s").iterdir())[:2] == [
        "step-000005.mid",
        "step-000005.png",
    ]
    assert len(said) == 3
