import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.data.windows import EvaluationWindows, collate, windows
from musictx.tokens.vocab import BOS, CUT, EOS
from tests.data.helpers import make_shards


def test_a_multiple_of_the_window_has_no_window_more():
    assert [(w.start, w.stop) for w in windows([16, 0, 8], 8)] == [(0, 8), (8, 16), (0, 8)]
    assert len(windows([40], 8, 4)) == 9
    for stride in (0, 9):  # which would stand, or skip
        with pytest.raises(ValueError, match=f"stride={stride}: expected 1 to 8"):
            windows([20], 8, stride)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 12), *[st.booleans()] * 3)
def test_evaluation_scores_each_event_once(tmp_path_factory, pieces, context, eos, begins, ends):
    random = np.random.default_rng(0)
    made = [random.integers(4, 300, n).astype(np.uint16) for n in pieces]
    folder = tmp_path_factory.mktemp("s") / "s"
    shards = make_shards(folder, [], made, begins=begins, ends=ends)
    rows = EvaluationWindows(shards, "validation", context, score_eos=eos)
    expected = [[*ids.tolist(), *([EOS] if eos and ends else [])] for ids in made]
    assert rows.targets == sum(map(len, expected))
    scored: list[list[int]] = [[] for _ in made]
    for window, row in zip(rows.table, rows):
        assert row.ids[0] == (BOS if begins and window.start == 0 else CUT)
        scored[window.piece] += row.targets[row.targets != -100].tolist()
        # the inputs are the true events before each target, also where nothing is scored
        truth = expected[window.piece][window.start : window.stop]
        assert row.ids[1:].tolist() == truth[:-1]
    assert scored == expected
    if len(rows):
        batch = collate(rows)
        assert int((batch.targets != -100).sum()) == rows.targets
        assert bool((batch.targets[batch.piece_ids == -1] == -100).all())
