"""Files and folders are written whole or not at all."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from filelock import FileLock

from musictx import files
from musictx.errors import UserError, WriteError

FULL = OSError(28, "No space left on device")


def test_a_file_appears_whole_and_its_temporary_name_is_unpredictable(tmp_path: Path) -> None:
    """Else another user could put a link under that name, and the link's file would be written."""
    path, names = tmp_path / "new" / "a.txt", set()
    for n in range(50):
        with files.atomic(path) as partial:
            partial.write_text(str(n))
            assert not n or path.read_text() == str(n - 1)
        names.add(partial.name)
    assert os.listdir(path.parent) == ["a.txt"]
    assert len(names) == 50
    assert all(name.startswith(files.PARTIAL_PREFIX) and name.endswith("a.txt") for name in names)


def test_an_error_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    for error, raised, words in (
        (RuntimeError("x"), RuntimeError, "x"),
        (FULL, WriteError, r"a\.txt: .*No space left"),
    ):
        with pytest.raises(raised, match=words), files.atomic(path) as partial:  # noqa: PT012
            partial.write_text("new")
            raise error
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    folder, rename = tmp_path / "f", Path.rename
    for name, before in (("one", None), ("two", ["one"])):
        with files.atomic_folder(folder) as partial:
            (partial / name).write_text(name)
            assert not before or os.listdir(folder) == before
    assert os.listdir(folder) == ["two"]
    with pytest.raises(KeyError), files.atomic_folder(folder):
        raise KeyError

    def fails(path: Path, target: Path) -> Path:
        if path.name.startswith(files.PARTIAL_PREFIX) and "-old-" not in path.name:
            raise FULL
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(WriteError), files.atomic_folder(folder) as partial:
        (partial / "three").write_text("3")
    assert os.listdir(folder) == ["two"]
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_of_a_killed_process_is_removed_and_one_being_written_stays(tmp_path) -> None:
    left, other = (tmp_path / f".part-0123abcd-{name}" for name in ("shards", "other"))
    left.mkdir()
    (left / "tokens.bin").write_bytes(b"half")
    other.mkdir()
    with files.atomic_folder(tmp_path / "shards") as first:
        assert not left.exists()
        assert other.exists()
        with files.atomic_folder(tmp_path / "shards") as second:
            (second / "tokens.bin").write_bytes(b"second")
        assert first.exists()
        (first / "tokens.bin").write_bytes(b"first")
    assert (tmp_path / "shards" / "tokens.bin").read_bytes() == b"first"


def test_a_wrong_name_is_a_mistake_of_the_user_and_checking_creates_nothing(tmp_path) -> None:
    files.check_writable(tmp_path / "not" / "yet", "out")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "x").mkdir(parents=True)
    for path in (tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match=r"^out=") as caught:
            files.check_writable(path, "out")
        assert caught.value.status == 2
    for path in (tmp_path / "file" / "x.mid", tmp_path / "folder"):
        with pytest.raises(UserError, match="cannot be written") as caught:
            files.write_bytes(path, b"x")
        assert caught.value.status == 2


def test_a_folder_is_written_where_the_file_system_has_no_locks(tmp_path, monkeypatch) -> None:
    no_locks = OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr(FileLock, "acquire", Mock(side_effect=no_locks))
    left = tmp_path / ".part-0123abcd-shards"
    left.mkdir()
    with files.atomic_folder(tmp_path / "shards") as partial:
        (partial / "one").write_text("1")
    assert os.listdir(tmp_path / "shards") == ["one"]
    assert left.exists()  # it may still be being written
