"""``musictx train``: exact resume after every kind of end."""

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from musictx import bundle
from musictx.apps import train
from musictx.errors import UserError
from musictx.training import checkpoint
from musictx.training.lit import LitMusicTransformer
from tests.apps.train_driver import CHECKOUT, ENVIRONMENT, config, driver

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
        best = [
            [(s["loss"], s["step"]) for k, s in c["callbacks"].items() if "Best" in k]
            for c in (here, there)
        ]
        assert same(*best)
    assert (run / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
    weights = "model/model.safetensors"
    assert (run / weights).read_bytes() == (whole / weights).read_bytes()


def interrupt_at(monkeypatch, step: int) -> None:
    """Ctrl-C while step ``step`` is being made."""
    original = LitMusicTransformer.optimizer_step

    def with_signal(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if self.trainer.global_step + 1 == step:  # Lightning counts it after this
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LitMusicTransformer, "optimizer_step", with_signal)


def test_the_uninterrupted_run_is_what_it_says(root):
    whole = root / "whole"
    last = checkpoint.read(whole / "last.ckpt")
    assert last["global_step"] == 12
    assert last["averaging_state"]["n_averaged"] == 12
    assert last["MusicDataModule"] == {"next_batch": 24}
    with (whole / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [r["step"] for r in rows] == [str(s) for s in range(1, 13)]
    assert [r["step"] for r in rows if r["val/loss"]] == ["5", "10", "12"]
    loaded = bundle.load(whole / "model")
    best = checkpoint.read(whole / "best.ckpt")
    for name, p in loaded.model.named_parameters():
        assert torch.equal(
            p, best["state_dict"][f"model.{name}"]
        )  # the averages, for this run keeps them


@pytest.mark.parametrize("step", [3, 5, 11])
def test_ctrl_c_at_any_step_resumes_to_the_same_bits(step, root, monkeypatch, capsys):
    run = f"ctrl-c-{step}"
    interrupt_at(monkeypatch, step)
    with pytest.raises(KeyboardInterrupt):
        train.run(config(root, run))
    monkeypatch.undo()
    out = capsys.readouterr().out
    assert f"the state at step {step} is in {root / run / 'last.ckpt'}" in out
    assert "the same command resumes" in out
    assert "model so far" in out
    assert checkpoint.read(root / run / "last.ckpt")["global_step"] == step
    bundle.load(root / run / "model")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train.run(config(root, run))
    assert f"resume  at step {step}" in capsys.readouterr().out
    assert_same_run(root / run, root / "whole")


def test_ctrl_c_stops_a_run_without_checkpoints_too(root, tmp_path, monkeypatch, capsys):
    interrupt_at(monkeypatch, 3)
    settings = config(root, tmp_path / "run")
    settings.callbacks = {}
    with pytest.raises(KeyboardInterrupt):
        train.run(settings)
    assert "stopped at step 3, before the first checkpoint" in capsys.readouterr().out
    bundle.load(tmp_path / "run" / "model")


def test_an_exception_loses_only_what_came_after_the_checkpoint(root, monkeypatch):
    original = LitMusicTransformer.training_step

    def failing(self, batch, batch_idx):
        if self.trainer.global_step == 7:
            raise RuntimeError("power cut")
        return original(self, batch, batch_idx)

    monkeypatch.setattr(LitMusicTransformer, "training_step", failing)
    with pytest.raises(RuntimeError, match="power cut"):
        train.run(config(root, "power-cut"))
    monkeypatch.undo()
    assert checkpoint.read(root / "power-cut" / "last.ckpt")["global_step"] == 5
    train.run(config(root, "power-cut"))
    assert_same_run(root / "power-cut", root / "whole")


def test_a_kill_in_the_middle_of_writing_a_checkpoint_resumes_to_the_same_bits(root):
    """Of the fourth file, last.ckpt of the second validation, whose best.ckpt is whole already."""
    run = "killed"
    ended = subprocess.run(
        driver(root, f"run={run}", "die=4"),
        cwd=CHECKOUT,
        env=ENVIRONMENT,
        capture_output=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    left = {p.name for p in (root / run).iterdir() if p.name.startswith(".")}
    assert left  # a file half-written
    assert checkpoint.read(root / run / "last.ckpt")["global_step"] == 5
    train.run(config(root, run))
    assert_same_run(root / run, root / "whole")
    assert not [p for p in (root / run).iterdir() if p.name.startswith(".")]


def test_sigterm_leaves_checkpoint_and_model_and_its_status(root):
    """As Ctrl-C does above, in a process of its own."""
    run = "endless"
    process = subprocess.Popen(
        driver(root, f"run={run}", "max_steps=1000000"),
        cwd=CHECKOUT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 180
        while not (root / run / "last.ckpt").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 143, err
    assert "Traceback" not in err
    assert "stopping after this step" in err
    assert "the same command resumes" in out
    assert checkpoint.read(root / run / "last.ckpt")["global_step"] >= 5
    bundle.load(root / run / "model")


def test_a_finished_run_returns_at_once_and_asks_for_more(root, monkeypatch, capsys):
    monkeypatch.setattr(train, "fit", None)  # would fail if called
    trained = train.run(config(root, "whole"))
    assert trained.model == root / "whole" / "model"
    assert trained.validation_loss == pytest.approx(5.264, abs=0.01)
    assert "already trained" in capsys.readouterr().out
    assert trained.steps == 12


def test_more_steps_go_on(root, capsys):
    train.run(config(root, "longer", max_steps=6))
    train.run(config(root, "longer", max_steps=8))
    assert "resume  at step 6 " in capsys.readouterr().out
    assert checkpoint.read(root / "longer" / "last.ckpt")["global_step"] == 8


def test_a_run_killed_after_its_last_step_is_only_finished(root, monkeypatch, capsys):
    monkeypatch.setattr(train, "keep_best", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train.run(config(root, "unfinished"))
    monkeypatch.undo()
    train.run(config(root, "unfinished"))
    assert_same_run(root / "unfinished", root / "whole")
    assert json.loads((root / "unfinished" / "status.json").read_text())["finished"] is True


def test_another_run_in_the_same_folder_is_refused(root):
    with pytest.raises(UserError, match=r"optim\.lr was 0\.003, now 0\.5"):
        train.run(config(root, "whole", lr=0.5))
