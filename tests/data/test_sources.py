"""Corpora: folders in the order of names, official splits, shards that are used as they are."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import CorpusConfig
from musictx.data import corpora
from musictx.data.corpora import Folder, Maestro
from musictx.errors import UserError
from musictx.folders import walk, walk_several
from musictx.tokens.build import build
from tests.data.helpers import Given, contents, run, write_songs

TABLE = "split,midi_filename\ntest,song-003.mid\n"
names = st.text(st.sampled_from("ab.-/0 "), min_size=1, max_size=8)


@settings(max_examples=60)
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
    assert [file.name for file in walk(root, (".mid",))] == sorted(expected)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_every_folder_that_links_lead_to_is_listed_once(tmp_path_factory, links):
    """For any symbolic links, the real files are those that a plain search reaches."""
    root = tmp_path_factory.mktemp("c").resolve()
    places = [root / place for place in ("a", "a/b", "a/b/c", "d", "d/e", "f")]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / "x.mid").write_bytes(b"")
    for number, (place, target) in enumerate(links):
        (places[place] / f"l{number}").symlink_to(places[target])
    (places[0] / "dead").symlink_to(root / "nowhere")
    reached, waiting = set(), [places[0]]
    while waiting:
        folder = waiting.pop().resolve()
        if folder not in reached:
            reached.add(folder)
            waiting += [entry for entry in folder.iterdir() if entry.is_dir()]
    found = [Path(file.path).resolve() for file in walk(places[0], (".mid",))]
    assert sorted(found) == sorted(folder / "x.mid" for folder in reached)
    nested = dict.fromkeys(places[:3], "")
    assert [*walk_several(nested, (".mid",))] == [*walk(places[0], (".mid",))]


def test_several_folders_are_one_corpus(tmp_path):
    a, b = write_songs(tmp_path / "a", [1, 2]), write_songs(tmp_path / "b", [2, 3])
    c = write_songs(tmp_path / "other" / "a", [4])
    (b / "m.csv").write_text(TABLE)
    (b / "more").symlink_to(a)  # is one of them
    found = Folder([str(b), str(a), str(a / ".." / "a"), str(c)])
    names = ["a/song-001", "a/song-002", "a-2/song-004", "b/song-002", "b/song-003"]
    assert [item.name for item in found.items()] == [f"{name}.mid" for name in names]
    assert (len(found), found.label) == (5, "a+a-2+b")
    assert found.published_splits == {"b/song-003.mid": "test"}
    assert found.identity() == Folder([str(c), str(a), str(b)]).identity()
    (a / "song-001.mid").touch()
    assert found.identity() != Folder([str(a), str(b)]).identity()


@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_maestros_table_is_recognised_at_any_depth(tmp_path, bom):
    write_songs(tmp_path / "deep" / "maestro" / "2018", range(3))
    write_songs(tmp_path / "other", [3])
    (tmp_path / "deep" / "maestro" / "maestro.CSV").write_text(
        bom + "canonical_composer,split,year,midi_filename\n"
        "Alban Berg,train,2018,2018/song-000.mid\n"
        "Liszt,validation,2018,moved/song-001.mid\n"
        '"Bach, J. S.",test,2018,2018/song-002.mid\n'
        "Liszt,test,2018,2018/not-here.mid\n"
        "Liszt,silly,2018,2018/song-002.mid\n",
        encoding="utf-8",
    )
    splits = ["train", "validation", "test"]
    expected = {f"deep/maestro/2018/song-00{n}.mid": split for n, split in enumerate(splits)}
    assert Folder(str(tmp_path)).published_splits == expected


@pytest.mark.parametrize(
    ("folders", "table"),
    [
        (["a", "b"], TABLE.encode()),  # two files have this name
        (["a"], b"name,split\nsong-003.mid,test\n"),
        (["a"], bytes(range(256)) * 10),
    ],
)
def test_other_tables_decide_nothing(tmp_path, folders, table):
    for name in folders:
        write_songs(tmp_path / name, [3])
    (tmp_path / "maestro.csv").write_bytes(table)
    assert Folder(str(tmp_path)).published_splits == {}


class Wrong(Given):
    def items(self):
        return ["song-0"]


def test_a_folder_that_cannot_be_a_corpus_is_one_sentence(tmp_path, monkeypatch):
    a = str(write_songs(tmp_path / "a", [3]))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no music")
    empty, nowhere = str(tmp_path / "empty"), str(tmp_path / "nowhere")
    for wrong in (None, empty, nowhere, f"{empty}/notes.txt", [a, empty], [a, nowhere]):
        with pytest.raises(UserError, match=r"corpus\.path"):
            Folder(wrong)
    with pytest.raises(UserError, match=r"corpus\.path=\["):
        corpora.find(CorpusConfig(name="jsb", path=[a, a]))
    for name, path, reason in (
        ("no.such:Thing", None, "^corpus.name=no.such:Thing"),
        ("io:StringIO", None, "^corpus.name=io:StringIO: it has no label and no published"),
        (f"{__name__}:Wrong", None, "^corpus.name=.*:Wrong: its items.. gave song-0, expected"),
        ("tests.data.helpers:Given", "x:test", "^corpus.name=.*Given: cannot be created"),
        ("tests.data.helpers:Given", "5:trian 5:trian", "^corpus.name=.* gave .*'trian'"),
    ):
        with pytest.raises(UserError, match=reason):
            run(path, tmp_path / "out", name=name)
        assert not (tmp_path / "out").exists()
    changed = build(name="performance")
    changed.encoding_version = 99
    with pytest.raises(UserError, match=r"to_config"):
        run(a, tmp_path / "out", tokenizer=changed)
    monkeypatch.setattr(Given, "identity", lambda self: b"1")
    with pytest.raises(UserError, match=r"identity\(\) gave b'1', expected a str"):
        run(None, tmp_path / "out", name="tests.data.helpers:Given")
    with pytest.raises(UserError, match="MAESTRO"):
        Maestro(a)
    (tmp_path / "a" / "m.csv").write_text(TABLE)
    assert [item.split for item in Maestro(a).items()] == ["test"]


def test_shards_are_used_as_they_are_where_no_corpus_is_named(tmp_path):
    corpus = write_songs(tmp_path / "corpus", range(6))
    out = tmp_path / "out"
    made, before = run(corpus, out), contents(out)
    shutil.rmtree(corpus)
    report = run(None, out)
    assert report.up_to_date
    assert report.shards.folder == made.shards.folder
    assert report.shards.pieces() == made.shards.pieces()
    assert report[1:-1] == made[1:-1]
    assert contents(out) == before
    with pytest.raises(UserError, match="made by another tokenizer"):
        run(None, out, tokenizer=build(name="performance", low=21, high=108))
    (out / "tokens.bin").write_bytes(b"12")
    with pytest.raises(UserError, match="damaged token shards"):
        run(None, out)
    with pytest.raises(UserError, match="path is missing"):
        run(None, tmp_path / "nowhere")
