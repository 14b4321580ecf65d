"""Which runs may resume each other, and what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from musictx.config import CorpusConfig, OptimConfig, TrainConfig, TrainerConfig
from musictx.errors import UserError
from musictx.training import runs
from musictx.training.lock import Lock

MADE_OF = {"corpus": "c0", "vocabulary": "v0"}


def config(lr: float = 1e-3, max_steps: int = 10, **options) -> TrainConfig:
    return TrainConfig(
        corpus=CorpusConfig(path="/somewhere"),
        optim=OptimConfig(lr=lr),
        trainer=TrainerConfig(max_steps=max_steps),
        **options,
    )


def begin(path, settings, made_of=MADE_OF):
    runs.RunFolder(path).begin(settings, made_of, musictx="test")


def test_the_default_folder_is_the_same_when_more_is_asked_and_another_for_another_run():
    def where(settings, made_of=MADE_OF):
        return runs.choose(settings, "My Songs!", made_of)

    usual = where(config())
    assert usual.parent.name == "runs"
    assert usual.name.startswith("My-Songs-huang-6x256-lr0.001-seed0-")
    assert where(TrainConfig()).name.startswith("My-Songs-huang-6x256-seed0-")
    tuned = where(config(init="models/my piano", position={"name": "my.module:Far"}, seed=3))
    assert tuned.name.startswith("My-Songs-my-piano-lr0.001-seed3-")
    mine = where(config(position={"name": "my.module:Far"}))
    assert mine.name.startswith("My-Songs-Far-6x256-lr0.001-seed0-")
    assert where(config(max_steps=99)) == usual
    assert where(config(lr=2e-3)) != usual
    assert where(config(seed=1)) != usual
    assert where(config(), MADE_OF | {"corpus": "c1"}) != usual
    assert where(config(out="mine")).name == "mine"


def test_with_init_the_model_settings_do_not_count():
    one, two = config(init="m"), config(init="m")
    two.model.layers = 3
    two.tokenizer.low = 21
    assert runs.key(one, MADE_OF) == runs.key(two, MADE_OF)
    one.init = two.init = None
    assert runs.key(one, MADE_OF) != runs.key(two, MADE_OF)


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
    (run / "model" / "config.yaml").touch()
    (run / "last.ckpt").touch()
    (run / "my notes.txt").touch()
    (run / ".part-1234-last.ckpt").touch()
    begin(run, config())
    runs.RunFolder(run).clear()
    assert {p.name for p in run.iterdir()} == {"my notes.txt"}


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="there is something else in this folder"):
        begin(tmp_path, config())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_second_process_in_a_folder_is_told_who_has_it(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from musictx.training.lock import Lock\n"
        "with Lock(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    path = tmp_path / "run" / ".lock"
    other = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        with (
            pytest.raises(UserError, match=rf"run: process {other.pid} on \S+ is training in"),
            Lock(path),
        ):
            pass
    finally:
        other.kill()
        other.communicate()
    with Lock(path):  # what was killed holds nothing any more
        pass
    assert not list((tmp_path / "run").iterdir())


def test_a_lock_goes_where_open_files_cannot_be_removed(tmp_path, monkeypatch):
    """As on Windows."""
    held = Lock(tmp_path / "run" / ".lock")
    unlink = Path.unlink

    def refused(path, **options):
        if not held._file.closed:
            raise PermissionError(path)
        unlink(path, **options)

    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr(Path, "unlink", refused)
    with held:
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "x" * 5000, "- a", "settings: [1]", "a: &x [*x]", "settings: 1:59:59", "\0"],
)
def test_damaged_small_files_of_a_run_are_one_sentence(tmp_path, text):
    folder = runs.RunFolder(tmp_path)
    (tmp_path / runs.SETTINGS).write_text(text)
    with pytest.raises(UserError, match=r"run\.yaml: cannot be read; give another out="):
        folder.check(TrainConfig(), {})


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "5", '{"step": true, "seconds": 1}', '{"step": 1, "seconds": 1e999}',
     '{"step": 1, "seconds": "x"}', '{"step": 1, "seconds": 1, "validation_loss": "x"}',
     '{"step": 1' + "0" * 400 + ', "seconds": 1}'],
)  # fmt: skip
def test_a_damaged_status_counts_as_none(tmp_path, text):
    (tmp_path / runs.STATUS).write_text(text)
    assert runs.RunFolder(tmp_path).status() == {}
