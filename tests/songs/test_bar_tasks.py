"""Windows of music in bars: the groups ahead, and tasks that hold what follows from the piece."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.data.windows import UNSCORED
from musictx.songs import bar_layout
from musictx.songs.bar_codec import FIELDS_PER_NOTE
from musictx.songs.bar_tasks import ALIKE, VARIED_BARS, BarTasks
from musictx.songs.bar_tokens import BarTokenizer
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD, DRUM_PART
from musictx.tokens.vocab import CUT, SPECIALS
from tests.songs.test_grouped import song
from tests.tokens.grids import gridded

TOKENS = build("notes", low=40, high=90, controls=True)
TABLE = TOKENS.vocabulary
BUDGET = 1500
NEVER_RETURNS = song().with_notes(
    [(n / 4, n / 4 + 0.2, 45 + n * 7 % 40, 64, 0, False, 0) for n in range(100)]
)


def piece(task, number):
    """Random music; to be varied, of bars that are like those of some bars before, or the same."""
    score = song(bars=6 + number % 30, seed=number % 7)
    if task != "vary":
        return score
    random = np.random.default_rng(number)
    rows, some = [tuple(row) for row in score.notes.tolist()], 1.5 * (2 + number % 5)
    first = [row for row in rows if row[0] < some]
    for again in range(1, 5):
        kept = [row for row in first if random.random() < 0.9]
        rows += [(a + again * some, b + again * some, *rest) for a, b, *rest in kept]
    return score.with_notes([row for row in rows if row in first or row[0] >= some])


def windows(task, count=60):
    """(the ids of a piece, a row of it)"""
    tasks = BarTasks(TOKENS, {})
    for number in range(count):
        random = np.random.default_rng(number)
        ids = TOKENS.encode(piece(task, number))
        row = tasks.row(task, ids, random, begins=True, ends=True, budget=BUDGET)
        if row is not None:
            yield ids.astype(np.int64), row


def unsaid(groups):
    """Groups whose bar lines say no earlier bar again."""
    groups = groups.copy()
    groups[groups[:, 0] == TABLE.id("bar"), 3] = TABLE.id("section")
    return groups


def kinds(ids):
    return [TABLE.tokens[i][0] for i in ids]


@pytest.mark.parametrize("task", ["infill", "accompany", "vary", "steer"])
def test_the_piece_is_whole_without_what_is_ahead(task):
    found = 0
    for ids, row in windows(task):
        found += 1
        assert len(row.ids) <= BUDGET
        ends = row.targets[-1] == 2
        sequence = np.append(row.ids, row.targets[-1])
        inside = sequence[: len(sequence) - ends]
        mine = TOKENS.write(TOKENS.read(inside)).reshape(-1, FIELDS_PER_NOTE).astype(np.int64)
        # Which earlier bars are said again is known of the bars of the window alone.
        piece, part = unsaid(ids.reshape(-1, FIELDS_PER_NOTE)), unsaid(mine)
        starts = [
            at for at in range(len(piece)) if np.array_equal(piece[at : at + len(part)], part)
        ]
        assert starts, "a window is a stretch of its piece"
        assert (row.ids[0] == 1) == (0 in starts)
        # What is scored is the piece, all of it and nothing else.
        scored = np.append(row.targets[: len(inside) - 1], [])
        scored = scored[scored != UNSCORED]
        assert np.array_equal(scored, mine.reshape(-1))
    assert found > 20


def groups_of(window):
    """Of ids without controls: the bars written, and ahead of them (section, groups), by number.
    The first group of each is its meter."""
    written, ahead, bar, here = {}, {}, 0, None
    for group in window[: len(window) // 5 * 5].reshape(-1, 5).tolist():
        first, second = kinds(group[:2])
        if first == "bar":
            bar, here = bar + 1, None
            written[bar] = [(*group[1:3], group[4])]
        elif first == "known" and second == "numerator":
            here = max([bar, *ahead]) + 1
            ahead[here] = TABLE.tokens[group[3]][1], [(*group[1:3], group[4])]
        elif first == "place":
            (ahead[here][1] if here else written[bar]).append(tuple(group))
    return written, ahead


@pytest.mark.parametrize(("task", "piece"), [("infill", song(bars=2)), ("vary", NEVER_RETURNS)])
def test_a_window_that_is_too_short_or_never_returns_stays_plain(task, piece):
    tasks, random = BarTasks(TOKENS, {}), np.random.default_rng(0)
    ids = TOKENS.encode(piece)
    assert tasks.row(task, ids, random, begins=True, ends=True, budget=BUDGET) is None


def test_what_is_varied_is_a_stretch_of_the_piece():
    exact = found = 0
    for ids, row in windows("vary", 120):
        found += 1
        written, told = groups_of(np.append(row.ids, max(int(row.targets[-1]), 0))[1:])
        whole, _ = groups_of(ids)
        varied = [bar for bar, (section, _) in told.items() if section == bar_layout.VARIED]
        assert varied == list(range(varied[0], varied[0] + len(varied)))
        assert VARIED_BARS[0] <= len(varied) <= VARIED_BARS[1]
        wanted = [told[bar][1] for bar in varied]
        assert any([whole.get(at + n) for n in range(len(wanted))] == wanted for at in whole)
        shares = [
            sum(g[:3] in {h[:3] for h in told[bar][1][1:]} for g in written[bar][1:])
            / max(len(written[bar]) - 1, len(told[bar][1]) - 1, 1)
            for bar in varied
        ]
        assert np.mean(shares) >= ALIKE - 1e-9
        exact += sum(written[bar] == told[bar][1] for bar in varied)
        for bar in set(told) - {*varied}:
            assert told[bar][0] == bar_layout.WHOLE
            assert bar > varied[-1]
    assert min(found, exact) > 10


FEW = BarTokenizer(low=40, high=70, velocity_bins=4, controls=True)
WORDS = FEW.vocabulary
BAR, KNOWN = WORDS.id("bar"), WORDS.id("known")
FRONT = ("stream", "density", "loudness", "register", "polyphony")
quick = settings(deadline=None, max_examples=60)


def of(kind: str) -> st.SearchStrategy[int]:
    first, stop = WORDS.range(kind)
    return st.integers(first, stop - 1)


def group(*kinds: str) -> st.SearchStrategy[list[int]]:
    return st.tuples(*map(of, kinds)).map(list)


any_id = st.integers(0, WORDS.size - 1)
content = st.integers(len(SPECIALS), WORDS.size - 1)
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
    score = FEW.decode([*flat(drawn), *rest])
    assert (score.notes["end"] > score.notes["start"]).all()
    again = FEW.encode(score)
    assert FEW.decode(again) == FEW.quantise(score)
    FEW.grammar(again)


@quick
@given(gridded(), st.data())
def test_what_stands_ahead_of_a_bar_line_is_passed_over(piece, data):
    ids = FEW.encode(piece)
    opening = st.tuples(st.just(KNOWN), content, content, content, content)
    woven = [CUT, *data.draw(group(*FRONT))]
    for bar in bar_layout.by_bar(ids, BAR):
        if data.draw(st.booleans()):
            woven += [*data.draw(opening), *flat(data.draw(no_bars))]
        woven += bar.reshape(-1).tolist()
    assert FEW.decode(woven) == FEW.decode(ids)
    plain, read_past = FEW.grammar(ids), FEW.grammar(woven)
    assert np.array_equal(read_past.allowed(), plain.allowed())
    assert (read_past.seconds, read_past.notes) == (plain.seconds, plain.notes)


@quick
@given(gridded(), st.data())
def test_what_is_known_of_a_bar_stands_once_before_its_line(piece, data):
    stream = FEW.read(FEW.encode(piece))
    notes, bar, count = stream.notes, stream.bar, len(stream.bars)
    begin = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(begin + 1, count))
    look = data.draw(st.integers(1, 3))
    mine = data.draw(st.lists(st.booleans(), min_size=len(notes), max_size=len(notes)))
    known = notes[np.array(mine)]
    whole = np.bincount(bar[np.array(mine)], minlength=count) == np.bincount(bar, minlength=count)
    parts = data.draw(st.lists(st.sampled_from([CHORD, 0, 40, DRUM_PART]), unique=True))
    ahead = bar_layout.Lookahead(begin, stop, look, known, whole, parts)
    ids, of_piece = bar_layout.interleaved(stream, ahead, WORDS)
    assert np.array_equal(ids[of_piece], FEW.write(stream))
    assert all(map(np.array_equal, FEW.read(ids), stream))
    # Read as a piece of their own, the groups ahead are the known bars.
    lines = ids[~of_piece].reshape(-1, FIELDS_PER_NOTE)
    assert (lines[: len(parts), 0] == KNOWN).all()
    lines = lines[len(parts) :].copy()
    at = lines[:, 0] == KNOWN
    assert (lines[at, 3] - WORDS.id("section")).tolist() == whole[begin:stop].tolist()
    lines[at, 0], lines[at, 3] = BAR, WORDS.id("section")
    inside = stream._replace(notes=known).in_bars(begin, stop)
    assert all(map(np.array_equal, FEW.read(lines.reshape(-1)), inside))
    # And at most ``look`` bars before it.
    first = ids[::FIELDS_PER_NOTE]
    told_at, bar_at = np.flatnonzero(first == KNOWN)[len(parts) :], np.flatnonzero(first == BAR)
    for number, place in zip(range(begin, stop), told_at, strict=True):
        assert (bar_at < place).sum() == max(begin, number - look + 1)
