"""Training windows of tasks in bars: groups ahead of a bar hold given notes of the piece."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.data.windows import UNSCORED
from musictx.notes import DRUMS
from musictx.songs import bar_codec
from musictx.songs.bar_codec import FIELDS_PER_NOTE
from musictx.songs.bar_tasks import VARIED_BARS, BarTasks
from musictx.songs.bar_tokens import BarTokenizer
from musictx.songs.repeats import MIN_SIMILARITY
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD
from musictx.tokens.vocab import BOS, CUT, EOS, SPECIALS
from tests.pieces import line
from tests.songs.test_grouped import song
from tests.tokens.grids import gridded

TOKENS = build("notes", low=40, high=90, controls=True)
TABLE = TOKENS.vocabulary
BUDGET = 1500
NEVER_RETURNS = song().with_notes(line(*(45 + n * 7 % 40 for n in range(100)), every=0.25).notes)


def piece(task, number):
    """Return random music; for the task vary, bars resemble or equal those some bars before."""
    score = song(bars=6 + number % 30, seed=number % 7)
    if task != "vary":
        return score
    random, period = np.random.default_rng(number), 1.5 * (2 + number % 5)
    rows = score.notes.tolist()
    first = [row for row in rows if row[0] < period]
    for later in np.arange(1, 5) * period:
        kept = [row for row in first if random.random() < 0.9]
        rows += [(start + later, end + later, *rest) for start, end, *rest in kept]
    return score.with_notes(rows)


def windows(task, count=60):
    """Yield (ids of a piece, row of the task)."""
    for number in range(count):
        ids = TOKENS.encode(piece(task, number))
        if row := row_of(task, ids, number):
            yield ids.astype(np.int64), row


def row_of(task, ids, seed=0):
    random = np.random.default_rng(seed)
    return BarTasks(TOKENS, {}).row(task, ids, random, begins=True, ends=True, budget=BUDGET)


def without_repeats(ids):
    """Return (n, 5) groups, without the numbers of repeated bars in bar lines."""
    groups = ids.reshape(-1, FIELDS_PER_NOTE).astype(np.int64)
    groups[groups[:, 0] == TABLE.id("bar"), 3] = TABLE.id("section")
    return groups


@pytest.mark.parametrize("task", ["infill", "accompany", "vary", "steer"])
def test_a_window_without_the_groups_ahead_is_a_part_of_its_piece(task):
    found = list(windows(task))
    assert len(found) > 20
    for ids, row in found:
        assert len(row.ids) <= BUDGET
        has_end = row.targets[-1] == EOS
        window = np.append(row.ids, row.targets[-1:][: 1 - has_end])
        bars = TOKENS.write(TOKENS.read(window))
        # Bar lines of a window number only repeated bars of the window.
        piece, part = without_repeats(ids), without_repeats(bars)
        starts = [n for n in range(len(piece)) if np.array_equal(piece[n : n + len(part)], part)]
        assert starts, "a window is a stretch of its piece"
        assert (row.ids[0] == BOS) == (0 in starts)
        # Scored are the piece and what follows its bars once music is composed, nothing else.
        is_scored = row.targets[: len(window) - 1] != UNSCORED
        is_mark = window[1:] == TABLE.id("known")
        assert np.array_equal(window[1:][is_scored & ~is_mark], bars)
        after_bars = is_mark & np.append(False, (is_scored & ~is_mark)[:-1])
        assert np.array_equal(is_scored & is_mark, after_bars & (is_mark.cumsum() > 1))


def groups_of(window):
    """Return three dicts by number of the bar: its groups, groups ahead of it, and its section. The
    first group of a bar is its meter. ``window`` has no controls."""
    written, ahead, sections, bar, described = {}, {}, {}, 0, None
    for group in window[: len(window) // 5 * 5].reshape(-1, 5).tolist():
        first, second = (TABLE.tokens[i][0] for i in group[:2])
        if first == "bar":
            bar, described = bar + 1, None
            written[bar] = [(*group[1:3], group[4])]
        elif first == "known" and second == "numerator":
            described = max([bar, *ahead]) + 1
            ahead[described] = [(*group[1:3], group[4])]
            sections[described] = TABLE.tokens[group[3]][1]
        elif first == "place":
            (ahead[described] if described else written[bar]).append(tuple(group))
    return written, ahead, sections


@pytest.mark.parametrize(("task", "piece"), [("infill", song(bars=2)), ("vary", NEVER_RETURNS)])
def test_a_window_that_is_too_short_or_never_returns_stays_plain(task, piece):
    assert row_of(task, TOKENS.encode(piece)) is None


def test_the_varied_bars_are_a_similar_stretch_of_the_piece():
    exact = count = 0
    for ids, row in windows("vary", 120):
        count += 1
        written, ahead, sections = groups_of(np.append(row.ids, max(row.targets[-1], 0))[1:])
        whole, *_ = groups_of(ids)
        varied = [bar for bar, section in sections.items() if section == bar_codec.VARIED]
        assert varied == list(range(varied[0], varied[0] + len(varied)))
        assert VARIED_BARS[0] <= len(varied) <= VARIED_BARS[1]
        source = [ahead[bar] for bar in varied]
        assert any([whole.get(bar + n) for n in range(len(source))] == source for bar in whole)
        shares = []
        for bar in varied:
            notes, others = ([note[:3] for note in groups[bar][1:]] for groups in (written, ahead))
            shares.append(sum(n in others for n in notes) / max(len(notes), len(others), 1))
        assert np.mean(shares) >= MIN_SIMILARITY - 1e-9
        exact += sum(written[bar] == ahead[bar] for bar in varied)
        for bar in set(ahead) - {*varied}:
            assert sections[bar] == bar_codec.WHOLE
            assert bar > varied[-1]
    assert min(count, exact) > 10


FEW = BarTokenizer(low=40, high=70, velocity_bins=4, controls=True)
WORDS = FEW.vocabulary
BAR, KNOWN = WORDS.id("bar"), WORDS.id("known")
FRONT = ("stream", "density", "loudness", "register", "polyphony")
quick = settings(max_examples=60)


def of(kind: str) -> st.SearchStrategy[int]:
    first, stop = WORDS.range(kind)
    return st.integers(first, stop - 1)


def group(*kinds: str) -> st.SearchStrategy[list[int]]:
    return st.tuples(*map(of, kinds)).map(list)


content = st.integers(len(SPECIALS), WORDS.size - 1)
#: Groups of every form, and random ids.
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
no_bars = st.lists(groups.filter(lambda group: group[0] != BAR), max_size=5)


def flat(groups: list[list[int]]) -> list[int]:
    return [token for group in groups for token in group]


@quick
@given(st.lists(groups, max_size=60), st.lists(st.integers(0, WORDS.size - 1), max_size=200))
def test_any_ids_can_be_decoded(drawn, rest):
    score = FEW.decode([*flat(drawn), *rest])
    assert (score.notes["end"] > score.notes["start"]).all()
    again = FEW.encode(score)
    assert FEW.decode(again) == FEW.round_trip(score)
    FEW.grammar(again)


@quick
@given(gridded(), st.data())
def test_groups_ahead_of_a_bar_line_are_no_notes(piece, data):
    ids = FEW.encode(piece)
    opening = st.tuples(st.just(KNOWN), content, content, content, content)
    woven = [CUT, *data.draw(group(*FRONT))]
    for bar in bar_codec.split_bars(ids, WORDS):
        if data.draw(st.booleans()):
            woven += [*data.draw(opening), *flat(data.draw(no_bars))]
        woven += bar.reshape(-1).tolist()
    assert FEW.decode(woven) == FEW.decode(ids)
    plain, read_past = FEW.grammar(ids), FEW.grammar(woven)
    assert np.array_equal(read_past.allowed(), plain.allowed())
    assert (read_past.seconds, read_past.notes) == (plain.seconds, plain.notes)


@quick
@given(gridded(), st.data())
def test_given_notes_of_a_bar_are_written_once_before_its_line(piece, data):
    stream = FEW.read(FEW.encode(piece))
    notes, bar, count = stream.notes, stream.bar, len(stream.bars)
    begin = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(begin + 1, count))
    look = data.draw(st.integers(1, 3))
    is_given = data.draw(st.lists(st.booleans(), min_size=len(notes), max_size=len(notes)))
    given_notes = notes[np.array(is_given)]
    whole = ~np.isin(np.arange(count), bar[~np.array(is_given)])
    parts = data.draw(st.lists(st.sampled_from([CHORD, 0, 40, DRUMS]), unique=True))
    ahead = bar_codec.GivenAhead(begin, stop, look, given_notes, whole, parts)
    ids, of_piece = bar_codec.interleave(stream, ahead, WORDS)
    assert np.array_equal(ids[of_piece], FEW.write(stream))
    assert all(map(np.array_equal, FEW.read(ids), stream))
    # Decoded as a piece, the groups ahead are the bars of given notes.
    lines = ids[~of_piece].reshape(-1, FIELDS_PER_NOTE)
    assert (lines[: len(parts), 0] == KNOWN).all()
    lines = lines[len(parts) :].copy()
    is_line = lines[:, 0] == KNOWN
    assert (lines[is_line, 3] - WORDS.id("section")).tolist() == whole[begin:stop].tolist()
    lines[is_line, 0], lines[is_line, 3] = BAR, WORDS.id("section")
    inside = stream._replace(notes=given_notes).in_bars(begin, stop)
    assert all(map(np.array_equal, FEW.read(lines.reshape(-1)), inside))
    # They are at most ``look`` bars ahead.
    first = ids[::FIELDS_PER_NOTE]
    ahead_at, bar_at = np.flatnonzero(first == KNOWN)[len(parts) :], np.flatnonzero(first == BAR)
    for number, place in zip(range(begin, stop), ahead_at, strict=True):
        assert (bar_at < place).sum() == max(begin, number - look + 1)
