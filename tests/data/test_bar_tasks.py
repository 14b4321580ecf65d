"""Windows of music in bars as tasks: what they hold follows from the piece, and nothing is lost."""

import numpy as np
import pytest

from musictx.data.bar_tasks import BarTasks
from musictx.data.windows import UNSCORED
from musictx.tokens import ahead
from musictx.tokens.build import build
from musictx.tokens.controls import CONTROLS
from musictx.tokens.group_ids import FIELDS_A_GROUP, read, write
from tests.model.test_grouped import song

TOKENS = build("notes", low=40, high=90, controls=True)
TABLE = TOKENS.vocabulary
FREE = 1500


def windows(task, count=60):
    """(the ids of a piece, a row of it)"""
    tasks = BarTasks(TOKENS, {})
    for number in range(count):
        random = np.random.default_rng(number)
        ids = TOKENS.encode(song(bars=6 + number % 30, seed=number % 7))
        row = tasks.row(task, ids, random, begins=True, ends=True, free=FREE)
        if row is not None:
            yield ids.astype(np.int64), row


def kinds(ids):
    return [TABLE.tokens[i][0] for i in ids]


@pytest.mark.parametrize("task", ["infill", "accompany", "vary", "steer"])
def test_the_piece_is_whole_without_what_is_ahead(task):
    found = 0
    for ids, row in windows(task):
        found += 1
        assert len(row.ids) <= FREE
        ends = row.targets[-1] == 2
        sequence = np.append(row.ids, row.targets[-1])
        inside = sequence[: len(sequence) - ends]
        bars, placed = read(inside, TABLE)
        piece = ids.reshape(-1, FIELDS_A_GROUP)
        mine = write(bars, placed, TABLE).reshape(-1, FIELDS_A_GROUP).astype(np.int64)
        starts = [
            at for at in range(len(piece)) if np.array_equal(piece[at : at + len(mine)], mine)
        ]
        assert starts, "a window is a stretch of its piece"
        assert (row.ids[0] == 1) == (0 in starts)
        # What is scored is the piece, all of it and nothing else.
        scored = np.append(row.targets[: len(inside) - 1], [])
        scored = scored[scored != UNSCORED]
        assert np.array_equal(scored, mine.reshape(-1))
    assert found > 20


@pytest.mark.parametrize("task", ["infill", "accompany"])
def test_what_is_ahead_is_known_before_it_is_written(task):
    some_new = 0
    for _, row in windows(task):
        sequence = np.append(row.ids, max(int(row.targets[-1]), 0))[1:]
        groups = sequence[: len(sequence) // 5 * 5].reshape(-1, 5)
        told, written, bar, here = {}, {}, 0, None
        for group in groups.tolist():
            first, second = kinds(group[:2])
            if first == "bar":
                bar, here = bar + 1, None
                written[bar] = [group[1:3] + group[4:]]
            elif first == "known" and second == "numerator":
                here = max([bar, *told]) + 1
                assert here not in written, "ahead of its line"
                told[here] = [group[1:3] + group[4:]]
                whole = TABLE.tokens[group[3]][1] == ahead.WHOLE
                told[here].append(whole)
            elif first == "place":
                (told[here] if here else written[bar]).append(group)
        assert told
        for bar, (line, whole, *known) in told.items():
            if bar not in written:
                continue
            meter, *there = written[bar]
            assert line == meter
            assert all(group in there for group in known)
            assert [group for group in there if group in known] == known
            new = [group for group in there if group not in known]
            some_new += bool(new)
            assert not (whole and new)
    assert some_new > 20


def test_controls_are_those_of_the_window_or_left_out():
    seen = 0
    for _, row in windows("steer"):
        levels = [TABLE.tokens[i] for i in row.ids[2:6].tolist()]
        assert [name for name, _ in levels] == list(CONTROLS)
        values = [value for _, value in levels]
        seen += any(values)
    assert seen > 20


def test_a_window_that_is_too_short_stays_plain():
    tasks = BarTasks(TOKENS, {})
    ids = TOKENS.encode(song(bars=2))
    random = np.random.default_rng(0)
    assert tasks.row("infill", ids, random, begins=True, ends=True, free=FREE) is None
