"""A checkpoint is whole or not there, and nothing in it can run."""

import pickle

import pytest
import torch

from musictx.errors import UserError, WriteError
from musictx.training import checkpoint
from musictx.training.checkpoint import AtomicCheckpoints

STATE = {"state_dict": {"w": torch.arange(3.0)}, "loops": {}, "global_step": 7}


def write(path, state=STATE):
    AtomicCheckpoints().save_checkpoint(state, path)
    return path


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    state = checkpoint.read(write(tmp_path / "last.ckpt"))
    assert torch.equal(state.pop("state_dict")["w"], STATE["state_dict"]["w"])
    assert state == {k: v for k, v in STATE.items() if k != "state_dict"}


FULL = OSError(28, "No space left on device")
#: What torch says when a disk is full in the middle of an archive.
ENDED = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")
ENDED.__context__ = FULL


@pytest.mark.parametrize("error", [FULL, RuntimeError("file write failed"), ENDED])
def test_a_failing_write_leaves_the_old_checkpoint_and_nothing_beside(error, tmp_path, monkeypatch):
    path = write(tmp_path / "last.ckpt")

    def full(state, file):
        file.write(b"half a check")
        raise error

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(
        WriteError, match=r"last\.ckpt: cannot be written: (No space.*|file write.*)$"
    ):
        write(path, STATE | {"global_step": 8})
    monkeypatch.undo()
    assert checkpoint.read(path)["global_step"] == 7
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]


class Trojan:
    def __reduce__(self):
        return print, ("I ran",)


def test_a_file_that_would_run_something_is_refused(tmp_path, capsys):
    path = tmp_path / "last.ckpt"
    torch.save({"format": 1, "model": Trojan()}, path)
    refused(path)
    path.write_bytes(pickle.dumps(Trojan()))
    refused(path)
    assert capsys.readouterr().out == ""


def refused(path):
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint"):
        checkpoint.read(path)


def test_a_damaged_or_missing_file_or_another_of_torch_s_is_one_sentence(tmp_path):
    path = tmp_path / "last.ckpt"
    whole = write(path).read_bytes()
    for content in (b"", b"not a checkpoint at all", whole[: len(whole) // 2]):
        path.write_bytes(content)
        refused(path)
    for other in (5, {}, {"state_dict": [1], "global_step": 1}, {"state_dict": {}}):
        torch.save(other, path)
        refused(path)
    path.unlink()
    refused(path)
