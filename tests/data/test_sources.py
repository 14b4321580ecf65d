from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi
from musictx.data import sources
from musictx.data.sources import Identity
from musictx.errors import UserError
from tests.data.helpers import song, write_songs


def hashed(content: int) -> str:
    return hashlib.sha256(str(content).encode()).hexdigest()[:32]


#: Files by content: some contents come several times.
files = st.dictionaries(st.integers(0, 200), st.integers(0, 60), min_size=1, max_size=60).map(
    lambda d: [Identity(f"{name:03}.mid", hashed(content)) for name, content in d.items()]
)
shares = st.sampled_from([(0.1, 0.0), (0.1, 0.1), (0.3, 0.2), (0.02, 0.0), (0.9, 0.05)])
officials = st.dictionaries(
    st.integers(0, 200).map(lambda n: f"{n:03}.mid"),
    st.sampled_from(["train", "validation", "test"]),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(files, officials)
def test_each_content_is_kept_once_and_each_duplicate_names_its_original(pieces, official):
    kept, duplicates = sources.without_duplicates(pieces, official)
    by_name = dict(pieces)
    assert len({p.hash for p in kept}) == len(kept) == len({p.hash for p in pieces})
    assert {p.name for p in kept} | set(duplicates) == set(by_name)
    assert not {p.name for p in kept} & set(duplicates)
    for other, first in duplicates.items():
        assert by_name[other] == by_name[first]
        assert first in {p.name for p in kept}


@settings(deadline=None, max_examples=60)
@given(files, officials, st.randoms())
def test_what_is_kept_does_not_depend_on_the_order_of_the_files(pieces, official, random):
    mixed = list(pieces)
    random.shuffle(mixed)
    assert sources.without_duplicates(mixed, official) == sources.without_duplicates(
        pieces, official
    )


@settings(deadline=None, max_examples=60)
@given(files, shares)
def test_neither_training_nor_validation_is_ever_empty(pieces, share):
    kept, _ = sources.without_duplicates(pieces, {})
    splits, _ = sources.split(kept, {}, validation=share[0], test=share[1])
    assert set(splits) == {p.name for p in kept}
    assert "train" in splits.values()
    assert len(kept) == 1 or "validation" in splits.values()


@settings(deadline=None, max_examples=60)
@given(files, files, shares)
def test_adding_files_never_moves_the_others(old, new, share):
    """Once the hash itself has filled validation and train (small corpora borrow a piece)."""
    validation, test = share
    new = [p._replace(name=f"new {p.name}") for p in new]
    more = {p.hash: p for p in [*new, *old]}
    before, after = list({p.hash: p for p in old}.values()), list(more.values())
    by_hash = {p.hash: sources.hashed_split(p.hash, validation, test) for p in before}
    if not {"train", "validation"} <= set(by_hash.values()):
        return
    first, _ = sources.split(before, {}, validation=validation, test=test)
    second, _ = sources.split(after, {}, validation=validation, test=test)
    for piece in before:
        assert first[piece.name] == second[more[piece.hash].name] == by_hash[piece.hash]


def test_the_shares_are_as_asked():
    splits = [sources.hashed_split(hashed(i), 0.1, 0.05) for i in range(10000)]
    assert abs(splits.count("validation") - 1000) < 5 * 30
    assert abs(splits.count("test") - 500) < 5 * 22


def test_a_larger_share_only_adds_to_validation():
    for i in range(1000):
        if sources.hashed_split(hashed(i), 0.1, 0.0) == "validation":
            assert sources.hashed_split(hashed(i), 0.2, 0.0) == "validation"


def test_no_validation_where_none_is_asked():
    pieces = [Identity(f"{i}.mid", hashed(i)) for i in range(50)]
    splits, remarks = sources.split(pieces, {}, validation=0.0, test=0.0)
    assert set(splits.values()) == {"train"}
    assert not remarks


def test_a_piece_in_two_official_splits_stays_where_it_measures():
    same = [Identity(f"{s}.mid", hashed(1)) for s in ("train", "validation", "test", "extra")]
    official = {f"{s}.mid": s for s in ("train", "validation", "test")}
    kept, duplicates = sources.without_duplicates(same, official)
    assert [p.name for p in kept] == ["test.mid"]
    kept, _ = sources.without_duplicates([same[0], same[1], same[3]], official)
    assert [p.name for p in kept] == ["validation.mid"]
    kept, _ = sources.without_duplicates([same[3], same[0]], official)
    assert [p.name for p in kept] == ["train.mid"]
    assert set(duplicates.values()) == {"test.mid"}


def test_where_no_official_validation_file_is_here_content_decides():
    pieces = [Identity(f"{i}.mid", hashed(i)) for i in range(100)]
    official = {p.name: "train" for p in pieces}
    splits, remarks = sources.split(pieces, official, validation=0.2, test=0.0)
    assert 5 < list(splits.values()).count("validation") < 40
    assert "no file of the official validation split" in remarks[0]


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
    found = sources.find(str(tmp_path))
    assert found.official == {
        "deep/maestro/2018/song-000.mid": "train",
        "deep/maestro/2018/song-001.mid": "validation",
        "deep/maestro/2018/song-002.mid": "test",
    }
    assert len(found.files) == 4


def test_files_moved_away_from_maestros_table_keep_their_split(tmp_path):
    write_songs(tmp_path / "flat", range(2))
    (tmp_path / "maestro.csv").write_text(HEADER + "Liszt,validation,2018,2018/song-001.mid\n")
    assert sources.find(str(tmp_path)).official == {"flat/song-001.mid": "validation"}


def test_a_bare_name_that_is_not_unique_gets_no_split_of_another_file(tmp_path):
    write_songs(tmp_path / "a", [1])
    write_songs(tmp_path / "b", [1])
    (tmp_path / "t.csv").write_text(HEADER + "Liszt,validation,2018,2018/song-001.mid\n")
    assert sources.find(str(tmp_path)).official == {}


def test_other_tables_are_no_split(tmp_path):
    write_songs(tmp_path, [1])
    (tmp_path / "scores.csv").write_text("name,split\nsong-001.mid,test\n")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 10)
    found = sources.find(str(tmp_path))
    assert found.official == {}
    assert found.tables == []


def test_any_suffix_any_case_any_depth(tmp_path):
    names = ["A.MID", "b/c/d/e.midi", "b/F.Kar", "b/g.RMI"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(midi.to_bytes(song(1)))
    (tmp_path / "b" / "readme.txt").write_text("no music")
    assert [f.name for f in sources.find(str(tmp_path)).files] == sorted(names)


def test_what_to_do_without_files_is_said(tmp_path):
    with pytest.raises(UserError, match=r"corpus.path is missing: .*corpus.path=DIR"):
        sources.find(None)
    with pytest.raises(UserError, match=r"corpus.path=.*nowhere: there is no such folder"):
        sources.find(str(tmp_path / "nowhere"))
    (tmp_path / "notes.txt").write_text("no music")
    with pytest.raises(UserError, match=r"corpus.path=.*: no MIDI file in this folder or below"):
        sources.find(str(tmp_path))
    with pytest.raises(UserError, match=r"this is a file; give the folder it lies in"):
        sources.find(str(tmp_path / "notes.txt"))
