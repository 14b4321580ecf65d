"""``musictx train``: exact resume after every kind of end, and what a person gets."""

import csv
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from musictx import bundle, midi
from musictx.apps import train
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import nll
from musictx.train import checkpoint
from musictx.train.lit import LitMusicTransformer
from tests.apps.train_driver import config, tune, write_corpus

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A corpus of six tunes, and a run of 12 steps without interruption."""
    root = tmp_path_factory.mktemp("train")
    write_corpus(root / "midi")
    torch.set_num_threads(1)
    train.run(config(root, "whole"))
    return root


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
            [(s["best_model_score"], s["step"]) for k, s in c["callbacks"].items() if "Best" in k]
            for c in (here, there)
        ]
        assert same(*best)
    assert (run / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
    weights = "model/model.safetensors"
    assert (run / weights).read_bytes() == (whole / weights).read_bytes()


def interrupt_at(monkeypatch, step: int, number: int = signal.SIGINT) -> None:
    """Ctrl-C while step ``step`` is being made."""
    original = LitMusicTransformer.optimizer_step

    def with_signal(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if self.trainer.global_step + 1 == step:  # Lightning counts it after this
            os.kill(os.getpid(), number)

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


@pytest.mark.parametrize("step", [3, 5, 7, 11])
def test_ctrl_c_at_any_step_resumes_to_the_same_bits(step, root, monkeypatch, capsys):
    run = f"ctrl-c-{step}"
    interrupt_at(monkeypatch, step)
    with pytest.raises(KeyboardInterrupt):
        train.run(config(root, run))
    monkeypatch.undo()
    out = capsys.readouterr().out
    assert f"the state at step {step} is in {root / run / 'last.ckpt'}" in out
    assert "go on with the same command" in out
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


def driver(root: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.apps.train_driver", str(root), *words]


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("number", [3, 4])  # best.ckpt and last.ckpt of the second validation
def test_a_kill_in_the_middle_of_writing_a_checkpoint_resumes_to_the_same_bits(number, root):
    run = f"killed-{number}"
    ended = subprocess.run(
        driver(root, f"run={run}", f"die={number}"),
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


def test_ctrl_c_from_outside_leaves_checkpoint_and_model_and_status_130(root):
    process = subprocess.Popen(
        driver(root, "run=endless", "max_steps=1000000"),
        cwd=CHECKOUT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 180
        while not (root / "endless" / "last.ckpt").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "stopping after this step" in err
    assert "go on with the same command" in out
    assert checkpoint.read(root / "endless" / "last.ckpt")["global_step"] >= 5
    bundle.load(root / "endless" / "model")


def test_a_finished_run_returns_at_once_and_asks_for_more(root, monkeypatch, capsys):
    monkeypatch.setattr(train.fitting, "fit", None)  # would fail if called
    trained = train.run(config(root, "whole"))
    assert trained.model == root / "whole" / "model"
    assert trained.validation_loss == pytest.approx(5.264, abs=0.01)
    assert "already trained" in (out := capsys.readouterr().out)
    assert "larger trainer.max_steps" in out


def test_more_steps_go_on_and_fresh_starts_again(root, capsys):
    train.run(config(root, "longer", max_steps=6))
    train.run(config(root, "longer", max_steps=8))
    assert "resume  at step 6 " in capsys.readouterr().out
    assert checkpoint.read(root / "longer" / "last.ckpt")["global_step"] == 8
    first = (root / "longer" / "model" / "model.safetensors").read_bytes()
    train.run(config(root, "longer", max_steps=6, fresh=True))
    assert "resume" not in capsys.readouterr().out
    assert checkpoint.read(root / "longer" / "last.ckpt")["global_step"] == 6
    assert (root / "longer" / "model" / "model.safetensors").read_bytes() != first


def test_a_run_killed_after_its_last_step_is_only_finished(root, monkeypatch, capsys):
    monkeypatch.setattr(train.fitting, "keep_best", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train.run(config(root, "unfinished"))
    monkeypatch.undo()
    train.run(config(root, "unfinished"))
    assert_same_run(root / "unfinished", root / "whole")
    assert json.loads((root / "unfinished" / "status.json").read_text())["finished"] is True


def test_another_run_in_the_same_folder_is_refused(root):
    with pytest.raises(UserError, match=r"optim\.lr was 0\.003, now 0\.5"):
        train.run(config(root, "whole", lr=0.5))


def test_header_progress_and_summary_say_what_matters(root, capfd, tmp_path):
    train.run(
        config(
            root,
            tmp_path / "run",
            seconds=2,
            accumulate_grad_batches=1,
            val_check_interval=5,
            max_steps=6,
        )
    )
    out, err = capfd.readouterr()
    for words in (
        "corpus  midi: 5 pieces",
        "1 pieces held out",
        " parameters: 1 layers, width 16, context 32 tokens, positions huang",
        "6 steps of 2 x 32 tokens on cpu, learning rate 0.003",
        "step 5: validation",
        "sample with",
        "nats/token in validation, at step",
        f"model   {tmp_path}/run/model",
        f"musictx generate model={tmp_path}/run/model render=true",
        f"musictx evaluate model={tmp_path}/run/model",
    ):
        assert words in out, words
    assert err == ""  # none of Lightning's tips, warnings and advertisements
    assert "ightning" not in out
    samples = tmp_path / "run" / "samples"
    assert {p.name for p in samples.iterdir()} == {
        f"step-{n:06}.{e}" for n in (5, 6) for e in ("mid", "png")
    }
    midi.read(samples / "step-000006.mid")
    card = (tmp_path / "run" / "model" / "CARD.md").read_text()
    assert "windows of 32 tokens" in card
    assert "the terms of that music apply" in card


def test_float16_on_a_cpu_is_one_sentence(root, tmp_path, capfd):
    train.run(config(root, tmp_path / "run", max_steps=1, precision="16-mixed"))
    out, err = capfd.readouterr()
    assert "note    trainer.precision=16-mixed is not for a CPU; it trains with bf16-mixed" in out
    assert err == ""


def test_a_sample_that_fails_is_told_and_training_goes_on(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train, "draw", lambda score, path: 1 / 0)
    train.run(config(root, tmp_path / "run", seconds=1, max_steps=5))
    assert "no sample at step 5: ZeroDivisionError" in capsys.readouterr().out
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()


def test_fine_tuning_takes_tokenizer_and_shape_from_the_model_folder(root, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    midi.write(tune(99, 30), tmp_path / "mine" / "only.mid")
    settings = config(
        tmp_path,
        "run",
        path=str(tmp_path / "mine"),
        layers=3,
        init=str(root / "whole"),
        max_steps=4,
    )
    settings.tokenizer.velocity_bins = 8
    model = train.run(settings).model
    assert model is not None
    said = capsys.readouterr().out
    assert "instead of those given here" in said
    first, _, rest = said.partition("step ")  # the first line of progress
    (before,) = re.findall(
        r"^before  (\S+) nats/token in validation, before the first st", first, re.M
    )
    assert re.search(
        rf"^before  {before} nats/token, before the first step; (not )?better", rest, re.M
    )
    shards = Shards(tmp_path / "shards")
    loss = nll.evaluate(
        bundle.load(root / "whole" / "model").model, shards, "validation"
    ).nats_per_token
    assert float(before) == pytest.approx(loss, abs=1e-4)
    start, tuned = bundle.load(root / "whole" / "model"), bundle.load(model)
    assert tuned.model.config == start.model.config
    assert tuned.tokenizer.fingerprint == start.tokenizer.fingerprint
    moved = [
        (a - b).abs().max().item()
        for a, b in zip(start.model.parameters(), tuned.model.parameters())
    ]
    assert 0 < max(moved) < 0.1  # from there, not from the beginning


def test_without_held_out_pieces_training_ends_with_the_latest_weights(root, tmp_path, capsys):
    model = train.run(
        config(root, tmp_path / "run", shards=str(tmp_path / "s"), validation=0.0)
    ).model
    assert "0 pieces held out" in capsys.readouterr().out
    last = checkpoint.read(tmp_path / "run" / "last.ckpt")
    assert last["global_step"] == 12
    loaded = dict(bundle.load(model).model.named_parameters())
    assert all(torch.equal(p, last["state_dict"][f"model.{n}"]) for n, p in loaded.items())


def test_training_by_the_clock_ends_in_time_and_can_be_prolonged(root, tmp_path, capsys):
    began = time.monotonic()
    train.run(config(root, tmp_path / "run", max_time="00:00:00:01"))
    assert time.monotonic() - began < 20
    assert "ends by the clock" in capsys.readouterr().out
    step = checkpoint.read(tmp_path / "run" / "last.ckpt")["global_step"]
    train.run(config(root, tmp_path / "run", max_time="00:00:00:01"))
    assert "larger trainer.max_time" in capsys.readouterr().out
    train.run(config(root, tmp_path / "run", max_time="00:00:00:02"))
    assert checkpoint.read(tmp_path / "run" / "last.ckpt")["global_step"] > step


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"init": "nowhere"}, "nowhere"),
        ({"path": "/no/such/folder"}, "/no/such/folder"),
        ({"accelerator": "abacus"}, r"trainer\.accelerator=abacus"),
        ({"devices": "7,8,many"}, r"trainer\.devices=7,8,many"),
        ({"callbacks": {"mine": {"_target_": "no.such.Class"}}}, r"callbacks\.mine\._target_=no"),
        ({"logger": {"mine": {"_target_": "no.such.Logger"}}}, r"logger\.mine\._target_=no"),
        ({"ckpt_path": "best"}, r"ckpt_path=best: .*run has no checkpoint yet"),
        ({"limit_val_batches": 0.1}, r"trainer\.limit_val_batches=0\.1: expected at least 0\.5"),
        ({"accelerator": "gpu"}, r"trainer\.accelerator=gpu.*not possible on this machine"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(options, sentence, root, tmp_path):
    if options == {"accelerator": "gpu"} and torch.cuda.is_available():
        pytest.skip("here it is possible")
    with pytest.raises(UserError, match=sentence):
        train.run(config(root, tmp_path / "run", shards=str(tmp_path / "s"), **options))
    assert not list(tmp_path.iterdir())


def test_what_lightning_refuses_leaves_no_run_folder(root, tmp_path):
    monitor = {"_target_": "pytorch_lightning.callbacks.LearningRateMonitor"}
    with pytest.raises(UserError, match="LearningRateMonitor"):
        train.run(config(root, tmp_path / "run", callbacks={"mine": monitor}, logger={}))
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_leaves_the_run_that_fresh_would_replace(root, tmp_path):
    train.run(config(root, tmp_path / "run", max_steps=1))
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
    wrong = {"wrong": {"_target_": "no.such.Class"}}
    with pytest.raises(UserError, match=r"callbacks\.wrong"):
        train.run(config(root, tmp_path / "run", max_steps=1, fresh=True, callbacks=wrong))
    after = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
    assert after == before


def test_a_trial_says_so_and_leaves_no_folder(root, tmp_path, capsys):
    assert train.run(config(root, tmp_path / "run", fast_dev_run=True)).model is None
    out = capsys.readouterr().out
    assert "train   a trial of 1 step of " in out
    assert "nothing was written" in out
    assert not list(tmp_path.iterdir())


def test_the_profiler_speaks_where_it_is_asked_for(root, tmp_path):
    said = []
    log = logging.getLogger("pytorch_lightning.profilers.profiler")
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        train.run(config(root, tmp_path / "run", max_steps=1, profiler="simple"))
    finally:
        log.removeHandler(handler)
    assert "optimizer_step" in "".join(said)


def test_the_run_folder_of_a_damaged_checkpoint_is_refused(root, tmp_path):
    settings = config(root, tmp_path / "run", max_steps=5)
    train.run(settings)
    (tmp_path / "run" / "last.ckpt").write_bytes(b"noise")
    settings.trainer.max_steps = 8
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint.*fresh=true"):
        train.run(settings)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda state: state["state_dict"].popitem(), "Missing key"),
        (lambda state: state["optimizer_states"][0].update(state=5), "int"),
        (lambda state: state["MusicDataModule"].clear(), "next_batch"),
        (lambda state: state["loops"].clear(), "fit_loop"),
        (lambda state: state.update(tokens=float("inf")), "infinity"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_sentence(damage, reason, root, tmp_path):
    settings = config(root, tmp_path / "run", max_steps=2)
    train.run(settings)
    for name in ("last.ckpt", "best.ckpt"):
        state = torch.load(tmp_path / "run" / name, weights_only=True)
        damage(state)
        torch.save(state, tmp_path / "run" / name)
    settings.trainer.max_steps = 4
    with pytest.raises(UserError, match=rf"\.ckpt: not of this model .*{reason}.*fresh=true"):
        train.run(settings)


def test_a_status_that_is_no_status_is_made_anew(root, tmp_path):
    settings = config(root, tmp_path / "run", max_steps=2)
    train.run(settings)
    status = tmp_path / "run" / "status.json"
    before = json.loads(status.read_text())
    status.write_text(json.dumps(before | {"step": "many"}))
    train.run(settings)
    assert json.loads(status.read_text())["step"] == 2


def test_the_learning_rate_follows_the_width_unless_it_is_given(root, tmp_path):
    def rate(name, **options):
        card = bundle.load(
            train.run(config(root, tmp_path / name, max_steps=1, **options)).model
        ).card
        return card["training"]["optimizer"]["lr"]

    assert rate("usual", lr=None) == pytest.approx(1e-3 * 32**0.5)
    assert rate("tuned", lr=None, init=str(root / "whole")) == pytest.approx(0.2e-3 * 32**0.5)
    assert rate("given", lr=1e-4) == 1e-4
