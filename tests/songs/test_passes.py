"""Accompaniments with a lead-in: the music, beats and chords of the task are those after it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import musictx
from musictx.apps.tasks import Task
from musictx.notes import Score
from musictx.songs.passes import LeadIn
from tests.pieces import line

METERS = st.sampled_from([(4, 4), (3, 4), (6, 8), (1, 4)])
FAST = line(*range(60, 76), tempos=[(0, 200)])


@given(st.lists(METERS, min_size=2, max_size=4), st.integers(0, 6), st.integers(60, 150))
def test_what_follows_the_lead_in_is_the_music_of_the_task(meters, rest, bpm):
    """Two bars of each meter, slower and slower, with three notes a second."""
    marks, at = [], 0.0
    for n, meter in enumerate(meters):
        marks.append((at, *meter))
        at += 2 * meter[0] * 4 / meter[1] * 60 / bpm * (1 + n)
    tempos = [(time, bpm / (1 + n)) for n, (time, *_) in enumerate(marks)]
    notes = [(t, t + 0.5, 60, 80, 0, False, 0) for t in np.arange(rest, at, 1 / 3)]
    piece = Score(notes=notes, meters=marks, tempos=tempos, markers=[(t, "C") for t, *_ in marks])
    task = Task(piece, piece, float(rest), at, False, (), repeats=(*range(2 * len(meters)),))
    lead_in = LeadIn(task, task.begin)
    model_task = lead_in.model_task()
    begin, later = lead_in.begin, lead_in.seconds - lead_in.begin
    kept = lead_in.notes(model_task.score.notes)
    for name in ("start", "end"):
        np.testing.assert_allclose(kept[name], piece.notes[name], atol=1e-6)
    times = np.linspace(begin, at - 0.01, 50)
    bars, others = (
        [clock.bar(quarters)[1] for quarters in clock.quarters(seconds)]
        for clock, seconds in ((piece.beats, times), (model_task.score.beats, times + later))
    )
    np.testing.assert_allclose(others, bars, atol=1e-6)
    assert model_task.end - at == pytest.approx(later)
    assert model_task.repeats == (*range(lead_in.bars), *task.repeats)
    chords = dict(lead_in.chords(model_task.score.markers))
    assert [*chords] == pytest.approx([at for at in piece.meters["time"] if at >= begin - 1e-6])


@pytest.mark.parametrize("options", [{"melody": FAST}, {"chords": "| C | F |"}])
def test_accompaniments_have_a_lead_in(options, song, monkeypatch):
    """Its notes are neither reported nor counted as progress."""
    events, seconds, more = [], [], {"model": song, "seed": 1, **options}
    report = {"on_event": lambda *event: events.append(event), "progress": seconds.append}
    (made,) = musictx.accompany(**more, **report)
    new = made.score.notes[made.score.notes["track"] == made.score.notes["track"].max()]
    begun = sorted((event.seconds, event.pitch) for _, event in events if event.on)
    assert begun == sorted(new[["start", "pitch"]].tolist())
    assert 0.7 * made.seconds < max(seconds) <= made.seconds + 1e-6
    monkeypatch.setattr("musictx.songs.passes.LEAD_IN_BARS", 0)
    assert made.score != musictx.accompany(**more)[0].score


@pytest.mark.parametrize("add", [None, "bass", "drums"])
def test_a_note_without_length_is_accompanied(add, song):
    assert musictx.accompany(Score(notes=[(0.0, 0.0, 60, 80, 0, False, 0)]), song, add=add)
