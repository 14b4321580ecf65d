"""``musictx train``: what a person gets, and what is refused."""

import io
import logging
import math
import re

import pytest
import torch

from musictx import bundle, cli, midi
from musictx.apps import train
from musictx.config import HuangConfig
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import nll
from musictx.training import checkpoint
from musictx.training.optimizer import optimizer_options
from tests.apps.train_driver import config, tune

pytestmark = pytest.mark.usefixtures("one_thread")


def test_header_progress_and_summary_say_what_matters(root, capfd, tmp_path):
    steps = {"accumulate_grad_batches": 1, "val_check_interval": 5, "max_steps": 6}
    train.run(config(root, tmp_path / "run", seconds=2, **steps))
    out, err = capfd.readouterr()
    model = f"{tmp_path}/run/model"
    for words in (
        "midi: 5 pieces",
        "1 layers, width 16, context 32 tokens, positions huang",
        "6 steps of 2 x 32 tokens on cpu, learning rate 0.003",
        "step 5: validation",
        "nats/token in validation, at step",
        f"musictx generate model={model} render=true",
        f"musictx evaluate model={model}",
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
    assert "windows of 32 tokens" in " ".join(card.split())


OWN = """
from musictx.attention.positions import PositionScheme
from musictx.tokens.performance import PerformanceTokenizer

class Nearest(PositionScheme):
    def __init__(self, sizes, *, start=1):
        super().__init__(sizes)

class Coarse(PerformanceTokenizer):
    name = "own_classes:Coarse"

    def __init__(self):
        super().__init__(step_ms=20)

    def to_config(self):
        return {"name": self.name}
"""


@pytest.mark.parametrize(
    "words",
    [
        ["-cd", "conf", "position=mine", "position.start=2"],
        ["position.name=own_classes:Nearest", "tokenizer.name=own_classes:Coarse"],
    ],
)
def test_a_model_with_classes_of_ones_own_is_loaded_where_they_are_trusted(
    words, root, tmp_path, monkeypatch
):
    (tmp_path / "own_classes.py").write_text(OWN)
    (tmp_path / "conf" / "position").mkdir(parents=True)
    mine = "_target_: own_classes.Nearest\nstart: 1\n"
    (tmp_path / "conf" / "position" / "mine.yaml").write_text(mine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    tiny = ["model=tiny", "model.layers=1", "model.width=16", "model.context=32"]
    few = ["data.batch_size=1", "trainer.max_steps=1", "callbacks.samples=null", "out=run"]
    given = [f"corpus.path={root / 'midi'}", "corpus.workers=1", "trainer.accelerator=cpu"]
    assert cli.main(["train", *given, *tiny, *few, "init=null", *words]) == 0
    with pytest.raises(UserError, match="MUSICTX_TRUST=own_classes"):
        bundle.load("run/model")
    monkeypatch.setenv("MUSICTX_TRUST", "own_classes")
    assert bundle.load("run/model").model.config.layers == 1


def test_windows_begin_at_multiples_of_the_periods_of_positions(root, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(train, "fit", lambda lit, data, *_: seen.append(data.rows.align) or 1 / 0)
    position = HuangConfig(max_distance=8, periods=[4, 6])
    with pytest.raises(ZeroDivisionError):
        train.run(config(root, tmp_path / "run", position=position))
    assert seen == [12]


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
    assert "0 held out" in capsys.readouterr().out
    last = checkpoint.read(tmp_path / "run" / "last.ckpt")
    assert last["global_step"] == 12
    loaded = dict(bundle.load(model).model.named_parameters())
    assert all(torch.equal(p, last["state_dict"][f"model.{n}"]) for n, p in loaded.items())


MONITOR = {"_target_": "pytorch_lightning.callbacks.LearningRateMonitor"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"init": "nowhere"}, "nowhere"),
        ({"path": "/no/such/folder"}, "/no/such/folder"),
        ({"accelerator": "abacus"}, r"trainer\.accelerator=abacus"),
        ({"devices": "7,8,many"}, r"trainer\.devices=7,8,many"),
        ({"callbacks": {"mine": {"_target_": "no.such.Class"}}}, r"callbacks\.mine\._target_=no"),
        ({"logger": {"mine": {"_target_": "no.such.Logger"}}}, r"logger\.mine\._target_=no"),
        ({"limit_val_batches": 0.1}, r"limit_val_batches"),
        ({"callbacks": {"mine": MONITOR}, "logger": {}}, "LearningRateMonitor"),
        ({"accelerator": "gpu"}, r"trainer\.accelerator=gpu.*not possible on this machine"),
    ],
)
def test_invalid_options_leave_no_run_folder(options, sentence, root, tmp_path):
    if options == {"accelerator": "gpu"} and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UserError, match=sentence):
        train.run(config(root, tmp_path / "run", shards=str(tmp_path / "s"), **options))
    assert not (tmp_path / "run").exists()


def test_what_is_refused_leaves_the_run_as_it_is(root, tmp_path):
    """A mistake, and fewer steps than a run has done that was killed before its end."""
    train.run(config(root, tmp_path / "run", max_steps=4))
    (tmp_path / "run" / "status.json").unlink()
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
    wrong = {"callbacks": {"wrong": {"_target_": "no.such.Class"}}}
    for options, words in (
        ({"max_steps": 6, **wrong}, r"callbacks\.wrong"),
        ({"max_steps": 3}, "max_steps=3: .*done 4 steps"),
    ):
        with pytest.raises(UserError, match=words):
            train.run(config(root, tmp_path / "run", **options))
        after = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
        assert after == before


def test_a_trial_says_so_and_leaves_no_folder(root, tmp_path, capsys):
    assert train.run(config(root, tmp_path / "run", fast_dev_run=True)).model is None
    out = capsys.readouterr().out
    assert "train   a trial of 1 step of " in out
    assert "no run folder was written" in out
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


def test_a_checkpoint_that_does_not_fit_is_one_sentence(root, tmp_path):
    settings = config(root, tmp_path / "run", max_steps=2)
    train.run(settings)
    settings.trainer.max_steps = 4
    files = {name: (tmp_path / "run" / name).read_bytes() for name in ("last.ckpt", "best.ckpt")}
    for damage, reason in (
        (lambda state: state["state_dict"].popitem(), "Missing key"),
        (lambda state: state["optimizer_states"][0].update(state=5), "int"),
        (lambda state: state["MusicDataModule"].clear(), "next_batch"),
        (lambda state: state["loops"].clear(), "fit_loop"),
        (lambda state: state.update(tokens=float("inf")), "infinity"),
    ):
        for name, content in files.items():
            state = torch.load(io.BytesIO(content), weights_only=True)
            damage(state)
            torch.save(state, tmp_path / "run" / name)
        with pytest.raises(UserError, match=rf"\.ckpt: not of this model .*{reason}.*another out="):
            train.run(settings)


def test_a_diverged_run_says_so_and_what_to_do(root, tmp_path, capsys):
    train.run(config(root, tmp_path / "run", lr=9.0, ema=0.0, max_steps=10))
    out = capsys.readouterr().out
    (best,) = re.findall(r"^best    (\S+) nats/token", out, re.M)
    (guessing,) = re.findall(r"^note    guessing has (\S+) nats/token", out, re.M)
    assert float(best) > float(guessing)
    model = bundle.load(tmp_path / "run" / "model").model
    assert float(guessing) == pytest.approx(math.log(model.config.vocab_size), abs=1e-4)
    assert "lower optim.lr (it was 9)" in out
    train.run(config(root, tmp_path / "good"))
    assert "guessing has" not in capsys.readouterr().out


def test_runs_without_a_folder_of_theirs_are_never_taken_for_one_another(
    root, tmp_path, monkeypatch
):
    """FAULTS B12: a sweep of two steps took the result of three for its own."""
    monkeypatch.chdir(tmp_path)
    settings = config(root, "", max_steps=3)
    settings.out = None
    three = train.run(settings)
    settings.trainer.max_steps = 2
    two = train.run(settings)
    assert (three.steps, two.steps) == (3, 2)
    assert bundle.load(two.model).card["training"]["steps"] == 2
    assert train.run(settings) == two  # by itself it is found again


def test_the_learning_rate_follows_the_width_unless_it_is_given(tmp_path):
    def rate(**options):
        return optimizer_options(config(tmp_path, "run", **options), 16, print)["lr"]

    assert rate(lr=None) == pytest.approx(1e-3 * 32**0.5)
    assert rate(lr=None, init="piano") == pytest.approx(0.2e-3 * 32**0.5)
    assert rate(lr=1e-4) == 1e-4
