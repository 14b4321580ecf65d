"""Which runs may resume each other, and what is refused."""

import os

import pytest

from musictx.config import CorpusConfig, OptimConfig, TrainConfig, TrainerConfig
from musictx.errors import UserError
from musictx.train import runs

MADE_OF = {"corpus": "c0", "vocabulary": "v0"}


def config(lr: float = 1e-3, steps: int = 10, **options) -> TrainConfig:
    return TrainConfig(
        corpus=CorpusConfig(path="/somewhere"),
        optim=OptimConfig(lr=lr),
        trainer=TrainerConfig(steps=steps),
        **options,
    )


def begin(path, settings, made_of=MADE_OF, fresh=False):
    runs.RunFolder(path).begin(settings, made_of, fresh=fresh, musictx="test")


def test_the_default_folder_is_the_same_when_more_is_asked_and_another_for_another_run():
    def where(settings, made_of=MADE_OF):
        return runs.choose(settings, "My Songs!", made_of)

    usual = where(config())
    assert usual.parent.name == "runs"
    assert usual.name.startswith("My-Songs-")
    assert where(config(steps=99)) == usual
    assert where(config(fresh=True)) == usual
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
    begin(tmp_path / "run", config(steps=20))
    with pytest.raises(UserError, match=r"optim\.lr was 0\.001, now 0\.002.*fresh=true"):
        begin(tmp_path / "run", config(lr=2e-3))
    with pytest.raises(UserError, match="its vocabulary is another one"):
        begin(tmp_path / "run", config(), MADE_OF | {"vocabulary": "v1"})


def test_fresh_removes_what_a_run_left_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    begin(run, config())
    (run / "model").mkdir()
    (run / "model" / "config.yaml").touch()
    (run / "last.ckpt").touch()
    (run / "my notes.txt").touch()
    (run / ".last.ckpt.writing").touch()
    begin(run, config(lr=2e-3), fresh=True)
    assert {p.name for p in run.iterdir()} == {"run.yaml", "my notes.txt"}


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").touch()
    for fresh in (False, True):
        with pytest.raises(UserError, match="there is something else in this folder"):
            begin(tmp_path, config(), fresh=fresh)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"out=.*file/run: .*file is a file"):
        runs.check_writable(tmp_path / "file" / "run")
    runs.check_writable(tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_protected_place_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match=r"out=.*cannot be written"):
        runs.check_writable(tmp_path / "run")
    tmp_path.chmod(0o700)
