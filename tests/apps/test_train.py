"""``musictx train``: what a person gets, and what is refused."""

import io
import re
from types import SimpleNamespace

import pytest
import torch

from musictx import bundle
from musictx.apps import train
from musictx.config import SamplingConfig
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import nll
from musictx.folders import MODEL_FILES
from musictx.tokens.build import build
from musictx.training import callbacks, checkpoint
from musictx.training.optimizer import optimizer_options
from musictx.training.run import Run
from tests.apps.train_driver import config
from tests.data.helpers import contents, write_songs
from tests.sampling.pieces import make

pytestmark = pytest.mark.usefixtures("one_thread")


def test_header_progress_and_summary_say_what_matters(root, capfd, tmp_path):
    steps = ["trainer.val_check_interval=10", "trainer.max_steps=6", "callbacks.samples.seconds=2"]
    train.run(config(root, tmp_path, *steps))
    out, err = capfd.readouterr()
    assert f"musictx generate model={tmp_path}/model" in out
    assert err == ""  # none of Lightning's tips, warnings and advertisements
    assert "ightning" not in out
    assert {path.name for path in (tmp_path / "model").iterdir()} == {*MODEL_FILES}
    assert bundle.load(tmp_path / "model").card["note_limits"]["density"] > 0
    assert {path.name for path in (tmp_path / "samples").iterdir()} == {
        f"step-{n:06}.{e}" for n in (5, 6) for e in ("mid", "png")
    }


def test_a_sample_of_notes_in_bars_may_have_a_density(tmp_path):
    tokenizer = build("notes", controls=True)
    options = SimpleNamespace(sampling=SamplingConfig(density=2.0), seed=0)
    folder = SimpleNamespace(model=tmp_path)
    model = make(tokenizer, context=64)
    parts = {"config": options, "folder": folder, "tokenizer": tokenizer, "limits": None}
    assert len(Run.sample(SimpleNamespace(**parts, model=model), 3.0))


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


def test_a_model_with_own_classes_is_loaded_where_they_are_trusted(root, tmp_path, monkeypatch):
    (tmp_path / "own_classes.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    own = ["position.name=own_classes:Nearest", "tokenizer.name=own_classes:Coarse"]
    shards = f"corpus.shards={tmp_path}/shards"
    train.run(config(root, tmp_path / "run", *own, shards, "trainer.max_steps=1"))
    with pytest.raises(UserError, match="MUSICTX_TRUST=own_classes"):
        bundle.load(tmp_path / "run" / "model")
    monkeypatch.setenv("MUSICTX_TRUST", "own_classes")
    assert bundle.load(tmp_path / "run" / "model").model.config.layers == 1


def test_windows_begin_at_multiples_of_the_periods_of_positions(root, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Run, "fit", lambda run, _: seen.append(run.data.rows.align) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train.run(config(root, tmp_path / "run", "position.periods=[4,6]"))
    assert seen == [12]


def test_a_sample_that_fails_is_reported_and_training_goes_on(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(callbacks.formats, "write", lambda score, path: 1 / 0)
    train.run(config(root, tmp_path, "callbacks.samples.seconds=1", "trainer.max_steps=5"))
    assert "no sample at step 5: ZeroDivisionError" in capsys.readouterr().out
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_fine_tuning_takes_tokenizer_and_shape_from_the_model_folder(root, tmp_path, capsys):
    write_songs(tmp_path / "midi", [99], notes=40)
    more = ["model.layers=3", "tokenizer.velocity_bins=8", "trainer.max_steps=4"]
    model = train.run(config(tmp_path, "run", f"init={root}/whole", *more)).model
    printed = capsys.readouterr().out
    assert "instead of those given here" in printed
    start, tuned = bundle.load(root / "whole" / "model"), bundle.load(model)
    (before,) = re.findall(r"^before  (\S+) nats/token in validation", printed, re.M)
    shards, window = Shards(tmp_path / "shards"), start.model.config.context
    loss = nll.evaluate(start.model, shards, window=window).nats_per_token
    assert float(before) == pytest.approx(loss, abs=1e-4)
    assert tuned.model.config == start.model.config
    assert tuned.tokenizer.fingerprint == start.tokenizer.fingerprint
    pairs = zip(start.model.parameters(), tuned.model.parameters())
    assert 0 < max((a - b).abs().max().item() for a, b in pairs) < 0.1  # from there


def test_without_held_out_pieces_training_ends_with_the_latest_weights(root, tmp_path, capsys):
    more = [f"corpus.shards={tmp_path}/s", "corpus.validation=0", "callbacks.samples=null"]
    model = train.run(config(root, tmp_path / "run", *more)).model
    assert "0 held out" in capsys.readouterr().out
    last = checkpoint.read(tmp_path / "run" / "last.ckpt")
    assert last["global_step"] == 12
    loaded = dict(bundle.load(model).model.named_parameters())
    assert all(torch.equal(p, last["state_dict"][f"model.{n}"]) for n, p in loaded.items())


def test_training_without_best_checkpoints_ends_with_the_latest_weights(root, tmp_path, capsys):
    models, scheduler = set(), "pytorch_lightning.callbacks.GradientAccumulationScheduler"
    more = "trainer.accumulate_grad_batches=1 trainer.overfit_batches=2 data.validation_windows=0"
    for steps in (2, 4, 6):
        settings = config(root, tmp_path, *more.split(), f"trainer.max_steps={steps}")
        if steps == 4:
            settings.callbacks = settings.callbacks | {"best": None}
        elif steps == 6:
            settings.callbacks = {"two": {"_target_": scheduler, "scheduling": {0: 2}}}
        models.add((train.run(settings).model / "model.safetensors").read_bytes())
    assert len(models) == 3
    assert bundle.load(tmp_path / "model").card["training"]["batch"] == 2 * 2
    assert "(4 of 10 windows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("trainer.devices=7,many", r"trainer\.devices=7,many"),
        ("logger.mine._target_=pathlib.Path", r"logger\.mine\._target_=pathlib.*Logger"),
        ("+callbacks.mine.option=3", r"callbacks\.mine="),
        ("trainer.limit_val_batches=0.1", r"limit_val_batches"),
        ("model.attention=fused", r"^implementation=fused: "),
        ("init=/", r"^init=/: .*missing"),
        ("trainer.accelerator=gpu", r"trainer\.accelerator=gpu.*not possible on this machine"),
    ],
)
def test_invalid_options_leave_no_run_folder(word, sentence, root, tmp_path):
    if "gpu" in word and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UserError, match=sentence):
        train.run(config(root, tmp_path / "run", word))
    assert not (tmp_path / "run").exists()


def test_a_monitor_that_is_not_logged_is_one_sentence(root, tmp_path):
    stop = "+callbacks.stop={_target_: pytorch_lightning.callbacks.EarlyStopping, monitor: val/acc}"
    with pytest.raises(UserError, match=r"^callbacks: .*=val/acc: expected .*lr, .*, val/loss$"):
        train.run(config(root, tmp_path, stop, "trainer.max_steps=2"))


def test_what_is_refused_leaves_the_run_as_it_is(root, tmp_path):
    """A mistake, and fewer steps than a run has done, to its end or until it was killed."""
    train.run(config(root, tmp_path, "trainer.max_steps=4"))
    for ended in (True, False):
        if not ended:
            (tmp_path / "status.json").unlink()
        before = contents(tmp_path)
        for more, reason in (
            (["trainer.max_steps=6", "callbacks.wrong._target_=no.such.It"], r"callbacks\.wrong"),
            (["trainer.max_steps=3"], "max_steps=3: .*done 4 steps"),
        ):
            with pytest.raises(UserError, match=reason):
                train.run(config(root, tmp_path, *more))
            assert contents(tmp_path) == before


def test_a_trial_says_so_and_leaves_no_folder(root, tmp_path, capsys):
    assert train.run(config(root, tmp_path / "run", "trainer.fast_dev_run=true")).model is None
    assert "no run folder was written" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_checkpoint_that_does_not_fit_is_one_sentence(root, tmp_path, monkeypatch):
    train.run(config(root, tmp_path, "trainer.max_steps=2"))
    files = {path: path.read_bytes() for path in tmp_path.glob("*.ckpt")}
    for damage, reason in (
        (lambda state: state["state_dict"].popitem(), "Missing key"),
        (lambda state: state["optimizer_states"][0].update(state=5), "int"),
        (lambda state: state["MusicDataModule"].clear(), "next_batch"),
        (lambda state: state["loops"].clear(), "fit_loop"),
        (lambda state: state.update(tokens=float("inf")), "infinity"),
    ):
        for path, content in files.items():
            state = torch.load(io.BytesIO(content), weights_only=True)
            damage(state)
            torch.save(state, path)
        with pytest.raises(UserError, match=rf"\.ckpt: not of this model .*{reason}.*another out="):
            train.run(config(root, tmp_path, "trainer.max_steps=4"))
    for path, content in files.items():
        path.write_bytes(content if path.name == "last.ckpt" else b"")
    with pytest.raises(UserError, match=rf"^{tmp_path}/best\.ckpt: not a checkpoint"):
        train.run(config(root, tmp_path, "trainer.max_steps=2"))
    monkeypatch.setattr("musictx.training.lit.LitMusicTransformer.training_step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # not an error of the checkpoint
        train.run(config(root, tmp_path, "trainer.max_steps=4"))


def test_the_learning_rate_follows_the_width_unless_it_is_given(root):
    def rate(*more):
        return optimizer_options(config(root, "run", *more), 16)["lr"]

    assert rate("optim.lr=null") == pytest.approx(1e-3 * 32**0.5)
    assert rate("optim.lr=null", "init=piano") == pytest.approx(0.2e-3 * 32**0.5)
    assert rate("optim.lr=0.0001") == 1e-4
    with pytest.raises(UserError, match=r"^trainer\.precision=16-true: AdamW cannot"):
        rate("trainer.precision=16-true")
