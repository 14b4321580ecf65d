"""Another tempo, meter or key: notes and marks keep their beats or their seconds, and back."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musictx.studio.change import Accepted
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.timing import timing_change, timings
from tests.studio.studios import take

NOTES = np.random.default_rng(19).uniform(0, 30, (40, 2)).tolist()
PIECE = Document(
    notes={n: (start, start + 1 + length, 60, 80, 0) for n, (start, length) in enumerate(NOTES)},
    next_id=len(NOTES),
    tempos=((0.0, 100.0), (10.0, 60.0), (20.0, 90.0)),
    meters=((0.0, 4, 4), (9.6, 3, 4)),
    keys=((0.0, 0, False), (12.0, 2, True)),
    pedals=((3.0, 127, 0), (11.0, 0, 0)),
    markers=((25.0, "C:maj"),),
    lyrics=((1.0, "la"),),
    fermatas=(4.8, 11.0),
    accepted={Accepted(1, 1, 0, 2, ((90, 4.0, 12.5, 60, 80, 0),))},
)


def after(document: Document, time: float = 0.0, keep_beats: bool = True, **values) -> Document:
    """Return the document with other ``values`` of its timing from ``time`` on."""
    old = [timing for timing in timings(document) if timing.time <= time][-1]
    changed = document.copy()
    data = vars(replace(old, time=time, **values)) | {"keep_beats": keep_beats}
    changed.apply(timing_change(document, data))
    return changed


def times(document: Document) -> np.ndarray:
    """Return the times of all notes, also replaced and proposed ones, and of all other marks."""
    marks = [getattr(document, name) for name in ("meters", "keys", "pedals", "markers", "lyrics")]
    rows = [row[0] for rows in marks for row in rows]
    proposed = take(1, [(3.0, 26.0, 60, 80, 0)]).at(document.clock)
    notes = [*document.notes.values(), *proposed.proposals[0].notes]
    notes += [note[1:] for row in document.accepted for note in row.replaced]
    rows += [*document.fermatas, proposed.end, *[time for note in notes for time in note[:2]]]
    return np.array(rows)


@given(st.floats(20, 300), st.sampled_from([0.0, 4.8, 10.0, 25.0]))
def test_in_another_tempo_everything_keeps_its_beat_or_its_seconds(bpm, start):
    later = after(PIECE, start, tempo=bpm)
    quarters = [piece.beats.quarters(times(piece)) for piece in (later, PIECE)]
    assert quarters[0] == pytest.approx(quarters[1], abs=1e-6)
    early = times(PIECE) < start
    assert times(later)[early] == pytest.approx(times(PIECE)[early], abs=1e-9)
    assert later.locked == PIECE.locked
    old = next(timing for timing in reversed(timings(PIECE)) if timing.time <= start)
    assert times(after(later, start, tempo=old.tempo)) == pytest.approx(times(PIECE), abs=1e-6)
    assert (times(after(PIECE, start, keep_beats=False, tempo=bpm)) == times(PIECE)).all()


def test_a_tempo_holds_to_the_next_one_and_at_the_beginning_scales_all():
    assert after(PIECE, tempo=150.0).tempos[0] == (0, 150)
    assert [bpm for _, bpm in after(PIECE, tempo=150.0).tempos] == pytest.approx([150, 90, 135])
    assert after(PIECE, tempo=150.0, keep_beats=False).tempos == ((0, 150),)
    later = after(PIECE, 4.8, tempo=140.0)
    assert [bpm for _, bpm in later.tempos] == [100, 140, 60, 90]
    assert [bpm for _, bpm in after(later, 4.8, tempo=100.0).tempos] == [100, 60, 90]
    assert [timing.time for timing in timings(PIECE)] == [0, 9.6, 10, 12, 20]


def test_meter_key_and_pick_up_of_the_beginning_and_later_ones_stay():
    piece = Document(meters=((0.0, 4, 4), (8.0, 3, 4)))
    expected = [(120, 4, 4, None), (120, 3, 4, None)]
    assert [(t.tempo, t.beats, t.unit, t.key) for t in timings(piece)] == expected
    assert after(piece).meters == piece.meters
    marked = after(piece, beats=6, unit=8, key=(-3, True))
    assert (marked.meters, marked.keys) == (((0, 6, 8), (8, 3, 4)), ((0, -3, True),))
    assert after(marked, key=None).keys == ()
    assert after(marked, 8.0, beats=6, unit=8).meters == ((0, 6, 8),)
    begun = after(piece, pickup=1)
    assert begun.meters == ((0, 1, 4), (0.5, 4, 4), (8, 3, 4))
    assert [(t.time, t.beats, t.pickup) for t in timings(begun)] == [(0, 4, 1), (8, 3, 1)]
    assert after(begun, beats=3).meters == ((0, 1, 4), (0.5, 3, 4), (8, 3, 4))
    assert after(begun, pickup=0).meters == piece.meters
    for pickup, meter in ((1.5, (3, 8)), (0.5, (1, 8)), (2.25, (9, 16))):
        begun = after(piece, pickup=pickup)
        assert (begun.meters[0][1:], timings(begun)[0].pickup) == (meter, pickup)


@pytest.mark.parametrize("data", [{}, {"time": -1}, {"tempo": np.nan}, {"beats": 0}, {"pickup": 4}])
def test_a_damaged_timing_is_refused(data):
    valid = vars(timings(PIECE)[0])
    with pytest.raises(Refused):
        timing_change(PIECE, valid | data if data else {})
