"""How long notes sound and how many at once, against plain loops."""

import numpy as np
from hypothesis import given, settings

from musictx.evaluate import note_limits as h
from musictx.notes import Score
from tests.strategies import scores


@settings(max_examples=60, deadline=None)
@given(scores())
def test_habits_against_loops(score):
    notes = [n for n in score.notes if not n["drum"]]
    lengths = sorted(n["end"] - n["start"] for n in notes)
    # In order of writing: a note is there from its strike until its end.
    together = sorted(
        sum(other["end"] > note["start"] for other in notes[: i + 1])
        + (note["end"] == note["start"])  # no length, but struck
        - sum(
            other["end"] == other["start"] == note["start"] for other in notes[i + 1 :]
        )  # ended by then, struck after in the same moment
        - (note["end"] == note["start"])
        for i, note in enumerate(notes)
    )
    found = h.habits([score])
    if not notes:
        assert found == {}
        return
    place = int(np.ceil(h.SHARE * (len(notes) - 1)))
    assert found["longest_note"] == round(float(lengths[place]), 3)
    assert found["most_notes"] == max(1, together[place])


def test_several_pieces_are_one_corpus_and_drums_do_not_count():
    chord = Score(notes=[(0, 2, p, 80, 0, False, 0) for p in (60, 64, 67)])
    line = Score(notes=[(i, i + 1, 60, 80, 0, False, 0) for i in range(1000)])
    drums = Score(notes=[(0, 99, p, 80, 0, True, 0) for p in range(30, 60)])
    assert h.habits([chord, drums]) == {"longest_note": 2.0, "most_notes": 3}
    assert h.habits([chord, line, drums]) == {"longest_note": 1.0, "most_notes": 1}
    assert h.habits([drums]) == {}
