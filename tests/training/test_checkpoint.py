"""A checkpoint is whole or not there, and nothing in it can run."""

import pickle
import zipfile

import pytest
import torch

from musictx.errors import UserError, WriteError
from musictx.training import checkpoint
from musictx.training.checkpoint import AtomicCheckpoints

STATE = {
    "state_dict": {"w": torch.arange(3.0)},
    "optimizer_states": [{"state": {}}],
    "lr_schedulers": [],
    "loops": {},
    "callbacks": {},
    "global_step": 7,
    "pytorch-lightning_version": "2.6.6",
}


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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"global_step": -5}, "global_step is -5"),
        ({"optimizer_states": []}, "it holds no state of an optimizer"),
        ({"callbacks": {"Clock": 5}}, "callbacks holds no state of Clock"),
        ({"callbacks": {"Clock": {}}}, "callbacks holds no state of Clock"),
        ({"global_step": "abc"}, "global_step is missing or no int"),
        ({"loops": None}, "loops is missing or no dict"),
        ({"state_dict": [1]}, "state_dict is missing or no dict"),
    ],
)
def test_a_hostile_checkpoint_is_refused_in_one_sentence(change, reason, tmp_path):
    path = write(tmp_path / "last.ckpt", STATE | change)
    with pytest.raises(UserError, match=rf"last\.ckpt: not a checkpoint .*{reason}.*another out="):
        checkpoint.read(path)


class Trojan:
    def __reduce__(self):
        return print, ("I ran",)


def test_a_file_that_would_run_something_is_refused(tmp_path, capsys):
    path = tmp_path / "last.ckpt"
    torch.save({"format": 1, "model": Trojan()}, path)
    with pytest.raises(UserError, match=r"not a checkpoint of musictx train.*another out="):
        checkpoint.read(path)
    path.write_bytes(pickle.dumps(Trojan()))
    with pytest.raises(UserError, match="not a checkpoint"):
        checkpoint.read(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"not a checkpoint at all", None])
def test_a_damaged_or_missing_file_gets_one_sentence(content, tmp_path):
    path = tmp_path / "last.ckpt"
    if content is None:
        whole = write(path).read_bytes()
        content = whole[: len(whole) // 2]
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint of musictx train"):
        checkpoint.read(path)
    path.unlink()
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint of musictx train"):
        checkpoint.read(path)


@pytest.mark.parametrize("pickled", [b"\x80\x02J\x01", b"\x80\x02K\x01Q."])
def test_a_pickle_that_breaks_off_in_the_archive_is_refused(pickled, tmp_path):
    """The first ends within a number; the second refers to a tensor by one."""
    path = tmp_path / "last.ckpt"
    with zipfile.ZipFile(write(path)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, data in parts.items():
            new.writestr(name, pickled if name.endswith("data.pkl") else data)
    with pytest.raises(UserError, match=r"last\.ckpt: not a checkpoint .*(4 bytes|tuple)"):
        checkpoint.read(path)


def test_a_class_with_an_absurd_name_is_refused_at_once(tmp_path, monkeypatch):
    """torch searches the sentence that it would say by a pattern whose time is quadratic in it."""
    path, load, asked = write(tmp_path / "last.ckpt"), torch.load, []
    monkeypatch.setattr(torch, "load", lambda *a, **k: (asked.append(a), load(*a, **k))[1])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    index = next(name for name in parts if name.endswith("/data.pkl"))
    for name, seen in (("a" * 900, True), ("a" * 60_000, False)):
        parts[index] = b"\x80\x02c" + name.encode() + b"\nb\n."
        with zipfile.ZipFile(path, "w") as archive:
            for one, data in parts.items():
                archive.writestr(one, data)
        asked.clear()
        with pytest.raises(UserError, match="it holds objects other than tensors"):
            checkpoint.read(path)
        assert bool(asked) == seen
