"""The files of a run: checkpoints, their weights, failed writes; samples; the table of metrics."""

import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch

from musictx.errors import UserError, WriteError
from musictx.notes import Score
from musictx.training import checkpoint
from musictx.training.callbacks import BestCheckpoint, Ema, LastCheckpoint, Samples
from musictx.training.checkpoint import AtomicCheckpoints
from musictx.training.lit import LitMusicTransformer
from musictx.training.loggers import MetricsTable
from musictx.training.signals import Stopped, StopSignal
from tests.training.fakes import FakeData, fake_batch, fake_training, fit


def checkpoints(save_model=lambda: None, stop=None, minutes: float = 1e9) -> list:
    """The callbacks of the best and the last checkpoint, with a fake run."""
    callbacks = [BestCheckpoint(), LastCheckpoint(minutes=minutes)]
    for callback in callbacks:
        callback.run = SimpleNamespace(save_model=save_model, stop=stop or StopSignal())
    return callbacks


def step_of(path: Path) -> int:
    return checkpoint.read(path)["global_step"]


def weights(trainer) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in trainer.lightning_module.named_parameters()}


@pytest.mark.parametrize("moved", [False, True])
def test_the_best_checkpoint_is_the_best_even_if_it_was_before_a_stop(moved, tmp_path, capsys):
    models, stop, folder = [], StopSignal(), tmp_path / "run"

    class At6(LitMusicTransformer):
        def on_train_batch_start(self, *args):
            super().on_train_batch_start(*args)
            stop.received = self.trainer.global_step == 5

    batch, every = fake_batch(1), {"val_check_interval": 4}
    # Validation has other targets than training, so its loss rises.
    targets = torch.where(batch.targets == -100, -100, (batch.targets + 5) % 11)
    data = FakeData(validation=[batch._replace(targets=targets)])
    first = [stop, *checkpoints(lambda: models.append(1), stop)]
    with pytest.raises(Stopped):
        fit(fake_training(kind=At6), data, folder=folder, callbacks=first, **every)
    last = folder / "last.ckpt"
    assert step_of(last) == 6
    if moved:
        folder = folder.rename(tmp_path / "elsewhere")
        last = folder / "last.ckpt"
    best, _ = again = checkpoints(lambda: models.append(1))
    trainer = fit(fake_training(), data, folder=folder, callbacks=again, ckpt_path=last, **every)
    assert trainer.global_step == step_of(last) == 12
    assert best.step == step_of(folder / "best.ckpt") == 4
    assert trainer.callback_metrics["val/loss"] > best.loss
    assert len(models) == 1  # the model folder was written once, at the best
    assert "best" in capsys.readouterr().out.splitlines()[-1]
    assert {p.name for p in folder.iterdir()} == {"last.ckpt", "best.ckpt"}


def test_a_resumed_run_has_the_patience_of_its_options(tmp_path):
    for patience, path in ((1, None), (3, tmp_path / "last.ckpt")):
        stop = pl.callbacks.EarlyStopping("val/loss", patience=patience)
        fit(fake_training(), folder=tmp_path, callbacks=[stop, *checkpoints()], ckpt_path=path)
    assert stop.patience == 3


def test_between_rare_validations_the_clock_makes_checkpoints(tmp_path):
    steps, path = [], tmp_path / "last.ckpt"

    class Look(pl.Callback):
        def on_train_batch_start(self, trainer, *args):
            steps.extend([step_of(path)] if path.exists() else [])

    callbacks = [*checkpoints(minutes=0.0), Look()]
    fit(fake_training(), folder=tmp_path, callbacks=callbacks, max_steps=3, val_check_interval=100)
    assert [*steps, step_of(path)] == [1, 2, 3]


def test_a_sample_leaves_the_training_as_it_was(tmp_path, capsys):
    def sample(seconds):
        assert not training.training
        torch.rand(100)
        return Score()

    samples, trained = Samples(seconds=1.0), []
    samples.run = SimpleNamespace(sample=sample, stop=StopSignal())
    for extra in ([samples], []):
        training = fake_training()
        trained.append(weights(fit(training, folder=tmp_path, callbacks=[Ema(0.9), *extra])))
    assert all(torch.equal(trained[0][name], p) for name, p in trained[1].items())
    files = sorted(p.name for p in (tmp_path / "samples").iterdir())
    assert files[:2] == ["step-000005.mid", "step-000005.png"]
    assert capsys.readouterr().out.count("  sample with 0 notes: ") == 3


STATE = {"state_dict": {"w": torch.arange(3.0)}, "loops": {}, "global_step": 7}


def write(path, state=STATE):
    AtomicCheckpoints().save_checkpoint(state, path)
    return path


FULL = OSError(28, "No space left on device")
#: The error of torch when the disk becomes full while an archive is written.
ENDED = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")
ENDED.__context__ = FULL


@pytest.mark.parametrize("error", [FULL, RuntimeError("file write failed"), ENDED])
def test_a_failing_write_leaves_the_old_checkpoint_and_nothing_beside(error, tmp_path, monkeypatch):
    path = write(tmp_path / "last.ckpt")

    def full(state, file):
        file.write(b"half a check")
        raise error

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(WriteError, match=r"last\.ckpt: .*(No space|file write)"):
        write(path, STATE | {"global_step": 8})
    monkeypatch.undo()
    assert step_of(path) == 7
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]


class Trojan:
    def __reduce__(self):
        return print, ("I ran",)


def test_what_is_no_checkpoint_is_refused_in_one_sentence_and_never_run(tmp_path, capsys):
    path = tmp_path / "last.ckpt"
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint"):
        checkpoint.read(path)
    whole = write(path).read_bytes()
    files = [b"", b"not a checkpoint", whole[: len(whole) // 2], pickle.dumps(Trojan())]
    states = [5, {}, {"state_dict": [1], "global_step": 1}, {"state_dict": {}}]
    for content in (*files, *states, {"format": 1, "model": Trojan()}):
        path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
        with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint"):
            checkpoint.read(path)
    assert capsys.readouterr().out == ""


def test_each_step_is_one_row_and_rows_of_steps_that_were_lost_are_replaced(tmp_path):
    killed, table = MetricsTable(tmp_path, flush_logs_every_n_steps=4), tmp_path / "metrics.csv"
    for step in range(7):
        killed.log_metrics({"loss": float(step), "epoch": 0}, step)
    assert table.read_text().split() == ["step,loss", "1,0", "2,1", "3,2", "4,3"]  # others are lost
    resumed = MetricsTable(tmp_path)
    resumed.log_metrics({"loss": 9.0}, 2)
    resumed.log_metrics({"lr": 0.5}, 2)
    resumed.finalize("success")
    assert table.read_text().split() == ["step,loss,lr", "1,0,", "2,1,", "3,9,0.5"]


def test_a_garbled_table_is_no_harm(tmp_path):
    for content in (b"step,loss\n1,2\n3\n2,\xff,4,5\nx\n", b"\0\1 no table"):
        (tmp_path / "metrics.csv").write_bytes(content)
        table = MetricsTable(tmp_path)
        table.log_metrics({"loss": 1.0}, 8)
        table.save()
        assert (tmp_path / "metrics.csv").read_text().split()[-1].startswith("9,1")
