"""Which pieces are kept, and which are for training, validation and test."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from musictx import formats
from musictx.data.prepare import by_content, divide
from musictx.data.shards import Shards
from musictx.tokens.build import build
from tests.data.helpers import TOKENIZER, Given, run, song
from tests.pieces import line

shares = st.sampled_from([(0.1, 0.0), (0.1, 0.1), (0.3, 0.2), (0.02, 0.0), (0.9, 0.05), (0, 0)])
official = st.sampled_from([None, None, None, "train", "validation", "test"])


def hashed(contents) -> list[str]:
    return [hashlib.sha256(str(c).encode()).hexdigest()[:32] for c in contents]


def split(contents, share) -> list[str]:
    hashes = hashed(contents)
    return divide(hashes, [""] * len(hashes), validation=share[0], test=share[1])[0]


def given_corpus(pieces, folder, **options):
    """The report and the shards of a corpus of pieces (content, published split)."""
    path = " ".join(f"{content}:{published}" for content, published in pieces)
    return run(path, folder, name="tests.data.helpers:Given", **options), Shards(folder)


#: At most 12, so that ``corpus.path`` is not longer than a file name may be.
PIECES = st.lists(st.tuples(st.integers(0, 12), official), min_size=1, max_size=12)


@settings(max_examples=40)
@example([(1, "test")], (0.1, 0.0))
@example([(n, "test") for n in range(12)], (0.1, 0.0))
@given(PIECES, shares)
def test_each_content_is_kept_once_where_it_measures_and_first(tmp_path_factory, pieces, share):
    folder = tmp_path_factory.mktemp("out") / "shards"
    report, shards = given_corpus(pieces, folder, validation=share[0], test=share[1])
    order, kept = ["test", "validation", "train", None], {}
    for i, (content, _) in sorted(enumerate(pieces), key=lambda row: order.index(row[1][1])):
        kept.setdefault(content, i)
    rows = shards.pieces()
    assert list(dict.fromkeys(int(row.name) for row in rows)) == sorted(kept.values())
    copies = {i: kept[c] for i, (c, _) in enumerate(pieces) if i != kept[c]}
    assert {int(item.name): item.detail for item in report.left_out} == {
        i: f"the same notes as {original}" for i, original in copies.items()
    }
    for content, i in kept.items():
        ids = [shards.tokens(row.number) for row in rows if row.name == str(i)]
        np.testing.assert_array_equal(np.concatenate(ids), TOKENIZER.encode(song(content, notes=6)))
    for row in rows:  # no piece of a published validation or test split is in train
        published = pieces[int(row.name)][1]
        assert published not in ("validation", "test") or row.split == published
    conflicts = sum(s not in (None, pieces[kept[c]][1]) for c, s in pieces)
    assert any(f"{conflicts} pieces" in r for r in report.remarks) == (conflicts > 0)


def test_pieces_of_a_published_corpus_are_never_taken_for_duplicates(tmp_path, monkeypatch):
    monkeypatch.setattr(Given, "published", True)
    pieces = [(1, "train"), (1, "test"), (2, "validation"), (1, "train")]
    rows = given_corpus(pieces, tmp_path / "out")[1].pieces()
    assert [row.split for row in rows] == [s for _, s in pieces]
    assert len({row.hash for row in rows}) == 4


@given(st.sets(st.integers(0, 200), min_size=1, max_size=60), shares)
def test_neither_training_nor_validation_is_ever_empty_without_a_published_split(contents, share):
    splits = split(contents, share)
    assert "train" in splits
    assert len(contents) == 1 or not share[0] or "validation" in splits


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(100, 199)), shares)
def test_adding_pieces_never_moves_the_others(old, new, share):
    """If the hashes alone fill validation and train; in small corpora a piece is moved there."""
    expected = [by_content(h, *share) for h in hashed(old)]
    if {"train", "validation"} <= set(expected):
        assert split([*new, *old], share)[len(new) :] == expected


def test_the_shares_are_as_asked():
    splits = Counter(split(range(10000), (0.1, 0.05)))
    assert abs(splits["validation"] - 1000) < 5 * 30
    assert abs(splits["test"] - 500) < 5 * 22
    # the same if no piece is in the official validation split
    splits, remarks = divide(hashed(range(100)), ["train"] * 100, validation=0.2, test=0.0)
    assert 5 < splits.count("validation") < 40
    assert len(remarks) == 1


def test_the_rule_stays_as_it_is():
    """Models are trained with it: a changed rule would move their test pieces into train."""
    splits = {"0" * 13: "validation", "1999999999999": "validation", "199999999999a": "test"}
    splits |= {"3333333333333": "test", "f" * 13: "train"}
    assert {digits: by_content(digits + "0" * 19, 0.1, 0.1) for digits in splits} == splits


@pytest.mark.parametrize("tokenizer", [TOKENIZER, build("notes")])
def test_one_piece_is_cut_near_its_end_where_a_note_begins(tokenizer, tmp_path):
    formats.write(line(*range(40, 90)), tmp_path / "c" / "x.mid")
    options = {"path": tmp_path / "c", "tokenizer": tokenizer}
    report = run(out=tmp_path / "out", validation=0.13, **options)
    head, tail = report.shards.pieces()
    whole = run(out=tmp_path / "whole", validation=0.0, **options).shards
    (piece,) = whole.pieces()
    assert (piece.split, piece.begins, piece.ends) == ("train", True, True)
    assert [*report.shards.tokens(0), *report.shards.tokens(1)] == [*whole.tokens(0)]
    assert (head.split, head.begins, head.ends) == ("train", True, False)
    assert (tail.split, tail.begins, tail.ends) == ("validation", False, True)
    assert 0 <= tail.tokens - round(piece.tokens * 0.13) < tokenizer.align
    assert tail.offset % tokenizer.align == 0
    assert head.notes + tail.notes == piece.notes == 50
    assert len(report.remarks) == 1
