"""Which settings may resume a run, and which folders are refused."""

import copy
import dataclasses
import re
import subprocess
import sys

import pytest

from musictx.config import CorpusConfig, OptimConfig, TrainConfig, TrainerConfig
from musictx.errors import UserError
from musictx.training import run_folder
from musictx.training.run_folder import RunFolder, State, exclusive_lock

MADE_OF = {"corpus": "c0", "vocabulary": "v0"}
STOPS = {"callbacks": {"stop": {"_target_": "a.Early", "patience": 5}}}


def config(max_steps: int = 10, lr: float = 1e-3, **options) -> TrainConfig:
    return TrainConfig(
        corpus=CorpusConfig(path="/somewhere"),
        optim=OptimConfig(lr=lr),
        trainer=TrainerConfig(max_steps=max_steps),
        **options,
    )


def begin(path, settings, made_of=MADE_OF):
    RunFolder(path).check(settings, made_of)
    RunFolder(path).begin(settings, made_of)


def test_the_default_folder_is_another_one_for_whatever_decides_the_weights():
    def where(made_of=MADE_OF, **options):
        return run_folder.choose_path(config(**options), "My Songs!", made_of)

    others = [{"max_steps": 99}, STOPS, {"lr": 2e-3}, {"seed": 1}, {"init": "m"}]
    others += [{}, {"made_of": MADE_OF | {"corpus": "c1"}}, {"init": "m", "freeze": 1}]
    others += [{"lr": None, "position": {"name": "my.module:Far"}}, {"init": "models/my piano"}]
    assert len({where(**other) for other in others}) == len(others)
    assert all(re.fullmatch(r"runs/My-Songs-[\w.-]+", str(where(**other))) for other in others)
    assert where(logger={"csv": None}) == where()
    assert where(out="mine").name == "mine"
    tuned = config(init="m")
    tuned.model.layers, tuned.tokenizer.low = 3, 21  # those of the model count
    assert run_folder.key(tuned, MADE_OF) == run_folder.key(config(init="m"), MADE_OF)


def test_a_run_with_other_settings_is_refused_by_their_names(tmp_path):
    begin(tmp_path / "run", config(lr=3e-3), MADE_OF | {"vocabulary": "v1"})  # not trained yet
    begin(tmp_path / "run", config())
    (tmp_path / "run" / "last.ckpt").touch()
    begin(tmp_path / "run", config(20))
    other = config(lr=2e-3)
    other.trainer.flags["limit_val_batches"] = 1
    names = r"optim\.lr was 0\.001, now 0\.002; trainer\.limit_val_batches was None, now 1\)"
    with pytest.raises(UserError, match=names + ".*another out="):
        begin(tmp_path / "run", other)
    with pytest.raises(UserError, match="its vocabulary is different"):
        begin(tmp_path / "run", config(), MADE_OF | {"vocabulary": "v1"})


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".part-1234-last.ckpt").touch()
    begin(run, config())
    assert [p.name for p in run.iterdir()] == [run_folder.SETTINGS]
    (tmp_path / "my notes.txt").touch()
    with pytest.raises(UserError, match="there is something else in this folder"):
        begin(tmp_path, config())


def timed(minutes: int) -> TrainConfig:
    trainer = TrainerConfig(max_time=f"00:00:0{minutes}:00")
    return dataclasses.replace(config(), trainer=trainer)


@pytest.mark.parametrize(
    ("done", "more"),
    [(config(), config(20)), (timed(1), timed(2)), (config(20, **STOPS), config(20))],
)
def test_a_finished_run_is_the_result_of_its_own_settings_alone(tmp_path, done, more):
    folder, status = RunFolder(tmp_path / "run"), {"step": 10, "seconds": 60.0}
    begin(folder.path, done)
    weights = folder.path / "model" / "model.safetensors"
    weights.parent.mkdir()
    weights.touch()
    folder.write_status(finished=True, **status, validation_loss=2.5)
    same = copy.deepcopy(done)
    folder.check(same, MADE_OF)
    assert folder.state(same) == State(True, 10, 60.0, 2.5)
    folder.check(more, MADE_OF)
    assert not folder.state(more).is_finished
    folder.write_status(finished=False, **status)
    assert not folder.state(same).is_finished
    folder.write_status(finished=True, **status)
    weights.unlink()
    assert not folder.state(same).is_finished
    begin(folder.path, more)  # marks the run as unfinished
    assert not folder.state(more).is_finished


def test_the_second_process_in_a_folder_is_refused_and_learns_who_has_it(tmp_path):
    program = (
        "import sys, time; from pathlib import Path\n"
        "from musictx.training.run_folder import exclusive_lock\n"
        "with exclusive_lock(Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    path = tmp_path / "run" / ".lock"
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as other:
        try:
            other.stdout.readline()
            for _ in range(2):  # a refused process leaves the lock as it is
                with pytest.raises(UserError, match=rf"run: process {other.pid} on "):
                    exclusive_lock(path).__enter__()
        finally:
            other.kill()
    with exclusive_lock(path):  # a killed process has no lock
        pass
    assert not list((tmp_path / "run").iterdir())


def test_damaged_small_files_of_a_run_are_one_sentence_or_count_as_none(tmp_path):
    folder, deep = RunFolder(tmp_path), "[" * 1000
    damaged = ("x" * 5000, "- a", "settings: [1]", "a: &x [*x]", "settings: 1:59:59", "\0")
    for text in (deep, *damaged):
        (tmp_path / run_folder.SETTINGS).write_text(text)
        with pytest.raises(UserError, match=r"run\.yaml: cannot be read; give another out="):
            folder.check(TrainConfig(), {})
    numbers = (("1e999", "1"), ("1", "NaN"), ('"many"', "1"))
    absurd = [f'{{"step": {n}, "seconds": {s}, "finished": true}}' for n, s in numbers]
    for text in (deep, "5", '{"step": 1}', *absurd):
        (tmp_path / run_folder.STATUS).write_text(text)
        assert folder.status() == State()
