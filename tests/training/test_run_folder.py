"""Which runs may resume each other, and what is refused."""

import subprocess
import sys

import pytest

from musictx.config import CorpusConfig, OptimConfig, TrainConfig, TrainerConfig
from musictx.errors import UserError
from musictx.training import run_folder
from musictx.training.run_folder import RunFolder, one_process

MADE_OF = {"corpus": "c0", "vocabulary": "v0"}


def config(lr: float = 1e-3, max_steps: int = 10, **options) -> TrainConfig:
    return TrainConfig(
        corpus=CorpusConfig(path="/somewhere"),
        optim=OptimConfig(lr=lr),
        trainer=TrainerConfig(max_steps=max_steps),
        **options,
    )


def begin(path, settings, made_of=MADE_OF):
    RunFolder(path).begin(settings, made_of, musictx="test")


def test_the_default_folder_is_another_one_for_whatever_decides_the_weights():
    def where(settings, made_of=MADE_OF):
        return run_folder.choose(settings, "My Songs!", made_of)

    usual = where(config())
    assert usual.parent.name == "runs"
    assert usual.name.startswith("My-Songs-huang-6x256-lr0.001-seed0-")
    assert where(TrainConfig()).name.startswith("My-Songs-huang-6x256-seed0-")
    tuned = where(config(init="models/my piano", position={"name": "my.module:Far"}, seed=3))
    assert tuned.name.startswith("My-Songs-my-piano-lr0.001-seed3-")
    mine = where(config(position={"name": "my.module:Far"}))
    assert mine.name.startswith("My-Songs-Far-6x256-lr0.001-seed0-")
    assert where(config(max_steps=99)) != usual
    assert where(config(callbacks={"stop": {"_target_": "a.B"}})) != usual
    assert where(config(logger={"csv": None})) == usual
    assert where(config(lr=2e-3)) != usual
    assert where(config(seed=1)) != usual
    assert where(config(), MADE_OF | {"corpus": "c1"}) != usual
    assert where(config(out="mine")).name == "mine"


def test_with_init_the_model_settings_do_not_count():
    one, two = config(init="m"), config(init="m")
    two.model.layers = 3
    two.tokenizer.low = 21
    assert run_folder.key(one, MADE_OF) == run_folder.key(two, MADE_OF)
    two.freeze = 1
    assert run_folder.key(one, MADE_OF) != run_folder.key(two, MADE_OF)
    one.init = two.init = None
    two.freeze = 0
    assert run_folder.key(one, MADE_OF) != run_folder.key(two, MADE_OF)


def test_a_run_with_other_settings_is_refused_by_their_names(tmp_path):
    begin(tmp_path / "run", config())
    begin(tmp_path / "run", config(max_steps=20))
    with pytest.raises(UserError, match=r"optim\.lr was 0\.001, now 0\.002.*another out="):
        begin(tmp_path / "run", config(lr=2e-3))
    with pytest.raises(UserError, match="its vocabulary is another one"):
        begin(tmp_path / "run", config(), MADE_OF | {"vocabulary": "v1"})


def test_clearing_removes_what_a_run_left_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    begin(run, config())
    (run / "model").mkdir()
    (run / "model" / "config.json").touch()
    (run / "last.ckpt").touch()
    (run / "my notes.txt").touch()
    (run / ".part-1234-last.ckpt").touch()
    begin(run, config())
    RunFolder(run).clear()
    assert {p.name for p in run.iterdir()} == {"my notes.txt"}


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="there is something else in this folder"):
        begin(tmp_path, config())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def finish(path, settings, **status):
    begin(path, settings)
    (path / "model").mkdir()
    (path / "model" / "model.safetensors").touch()
    RunFolder(path).write_status(finished=True, **{"step": 10, "seconds": 60.0} | status)


LOSS = {"validation_loss": 2.5}


def timed(minutes: int) -> TrainConfig:
    settings = config()
    settings.trainer = TrainerConfig(max_time=f"00:00:0{minutes}:00")
    return settings


@pytest.mark.parametrize(
    ("done", "same", "more", "less"),
    [(config(), config(), config(max_steps=20), config(max_steps=9)),
     (timed(1), timed(1), timed(2), config(max_steps=10))],
)  # fmt: skip
def test_a_finished_run_is_the_result_of_its_own_settings_alone(tmp_path, done, same, more, less):
    """FAULTS B12: three steps were shown as the result of two."""
    folder = RunFolder(tmp_path / "run")
    finish(folder.path, done, **LOSS)
    folder.check(same, MADE_OF)
    assert folder.finished(same) == {"finished": True, "step": 10, "seconds": 60.0, **LOSS}
    folder.check(more, MADE_OF)
    assert folder.finished(more) is None
    with pytest.raises(UserError, match="has done 10 steps"):
        folder.check(less, MADE_OF)
    begin(folder.path, more)  # from now on it is not finished, whatever comes
    assert folder.finished(more) is None


def test_a_run_that_a_callback_ended_is_not_that_without_the_callback(tmp_path):
    stops = config(max_steps=20, callbacks={"stop": {"_target_": "a.Early", "patience": 5}})
    folder = RunFolder(tmp_path / "run")
    finish(folder.path, stops, **LOSS)
    assert folder.finished(stops)
    folder.check(config(max_steps=20), MADE_OF)
    assert folder.finished(config(max_steps=20)) is None


def test_the_second_process_in_a_folder_is_refused_and_learns_who_has_it(tmp_path):
    program = (
        "import sys, time; from pathlib import Path\n"
        "from musictx.training.run_folder import one_process\n"
        "with one_process(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    path = tmp_path / "run" / ".lock"
    other = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        second = pytest.raises(UserError, match=rf"run: process {other.pid} on ")
        for _ in range(2):  # a refused one leaves the lock as it is
            with second, one_process(path):
                pass
    finally:
        other.kill()
        other.communicate()
    with one_process(path):  # what was killed holds nothing any more
        pass
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "x" * 5000, "- a", "settings: [1]", "a: &x [*x]", "settings: 1:59:59", "\0"],
)
def test_damaged_small_files_of_a_run_are_one_sentence(tmp_path, text):
    folder = RunFolder(tmp_path)
    (tmp_path / run_folder.SETTINGS).write_text(text)
    with pytest.raises(UserError, match=r"run\.yaml: cannot be read; give another out="):
        folder.check(TrainConfig(), {})


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "5", '{"step": 1}', '{"step": 1e999, "seconds": 1, "finished": true}'],
)
def test_a_damaged_status_counts_as_none(tmp_path, text):
    (tmp_path / run_folder.STATUS).write_text(text)
    assert RunFolder(tmp_path).status() == {}
