"""Windows of music in bars as tasks: what they hold follows from the piece, and nothing is lost."""

import numpy as np
import pytest

from musictx.data.windows import UNSCORED
from musictx.songs import bar_layout
from musictx.songs.bar_codec import FIELDS_PER_NOTE
from musictx.songs.bar_tasks import ALIKE, VARIED_BARS, BarTasks
from musictx.tokens.build import build
from tests.songs.test_grouped import song

TOKENS = build("notes", low=40, high=90, controls=True)
TABLE = TOKENS.vocabulary
BUDGET = 1500


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


@pytest.mark.parametrize("task", ["infill", "accompany"])
def test_what_is_ahead_is_known_before_it_is_written(task):
    some_new = 0
    for _, row in windows(task):
        written, ahead = groups_of(np.append(row.ids, max(int(row.targets[-1]), 0))[1:])
        assert ahead
        for bar, (section, known) in ahead.items():
            there = written.get(bar, known)
            assert [group for group in there if group in known] == known
            new = [group for group in there if group not in known]
            some_new += bool(new)
            assert section == 0 or not new
    assert some_new > 20


def test_a_window_that_is_too_short_stays_plain():
    tasks = BarTasks(TOKENS, {})
    ids = TOKENS.encode(song(bars=2))
    random = np.random.default_rng(0)
    assert tasks.row("infill", ids, random, begins=True, ends=True, budget=BUDGET) is None


def test_what_is_varied_is_an_earlier_stretch_of_the_piece():
    out_of_sight = exact = found = after = 0
    for ids, row in windows("vary", 120):
        found += 1
        sequence = np.append(row.ids, max(int(row.targets[-1]), 0))[1:]
        written, told = groups_of(sequence)
        whole, _ = groups_of(ids)
        varied = [bar for bar, (section, _) in told.items() if section == bar_layout.VARIED]
        assert varied == list(range(varied[0], varied[0] + len(varied)))
        assert VARIED_BARS[0] <= len(varied) <= VARIED_BARS[1]
        wanted = [told[bar][1] for bar in varied]
        starts = [
            at for at in range(1, len(whole) + 1)
            if [whole.get(at + n) for n in range(len(wanted))] == wanted
        ]  # fmt: skip
        assert starts, "they stand in the piece as they are told"
        # Where the window lies in its piece: the bars that it writes say it.
        first = [
            at for at in range(len(whole) - len(written) + 1)
            if all(whole[at + bar] == there for bar, there in written.items())
        ]  # fmt: skip
        assert any(start + len(varied) <= at + varied[0] for start in starts for at in first)
        shares = [
            sum(g[:3] in {h[:3] for h in told[bar][1][1:]} for g in written[bar][1:])
            / max(len(written[bar]) - 1, len(told[bar][1]) - 1, 1)
            for bar in varied
        ]
        assert np.mean(shares) >= ALIKE - 1e-9
        exact += sum(written[bar] == told[bar][1] for bar in varied)
        out_of_sight += all(
            start not in {a + b for a in first for b in written} for start in starts
        )
        for bar in set(told) - {*varied}:
            after += 1
            assert told[bar][0] == bar_layout.WHOLE
            assert bar > varied[-1]
    assert min(found, after, exact, out_of_sight) > 10


def test_music_that_never_returns_is_not_varied():
    tasks, random = BarTasks(TOKENS, {}), np.random.default_rng(0)
    notes = [(n / 4, n / 4 + 0.2, 45 + n * 7 % 40, 64, 0, False, 0) for n in range(100)]
    ids = TOKENS.encode(song().with_notes(notes))
    assert tasks.row("vary", ids, random, begins=True, ends=True, budget=BUDGET) is None
