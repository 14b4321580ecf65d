"""Groups ahead (songs/bar_layout.py): whatever they say, wherever they stand, the piece is read."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.songs import bar_layout
from musictx.songs.bar_codec import FIELDS_PER_NOTE
from musictx.songs.bar_tokens import BarTokenizer
from musictx.tokens.stream import CHORD, DRUM_PART
from musictx.tokens.vocab import CUT, SPECIALS
from tests.tokens.grids import gridded

TOKENS = BarTokenizer(low=40, high=70, velocity_bins=4, controls=True)
TABLE = TOKENS.vocabulary
BAR, KNOWN = TABLE.id("bar"), TABLE.id("known")
FRONT = ("stream", "density", "loudness", "register", "polyphony")
quick = settings(deadline=None, max_examples=60)


def of(kind: str) -> st.SearchStrategy[int]:
    first, stop = TABLE.range(kind)
    return st.integers(first, stop - 1)


def group(*kinds: str) -> st.SearchStrategy[list[int]]:
    return st.tuples(*map(of, kinds)).map(list)


any_id = st.integers(0, TABLE.size - 1)
content = st.integers(len(SPECIALS), TABLE.size - 1)
#: Groups of every shape, and of none.
groups = st.one_of(
    group("bar", "numerator", "denominator", "section", "place"),
    group("place", "program", "pitch", "length", "velocity"),
    group("place", "program", "pitch", "length", "tie"),
    group("place", "drums", "drum", "none", "velocity"),
    group("place", "harmony", "root", "quality", "none"),
    group("known", "numerator", "denominator", "section", "place"),
    group("known", "program", "none", "none", "none"),
    group("known", "drums", "none", "none", "none"),
    group(*FRONT),
    st.lists(content, min_size=FIELDS_PER_NOTE, max_size=FIELDS_PER_NOTE),
)


no_bars = st.lists(groups.filter(lambda one: one[0] != BAR), max_size=5)


def flat(groups: list[list[int]]) -> list[int]:
    return [i for one in groups for i in one]


@quick
@given(st.lists(groups, max_size=60), st.lists(any_id, max_size=200))
def test_any_ids_can_be_read_in_groups_or_not(drawn, rest):
    score = TOKENS.decode([*flat(drawn), *rest])
    assert (score.notes["end"] > score.notes["start"]).all()
    again = TOKENS.encode(score)
    assert TOKENS.decode(again) == TOKENS.quantise(score)
    TOKENS.grammar(again)


@quick
@given(gridded(), no_bars)
def test_what_stands_before_the_first_bar_line_is_nothing(piece, before):
    ids = TOKENS.encode(piece).tolist()
    assert TOKENS.decode([*flat(before), *ids]) == TOKENS.decode(ids)


@quick
@given(gridded(), st.data())
def test_what_stands_ahead_of_a_bar_line_is_passed_over(piece, data):
    ids = TOKENS.encode(piece)
    opening = st.tuples(st.just(KNOWN), content, content, content, content)
    woven = [CUT, *data.draw(group(*FRONT))]
    for bar in bar_layout.by_bar(ids, BAR):
        if data.draw(st.booleans()):
            woven += [*data.draw(opening), *flat(data.draw(no_bars))]
        woven += bar.reshape(-1).tolist()
    assert TOKENS.decode(woven) == TOKENS.decode(ids)
    plain, read_past = TOKENS.grammar(ids), TOKENS.grammar(woven)
    assert np.array_equal(read_past.allowed(), plain.allowed())
    assert (read_past.seconds, read_past.notes) == (plain.seconds, plain.notes)


@quick
@given(gridded(), st.data())
def test_what_is_known_of_a_bar_stands_once_before_its_line(piece, data):
    stream = TOKENS.read(TOKENS.encode(piece))
    notes, bar, count = stream.notes, stream.bar, len(stream.bars)
    begin = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(begin + 1, count))
    look = data.draw(st.integers(1, 3))
    mine = data.draw(st.lists(st.booleans(), min_size=len(notes), max_size=len(notes)))
    known = notes[np.array(mine)]
    whole = np.bincount(bar[np.array(mine)], minlength=count) == np.bincount(bar, minlength=count)
    parts = data.draw(st.lists(st.sampled_from([CHORD, 0, 40, DRUM_PART]), unique=True))
    ahead = bar_layout.Lookahead(begin, stop, look, known, whole, parts)
    ids, of_piece = bar_layout.interleaved(stream, ahead, TABLE)
    assert np.array_equal(ids[of_piece], TOKENS.write(stream))
    assert all(map(np.array_equal, TOKENS.read(ids), stream))
    # Read as a piece of their own, the groups ahead are the known bars.
    lines = ids[~of_piece].reshape(-1, FIELDS_PER_NOTE)
    assert (lines[: len(parts), 0] == KNOWN).all()
    lines = lines[len(parts) :].copy()
    at = lines[:, 0] == KNOWN
    assert (lines[at, 3] - TABLE.id("section")).tolist() == whole[begin:stop].tolist()
    lines[at, 0], lines[at, 3] = BAR, TABLE.id("section")
    inside = stream.only(known).in_bars(begin, stop)
    assert all(map(np.array_equal, TOKENS.read(lines.reshape(-1)), inside))
    # And at most ``look`` bars before it.
    first = ids[::FIELDS_PER_NOTE]
    told_at, bar_at = np.flatnonzero(first == KNOWN)[len(parts) :], np.flatnonzero(first == BAR)
    for number, place in zip(range(begin, stop), told_at, strict=True):
        assert (bar_at < place).sum() == max(begin, number - look + 1)
