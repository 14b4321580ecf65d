"""Files and folders are there whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from filelock import FileLock

from musictx import files
from musictx.errors import UserError, WriteError


def test_a_file_appears_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with files.atomic(path) as beside:
        beside.write_text("half")
        assert not path.exists()
    assert path.read_text() == "half"
    assert os.listdir(path.parent) == ["a.txt"]


def test_hidden_names_cannot_be_foreseen(tmp_path: Path) -> None:
    """A link that somebody else has laid under the name of a part would be written through."""
    names = set()
    for _ in range(50):
        with files.atomic(tmp_path / "a.txt") as beside:
            beside.write_text("")
            names.add(beside.name)
    assert len(names) == 50
    assert all(name.startswith(files.PART) and name.endswith("a.txt") for name in names)


def test_an_error_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    full = OSError(28, "No space left on device")
    for error, raised, words in (
        (RuntimeError("x"), RuntimeError, "x"),
        (full, WriteError, r"a\.txt: .*No space left"),
    ):

        def fail(error: Exception = error) -> None:
            with files.atomic(path) as partial:
                partial.write_text("new")
                raise error

        with pytest.raises(raised, match=words):
            fail()
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    with files.atomic_folder(folder) as beside:
        (beside / "one").write_text("1")
    with files.atomic_folder(folder) as beside:
        (beside / "two").write_text("2")
        assert os.listdir(folder) == ["one"]
    assert os.listdir(folder) == ["two"]
    assert os.listdir(tmp_path) == ["f"]
    with pytest.raises(KeyError), files.atomic_folder(folder) as beside:
        raise KeyError
    assert os.listdir(folder) == ["two"]
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_that_cannot_be_put_in_its_place_leaves_the_old_one(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "f"
    with files.atomic_folder(folder) as partial:
        (partial / "one").write_text("1")
    rename = Path.rename

    def fails(path: Path, target: Path) -> Path:
        if path.name.startswith(files.PART) and "-old-" not in path.name:
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(WriteError), files.atomic_folder(folder) as partial:
        (partial / "two").write_text("2")
    assert os.listdir(folder) == ["one"]
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_that_a_killed_process_left_goes_and_one_being_written_stays(tmp_path) -> None:
    left = tmp_path / ".part-0123abcd-shards"
    left.mkdir()
    (left / "tokens.bin").write_bytes(b"half")
    other = tmp_path / ".part-0123abcd-other"
    other.mkdir()
    with files.atomic_folder(tmp_path / "shards") as mine:
        assert not left.exists()
        assert other.exists()
        with files.atomic_folder(tmp_path / "shards") as beside:
            (beside / "tokens.bin").write_bytes(b"theirs")
        assert mine.exists()
        (mine / "tokens.bin").write_bytes(b"mine")
    assert (tmp_path / "shards" / "tokens.bin").read_bytes() == b"mine"


def test_tables_have_the_columns_asked_for(tmp_path: Path) -> None:
    files.write_table(tmp_path / "t.csv", [{"a": 1, "b": "x,y", "c": 3}], ["b", "a"])
    assert (tmp_path / "t.csv").read_bytes() == b'b,a\n"x,y",1\n'


def test_asking_whether_a_folder_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    files.check_writable(tmp_path / "not" / "yet", "out")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"^out="):
        files.check_writable(tmp_path / "file" / "below", "out")
    with pytest.raises(UserError, match=r"^out=") as found:
        files.check_writable(tmp_path / ("x" * 300), "out")
    assert found.value.status == 2  # the name is wrong, not the machine


def test_a_file_where_a_folder_is_needed_is_a_wrong_name_and_no_fault_of_the_disk(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "x").mkdir(parents=True)
    for path in (tmp_path / "file" / "x.mid", tmp_path / "folder"):
        with pytest.raises(UserError, match="cannot be written") as caught:
            files.write_bytes(path, b"x")
        assert caught.value.status == 2


def test_a_folder_is_written_where_the_file_system_has_no_locks(tmp_path, monkeypatch) -> None:
    def acquire(self: FileLock) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", acquire)
    left = tmp_path / ".part-0123abcd-shards"
    left.mkdir()
    with files.atomic_folder(tmp_path / "shards") as beside:
        (beside / "one").write_text("1")
    assert os.listdir(tmp_path / "shards") == ["one"]
    assert left.exists()  # nobody knows whether it is still being written
