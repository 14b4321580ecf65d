"""``musictx train``: exact resume after every kind of end."""

import csv
import json
import os
import signal
from pathlib import Path

import pytest
import torch

from musictx import bundle
from musictx.apps import train
from musictx.training import checkpoint
from musictx.training.lit import LitMusicTransformer
from musictx.training.run import Run
from tests.apps.train_driver import config, words
from tests.programs import run_python

pytestmark = pytest.mark.usefixtures("one_thread")


def same(one, two) -> bool:
    """Equal to the last bit, whatever the nesting."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[k], two[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two


def assert_same_run(run: Path, whole: Path) -> None:
    for name in ("last.ckpt", "best.ckpt"):
        here, there = checkpoint.read(run / name), checkpoint.read(whole / name)
        assert here.keys() == there.keys()
        for key in here.keys() - {"callbacks", "loops"}:  # times and paths; what Lightning counts
            assert same(here[key], there[key]), (name, key)
        (best,) = (key for key in here["callbacks"] if "Best" in key)
        assert here["callbacks"][best] == there["callbacks"][best]
    for name in ("metrics.csv", "model/model.safetensors"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def interrupt_at(monkeypatch, step: int) -> None:
    """Ctrl-C while step ``step`` is being made."""
    original = LitMusicTransformer.optimizer_step

    def with_signal(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if self.trainer.global_step + 1 == step:  # Lightning counts it after this
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LitMusicTransformer, "optimizer_step", with_signal)


def test_the_uninterrupted_run_is_what_it_says(root, monkeypatch):
    whole = root / "whole"
    last, best = (checkpoint.read(whole / f"{name}.ckpt") for name in ("last", "best"))
    assert last["global_step"] == last["averaging_state"]["n_averaged"] == 12
    assert last["MusicDataModule"] == {"next_batch": 24}
    rows = [*csv.DictReader((whole / "metrics.csv").read_text().splitlines())]
    assert [r["step"] for r in rows] == [str(s) for s in range(1, 13)]
    assert [r["step"] for r in rows if r["val/loss"]] == ["5", "10", "12"]
    for name, p in bundle.load(whole / "model").model.named_parameters():
        assert torch.equal(p, best["state_dict"][f"model.{name}"])  # averages: this run keeps them
        assert not torch.equal(p, best["current_model_state"][f"model.{name}"])
    monkeypatch.setattr(Run, "fit", None)  # would fail if called
    assert train.run(config(root, "whole")).steps == 12


@pytest.mark.parametrize("step", [3, 5, 11])
def test_ctrl_c_at_any_step_resumes_to_the_same_bits(step, root, tmp_path, monkeypatch, capsys):
    interrupt_at(monkeypatch, step)
    with pytest.raises(KeyboardInterrupt):
        train.run(config(root, tmp_path))
    monkeypatch.undo()
    out = capsys.readouterr().out
    assert f"the state at step {step} is in {tmp_path / 'last.ckpt'}" in out
    assert "the same command resumes" in out
    assert checkpoint.read(tmp_path / "last.ckpt")["global_step"] == step
    bundle.load(tmp_path / "model")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train.run(config(root, tmp_path))
    assert f"resume  at step {step}" in capsys.readouterr().out
    assert_same_run(tmp_path, root / "whole")


def test_ctrl_c_stops_a_run_without_checkpoints_too(root, tmp_path, monkeypatch, capsys):
    interrupt_at(monkeypatch, 3)
    settings = config(root, tmp_path)
    settings.callbacks = {}
    with pytest.raises(KeyboardInterrupt):
        train.run(settings)
    assert "stopped at step 3, before the first checkpoint" in capsys.readouterr().out
    bundle.load(tmp_path / "model")


@pytest.mark.slow
def test_a_kill_in_the_middle_of_writing_a_checkpoint_resumes_to_the_same_bits(root, tmp_path):
    """Of the fourth file, last.ckpt of the second validation, whose best.ckpt is whole already."""
    ended = run_python("-m", "tests.apps.train_driver", "4", *words(root, tmp_path))
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert list(tmp_path.glob(".*"))  # a file half-written
    assert checkpoint.read(tmp_path / "last.ckpt")["global_step"] == 5
    train.run(config(root, tmp_path))
    assert_same_run(tmp_path, root / "whole")
    assert not list(tmp_path.glob(".*"))


def test_a_run_killed_after_its_last_step_is_only_finished(root, tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "save_best_model", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train.run(config(root, tmp_path))
    monkeypatch.undo()
    train.run(config(root, tmp_path))
    assert_same_run(tmp_path, root / "whole")
    assert json.loads((tmp_path / "status.json").read_text())["finished"] is True
