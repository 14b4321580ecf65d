from __future__ import annotations

import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import formats
from musictx.config import CorpusConfig
from musictx.data import corpora
from musictx.data.sources import Folder, Maestro
from musictx.errors import UserError
from tests.data.helpers import write_songs

names = st.text(st.sampled_from("ab.-/0 "), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(st.lists(names, max_size=20))
def test_a_folder_is_listed_in_the_order_of_the_names(tmp_path_factory, found):
    root = tmp_path_factory.mktemp("c")
    expected = set()
    for name in found:
        parts = [part for part in name.split("/") if part.strip(".")]
        path = root.joinpath(*parts[:-1], f"{parts[-1] if parts else 'x'}.mid")
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue
        if any((root / parent).is_file() for parent in path.parents) or path.is_dir():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        expected.add(path.relative_to(root).as_posix())
    assert [file.name for file in formats.walk(root, (".mid",))] == sorted(expected)


def test_links_to_folders_are_followed_once(tmp_path):
    """Folders of links, to folders on other disks for example, that lead to each other."""
    write_songs(tmp_path / "disk" / "deep", [1])
    write_songs(tmp_path / "disk" / ".hidden", [2])
    write_songs(tmp_path / "c", [3])
    (tmp_path / "c" / "a").symlink_to(tmp_path / "disk" / "deep")
    (tmp_path / "c" / "b").symlink_to(tmp_path / "disk")
    (tmp_path / "c" / "c").symlink_to(tmp_path / "disk" / "deep")
    (tmp_path / "c" / "d").symlink_to(tmp_path / "disk" / ".hidden")
    (tmp_path / "c" / "e").symlink_to(tmp_path)  # in which this folder is
    (tmp_path / "c" / "f").symlink_to(tmp_path / "c" / "f")  # leads nowhere
    (tmp_path / "disk" / "deep" / "back").symlink_to(tmp_path / "c")
    listed = [item.name for item in Folder(str(tmp_path / "c")).items()]
    assert listed == ["a/song-001.mid", "d/song-002.mid", "song-003.mid"]
    assert formats.find(tmp_path / "c") == [tmp_path / "c" / name for name in listed]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_every_folder_that_links_lead_to_is_listed_once(tmp_path_factory, links):
    """Whatever leads where: the real files found are those that a plain search reaches."""
    root = tmp_path_factory.mktemp("c").resolve()
    places = [root / place for place in ("a", "a/b", "a/b/c", "d", "d/e", "f")]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / "x.mid").write_bytes(b"")
    for number, (at, to) in enumerate(links):
        (places[at] / f"l{number}").symlink_to(places[to])
    reached, waiting = set(), [places[0]]
    while waiting:
        folder = waiting.pop().resolve()
        if folder not in reached:
            reached.add(folder)
            waiting += [entry for entry in folder.iterdir() if entry.is_dir()]
    found = [Path(file.path).resolve() for file in formats.walk(places[0], (".mid",))]
    assert sorted(found) == sorted(folder / "x.mid" for folder in reached)


def test_several_folders_are_one_corpus(tmp_path):
    a, b = write_songs(tmp_path / "a", [1, 2]), write_songs(tmp_path / "b", [2, 3])
    c = write_songs(tmp_path / "other" / "a", [4])
    (b / "m.csv").write_text("split,midi_filename\ntest,song-002.mid\n")
    (b / "more").symlink_to(a)  # is one of them
    found = Folder([str(b), str(a), str(a / ".." / "a"), str(c)])
    names = ["a/song-001.mid", "a/song-002.mid", "a-2/song-004.mid"]
    names += ["b/song-002.mid", "b/song-003.mid"]
    assert [item.name for item in found.items()] == names
    assert (len(found), found.label) == (5, "a+a-2+b")
    assert found.official == {"b/song-002.mid": "test"}
    assert found.identity() == Folder([str(c), str(a), str(b)]).identity()
    (a / "song-001.mid").touch()
    assert found.identity() != Folder([str(a), str(b)]).identity()


def test_one_folder_given_twice_or_within_another_is_one(tmp_path):
    """So its tokens are those that were prepared from it alone."""
    a = write_songs(tmp_path / "a", [1, 2])
    write_songs(a / "deep", [3])
    alone = Folder(str(a))
    for several in ([str(a)], [str(a), str(a)], [str(a / "deep"), str(a)]):
        found = Folder(several)
        assert (found.identity(), found.label) == (alone.identity(), alone.label)
        assert list(found.items()) == list(alone.items())


def test_many_files_are_a_stream(monkeypatch):
    """A corpus of a million files is never held at once."""

    class Entry:
        def __init__(self, name: str, folder: bool) -> None:
            self.name, self._folder = name, folder

        def is_dir(self, follow_symlinks: bool = True) -> bool:
            return self._folder

        def is_symlink(self) -> bool:
            return False

    class Scan:
        def __init__(self, path: str) -> None:
            inside = Path(path) != Path("/corpus")
            self.entries = [Entry(f"{i:04}" + ".mid" * inside, not inside) for i in range(300)]

        def __enter__(self) -> list[Entry]:
            return self.entries

        def __exit__(self, *error: object) -> None:
            pass

    file = os.stat_result((stat.S_IFREG,) + (0,) * 5 + (30_000, 0, 0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(formats.os, "scandir", Scan)
        patch.setattr(formats.os, "stat", lambda path: file)
        tracemalloc.start()
        count = sum(1 for _ in formats.walk("/corpus", (".mid",)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 90_000
    assert peak < 1.2e6


def test_a_corpus_is_known_by_names_sizes_and_times(tmp_path):
    root = write_songs(tmp_path / "c", range(3))
    path, first = root / "song-001.mid", Folder(str(root)).identity()
    assert Folder(str(root)).identity() == first
    os.utime(path, (1, 1))
    assert (later := Folder(str(root)).identity()) != first
    path.write_bytes(path.read_bytes() + b"x")
    os.utime(path, (1, 1))
    assert (longer := Folder(str(root)).identity()) not in (first, later)
    path.rename(root / "song-9.mid")
    assert Folder(str(root)).identity() not in (first, later, longer)


HEADER = "canonical_composer,split,year,midi_filename\n"


@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_maestros_table_is_recognised_at_any_depth(tmp_path, bom):
    write_songs(tmp_path / "deep" / "maestro" / "2018", range(3))
    write_songs(tmp_path / "other", [3])
    (tmp_path / "deep" / "maestro" / "maestro.CSV").write_text(
        bom + HEADER + "Alban Berg,train,2018,2018/song-000.mid\n"
        "Liszt,validation,2018,2018/song-001.mid\n"
        '"Bach, J. S.",test,2018,2018/song-002.mid\n'
        "Liszt,test,2018,2018/not-here.mid\n"
        "Liszt,silly,2018,2018/song-002.mid\n",
        encoding="utf-8",
    )
    found = Folder(str(tmp_path))
    assert found.official == {
        "deep/maestro/2018/song-000.mid": "train",
        "deep/maestro/2018/song-001.mid": "validation",
        "deep/maestro/2018/song-002.mid": "test",
    }
    assert len(found) == 4


def test_files_moved_away_from_maestros_table_keep_their_split(tmp_path):
    write_songs(tmp_path / "flat", range(2))
    (tmp_path / "maestro.csv").write_text(HEADER + "Liszt,validation,2018,2018/song-001.mid\n")
    assert Folder(str(tmp_path)).official == {"flat/song-001.mid": "validation"}


def test_a_bare_name_that_is_not_unique_gets_no_split_of_another_file(tmp_path):
    write_songs(tmp_path / "a", [1])
    write_songs(tmp_path / "b", [1])
    (tmp_path / "t.csv").write_text(HEADER + "Liszt,validation,2018,2018/song-001.mid\n")
    assert Folder(str(tmp_path)).official == {}


def test_other_tables_are_no_split(tmp_path):
    write_songs(tmp_path, [1])
    (tmp_path / "scores.csv").write_text("name,split\nsong-001.mid,test\n")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 10)
    assert Folder(str(tmp_path)).official == {}


def test_a_folder_that_cannot_be_a_corpus_is_one_sentence(tmp_path):
    a = str(write_songs(tmp_path / "a", [1]))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no music")
    empty, nowhere = str(tmp_path / "empty"), str(tmp_path / "nowhere")
    for wrong in (None, empty, nowhere, f"{empty}/notes.txt", [a, empty], [a, nowhere]):
        with pytest.raises(UserError, match=r"corpus\.path"):
            Folder(wrong)
    with pytest.raises(UserError, match=r"corpus\.path=\["):
        corpora.find(CorpusConfig(name="jsb", path=[a, a]))
    with pytest.raises(UserError, match="MAESTRO"):
        Maestro(a)
    (tmp_path / "a" / "m.csv").write_text("split,midi_filename\ntest,song-001.mid\n")
    assert [item.split for item in Maestro(a).items()] == ["test"]
