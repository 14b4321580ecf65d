from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.data import splits
from musictx.data.splits import NONE, TEST, TRAIN, VALIDATION


def hashed(contents: list[int]) -> np.ndarray:
    return np.array([hashlib.sha256(str(c).encode()).digest()[:16] for c in contents], splits.HASH)


def by_content(content: int, validation: float, test: float) -> int:
    """The rule in plain words, exact."""
    number = int(hashed([content])[0].hex()[:13], 16)
    if number < validation * 16**13:
        return VALIDATION
    return TEST if number < (validation + test) * 16**13 else TRAIN


#: (content, published split) of each piece; some contents come several times.
pieces = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from([NONE, NONE, NONE, TRAIN, VALIDATION, TEST])),
    min_size=1,
    max_size=60,
)
shares = st.sampled_from([(0.1, 0.0), (0.1, 0.1), (0.3, 0.2), (0.02, 0.0), (0.9, 0.05), (0, 0)])


def divide(found, share, **options):
    contents, official = (list(column) for column in zip(*found))
    return splits.divide(
        hashed(contents), np.array(official, np.int8), validation=share[0], test=share[1], **options
    )


@settings(deadline=None, max_examples=80)
@given(pieces, shares)
def test_each_content_is_kept_once_where_it_measures_and_first_in_the_list(found, share):
    division = divide(found, share)
    for content in {c for c, _ in found}:
        same = [i for i, (c, _) in enumerate(found) if c == content]
        best = min(same, key=lambda i: ([TEST, VALIDATION, TRAIN, NONE].index(found[i][1]), i))
        assert [division.first[i] for i in same] == [best] * len(same)
        assert [i for i in same if division.split[i] != NONE] == [best]


@settings(deadline=None, max_examples=80)
@given(pieces, shares)
def test_no_published_piece_that_measures_ever_trains(found, share):
    division = divide(found, share)
    measuring = {c for c, split in found if split in (VALIDATION, TEST)}
    for (content, split), now in zip(found, division.split):
        if now != NONE and content in measuring:
            assert now == split != TRAIN


@settings(deadline=None, max_examples=80)
@given(st.sets(st.integers(0, 200), min_size=1, max_size=60), shares)
def test_neither_training_nor_validation_is_ever_empty_without_a_published_split(contents, share):
    division = divide([(c, NONE) for c in contents], share)
    assert TRAIN in division.split
    assert len(contents) == 1 or not share[0] or VALIDATION in division.split


@settings(deadline=None, max_examples=80)
@given(st.sets(st.integers(0, 99)), st.sets(st.integers(100, 199)), shares)
def test_adding_pieces_never_moves_the_others(old, new, share):
    """Once the hash itself has filled validation and train (small corpora borrow a piece)."""
    expected = {c: by_content(c, *share) for c in old}
    if not {TRAIN, VALIDATION} <= set(expected.values()):
        return
    division = divide([(c, NONE) for c in [*new, *old]], share)
    assert expected == dict(zip(old, division.split[len(new) :].tolist()))


def test_published_test_pieces_alone_give_none_to_training():
    for share in ((0.1, 0.0), (0.3, 0.3), (0.0, 0.0)):
        division = divide([(c, TEST) for c in range(177)], share)
        assert set(division.split.tolist()) == {TEST}


def test_the_shares_are_as_asked():
    division = divide([(c, NONE) for c in range(10000)], (0.1, 0.05))
    assert abs(np.count_nonzero(division.split == VALIDATION) - 1000) < 5 * 30
    assert abs(np.count_nonzero(division.split == TEST) - 500) < 5 * 22


def test_a_larger_share_only_adds_to_validation():
    contents = hashed(list(range(1000)))
    small, large = (splits.hashed(contents, share, 0.0) == VALIDATION for share in (0.1, 0.2))
    assert not np.any(small & ~large)


def test_no_validation_where_none_is_asked():
    division = divide([(c, NONE) for c in range(50)], (0.0, 0.0))
    assert set(division.split.tolist()) == {TRAIN}
    assert not division.remarks


def test_where_no_official_validation_file_is_here_content_decides():
    division = divide([(c, TRAIN) for c in range(100)], (0.2, 0.0))
    assert 5 < np.count_nonzero(division.split == VALIDATION) < 40
    assert "no file of the official validation split" in division.remarks[0]


def test_a_piece_in_two_published_splits_is_told():
    division = divide([(1, TRAIN), (1, TEST), (2, NONE), (1, NONE)], (0.0, 0.0))
    assert division.split.tolist() == [NONE, TEST, TRAIN, NONE]
    assert division.remarks == [
        "1 pieces stand in several official splits: kept where they measure"
    ]
