"""Statistics of a corpus, against plain loops."""

from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.data import statistics
from musictx.data.shards import Shards, new_shards
from musictx.tokens import controls
from musictx.tokens.build import build
from tests.data.helpers import add
from tests.pieces import of
from tests.strategies import scores


@settings(max_examples=30)
@given(scores())
def test_note_limits_against_loops(score):
    notes = [n for n in score.notes if not n["drum"]]
    stats = statistics.note_limits([score])
    if not notes:
        assert stats == {}
        return
    # In the order of the notes, a note sounds from its strike to its end. A note without length
    # that follows at the same moment counts as ended.
    together = [
        sum(other["end"] > note["start"] for other in notes[: i + 1])
        - sum(other["end"] == other["start"] == note["start"] for other in notes[i + 1 :])
        for i, note in enumerate(notes)
    ]
    limit = sorted(together)[int(np.ceil(statistics.SHARE_WITHIN * (len(together) - 1)))]
    assert stats["most_notes"] == max(1, limit)
    programs = [128 if n["drum"] else int(n["program"]) for n in score.notes]
    assert stats["instruments"] == sorted({*programs})
    for part, most, low, high, rate in stats["parts"]:
        of_part = [n for n, program in zip(score.notes, programs) if program == part]
        pitches = sorted(int(n["pitch"]) for n in of_part)
        assert pitches[0] <= low <= high <= pitches[-1]
        assert sum(low <= pitch <= high for pitch in pitches) >= 0.96 * len(pitches) - 2
        assert 1 <= most <= len(of_part)
        spread = max(of_part[-1]["start"] - of_part[0]["start"], 1.0)
        assert rate == round(float(len(of_part) / spread), 3)
    assert stats["restruck"] == pytest.approx(statistics.restruck(score), abs=1e-4)
    seconds = statistics.MIDDLE_SECONDS
    middle = statistics.excerpt(score, max(0.0, (score.duration - seconds) / 2), seconds)
    polyphony = controls.measure_controls(middle.notes, middle.duration).get("polyphony")
    assert stats.get("polyphony") == (None if polyphony is None else round(polyphony, 3))
    span = float(max(n["end"] for n in notes) - notes[0]["start"])
    assert stats.get("density") == (round(len(notes) / span, 3) if span else None)


def test_several_pieces_are_one_corpus_and_drums_do_not_count():
    chord = of((0, 2, 60), (0, 2, 64), (0, 2, 67))
    line = of(*[(i, i + 1, 60) for i in range(1000)])
    drums = of(*[(0, 99, p, 80, 0, True) for p in range(30, 60)])
    both = statistics.note_limits([chord, line, drums])
    assert (both["most_notes"], both["density"]) == (1, median([3 / 2, 1.0]))


@given(st.lists(st.lists(st.integers(0, 3), unique=True).map(sorted), max_size=30))
def test_ensembles_are_the_commonest_sets_of_several_parts(pieces):
    rows = statistics.ensembles(pieces)
    several = [programs for programs in pieces if len(programs) > 1]
    counts, sets = [count for count, _ in rows], [programs for _, programs in rows]
    assert counts == [several.count(programs) for programs in sets]
    left = [several.count(programs) for programs in several if programs not in sets]
    assert counts == sorted(counts, reverse=True)
    assert max(left, default=0) <= min(counts, default=0)
    assert sum(counts) >= statistics.SHARE_WITHIN * len(several)
    assert not rows or sum(counts[:-1]) < statistics.SHARE_WITHIN * len(several)


def test_the_ensembles_of_a_corpus_are_those_of_all_its_pieces(tmp_path):
    """All pieces of the training split, not a sample."""
    tokens = build("notes", chords=False)
    duo = tokens.encode(of((0, 1, 60, 64, 0), (0, 1, 60, 64, 73), (1, 2, 40, 64, 0, True)))
    solo = tokens.encode(of((0, 1, 60)))
    with new_shards(tmp_path / "shards", tokens, corpus={}) as shards:
        for n in range(250):
            split = "train" if n < 240 else "validation"
            add(shards, duo if n % 50 == 7 else solo, name=f"{n:03}", split=split)
    limits = statistics.of_corpus(Shards(tmp_path / "shards"), tokens)
    assert limits["ensembles"] == [[5, [0, 73, 128]]]
