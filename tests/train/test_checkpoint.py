"""A checkpoint is whole or not there, and nothing in it can run."""

import pickle

import pytest
import torch

from musictx.errors import UserError
from musictx.train import checkpoint

STATE = {"step": 7, "best": {"nll": 1.5, "step": 5}, "model": {"w": torch.arange(3.0)}, "ema": None}


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    path = checkpoint.write(tmp_path / "last.ckpt", STATE)
    state = checkpoint.read(path)
    assert torch.equal(state.pop("model")["w"], STATE["model"]["w"])
    assert {k: state[k] for k in ("step", "best", "ema")} == {
        "step": 7,
        "best": STATE["best"],
        "ema": None,
    }


def test_a_failing_write_leaves_the_old_checkpoint_and_nothing_beside(tmp_path, monkeypatch):
    path = checkpoint.write(tmp_path / "last.ckpt", STATE)

    def full(state, file):
        file.write(b"half a check")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"last\.ckpt: cannot write the checkpoint: no space"):
        checkpoint.write(path, {"step": 8})
    monkeypatch.undo()
    assert checkpoint.read(path)["step"] == 7
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_copy_stays_when_the_original_is_replaced(tmp_path):
    path = checkpoint.write(tmp_path / "best.ckpt", STATE)
    copy = checkpoint.copy(path, tmp_path / "last.ckpt")
    checkpoint.write(path, {"step": 8})
    assert checkpoint.read(copy)["step"] == 7
    assert checkpoint.read(path)["step"] == 8
    assert len(list(tmp_path.iterdir())) == 2


class Trojan:
    def __reduce__(self):
        return print, ("I ran",)


def test_a_file_that_would_run_something_is_refused(tmp_path, capsys):
    path = tmp_path / "last.ckpt"
    torch.save({"format": 1, "model": Trojan()}, path)
    with pytest.raises(UserError, match=r"not a checkpoint of musictx train.*fresh=true"):
        checkpoint.read(path)
    path.write_bytes(pickle.dumps(Trojan()))
    with pytest.raises(UserError, match="not a checkpoint"):
        checkpoint.read(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"not a checkpoint at all", None])
def test_a_damaged_or_missing_file_gets_one_sentence(content, tmp_path):
    path = tmp_path / "last.ckpt"
    if content is None:
        whole = checkpoint.write(path, STATE).read_bytes()
        content = whole[: len(whole) // 2]
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint of musictx train"):
        checkpoint.read(path)
    path.unlink()
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint of musictx train"):
        checkpoint.read(path)


def test_a_newer_format_is_refused_by_name(tmp_path):
    path = checkpoint.write(tmp_path / "last.ckpt", {"format": 99})
    with pytest.raises(UserError, match="format 99, this musictx reads up to 1"):
        checkpoint.read(path)
