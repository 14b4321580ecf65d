"""Conversion Score <-> document, parts of scores, beats, chords, mixers and controllers."""

from dataclasses import replace
from functools import partial

import mido
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import midi, musicxml
from musictx.beats import Beats
from musictx.notes import Score
from musictx.sampling.timeline import excerpt
from musictx.studio import exchange, original
from musictx.studio.change import Change
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.exchange import beats_json, document_of, read_controllers, score_of
from musictx.studio.original import set_controllers
from musictx.studio.request import Request, bar_range
from tests.midi import midi_bytes
from tests.strategies import scores
from tests.studio.changes import saved
from tests.studio.studios import ODE


def one_note(**fields) -> Document:
    return Document(notes={0: (0.0, 8.0, 60, 80, 0)}, next_id=1, **fields)


@settings(max_examples=60)
@given(scores())
def test_the_score_of_a_saved_document_is_the_original_score(score):
    assert score_of(saved(document_of(score))) == score


def test_the_title_and_composer_of_notation_are_kept():
    notes = [(i / 2, i / 2 + 0.5, 60 + i, 80, 0, False, 0) for i in range(8)]
    score = Score(notes=notes, tempos=[(0, 120)], title="Old name", composer="A. Person")
    document, _ = exchange.open_document(musicxml.to_bytes(score), "hymn7", StudioLimits())
    assert (document.name, document.composer) == ("Old name", "A. Person")
    document.apply(Change(name="Harbour Waltz"))
    again = musicxml.read(musicxml.to_bytes(score_of(saved(document))))
    assert (again.title, again.composer) == ("Harbour Waltz", "A. Person")
    document.apply(Change(name="Untitled"))
    assert b"work-title" not in musicxml.to_bytes(score_of(saved(document)))
    old = document.state()
    del old["composer"], old["markers"]  # as saved by an earlier version
    assert Document.from_state(old).composer == ""


@settings(max_examples=60)
@given(scores(grid=0.125), st.integers(1, 60), st.integers(1, 40))
def test_a_part_has_the_notes_that_sound_in_it_and_the_marks_in_force(score, begin, length):
    begin, end = begin / 8, (begin + length) / 8
    texts = ((begin - 0.125, "a"), (begin, "b"), (end, "c"))
    score = replace(score, lyrics=texts, markers=((0.0, "F"), (0.0, "Dm"), *texts))
    assert score_of(saved(document_of(score))).lyrics == score.lyrics
    part = excerpt(score, begin, end)
    assert (part.lyrics, part.markers) == (((0.0, "b"),), ((0.0, "Dm"), (0.0, "b")))
    expected = [
        (max(start, begin) - begin, min(stop, end) - begin, *rest)
        for start, stop, *rest in score.notes.tolist()
        if start < end and (stop > begin or start == stop == begin)
    ]
    assert sorted(part.notes.tolist()) == sorted(expected)
    for moment in np.arange(begin, end, 0.125).tolist():
        assert marks_at(part, moment - begin) == marks_at(score, moment), moment


def marks_at(score, moment):
    """Return the marks in force, without times, by their column and, for pedals, their track."""
    return {
        (column, row[2] if column == "pedals" else None): row[1:]
        for column in ("tempos", "meters", "pedals")
        for row in getattr(score, column).tolist()
        if row[0] <= moment
    }


@given(st.integers(2, 5), st.integers(1, 9), st.sampled_from([2, 4, 8]), st.sampled_from([40, 90]))
def test_beats_agree_with_the_clock_of_all_commands(bars, numerator, denominator, tempo):
    """The piece begins in 4/4; then meter and tempo change."""
    document = one_note()
    document.tempos = ((0.0, 120.0), (bars * 1.5, float(tempo)))
    clock = Beats(score_of(document))
    line = float(clock.seconds(np.array([bars * 4.0]))[0])
    document.meters = ((0.0, 4, 4), (line, numerator, denominator))
    clock = Beats(score_of(document))
    rows = beats_json(document)
    onsets = clock.quarters(np.array([time for time, *_ in rows]))
    expected = [(bar + 1, beat + 1) for bar in range(bars) for beat in range(4)]
    after = len(rows) - len(expected)
    expected += [(bars + 1 + n // numerator, 1 + n % numerator) for n in range(after)]
    assert [row[1:] for row in rows] == expected
    step = np.where(np.arange(len(rows) - 1) < 4 * bars, 1, 4 / denominator)
    np.testing.assert_allclose(np.diff(onsets), step, atol=1e-6)
    assert rows[-1][1] >= clock.bar(float(clock.quarters(8.0)))[0] + 32


@pytest.mark.parametrize(
    ("meters", "positions"),
    [  # a pick-up as written by sequencers, by notation (twice), and no pick-up
        ([(0.0, 1, 4), (0.5, 3, 4)], [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]),
        ([(0.0, 3, 4), (0.5, 3, 4)], [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]),
        ([(0.0, 3, 4), (1.5, 4, 4)], [(0, 1), (0, 2), (0, 3), (1, 1)]),
        ([(0.0, 3, 4), (3.0, 4, 4)], [(1, 1), (1, 2), (1, 3), (2, 1)]),  # two bars
        ([(0.0, 3, 4), (1.5, 2, 4)], [(1, 1), (1, 2), (1, 3), (2, 1)]),  # a longer bar
    ],
)
def test_a_pick_up_is_bar_0(meters, positions):
    document = one_note(meters=tuple(meters))
    assert [row[1:] for row in beats_json(document)[: len(positions)]] == positions
    request = Request("replace", 0.01, beats_json(document)[len(positions) - 1][0] + 0.4)
    label = f"bars {positions[0][0]} to {positions[-1][0]}"
    assert bar_range(request, Beats(score_of(document))) == label


def test_the_number_of_beats_is_bounded_with_damaged_tempos_and_meters():
    document = one_note()
    chart = Document(markers=((0.0, "C:maj"), (200.0, "N")))
    assert beats_json(chart)[-1][0] >= 200 + 31 * 2
    document.apply(Change(tempos=((0.0, 6e7),), meters=((0.0, 255, 2**15),)))
    document.apply(Change(change=((0, 0.0, 7000.0, 60, 80, 0),)))
    assert 40_000 < len(beats_json(document)) <= 50_300


def test_chords_are_estimated_from_notes_and_markers_are_chords_or_sections():
    d_flat_major = [(0, 2, pitch, 80, 0, False, 0) for pitch in (49, 53, 56, 61)]
    a_flat_major = [(2, 4, pitch, 80, 0, False, 0) for pitch in (44, 56, 60, 63)]
    document = document_of(Score(d_flat_major + a_flat_major))
    assert exchange.chords_of(document) == [(0.0, "Db:maj"), (2.0, "Ab:maj")]
    assert exchange.chords_of(document, symbols=True)[1] == (2.0, "Ab:maj", "Ab")
    melody, _ = exchange.open_document(ODE, "", StudioLimits())
    assert [row[1] for row in exchange.chords_of(melody)][:3] == ["G:maj", "C:maj", "D:maj"]
    document.markers = ((0.0, "Verse"), (0.0, "Am7"), (1.0, "F"), (2.0, "C:hdim7/b3"), (3.0, "N"))
    shown = [(0.0, "Am7", "Am7"), (1.0, "F", "F"), (2.0, "C:hdim7/b3", "Cm7b5/Eb")]
    expected = {"chords": [*shown, (3.0, "N", "N.C.")], "sections": [(0.0, "Verse")]}
    assert exchange.markers_json(document) == expected
    for typed, name in (("F#m7/E", "F#:min7/b7"), (" bb ", "Bb:maj"), ("n.c.", "N")):
        assert exchange.parse_chord(typed) == {"name": name}
    with pytest.raises(Refused, match='"Hm7" is no chord; write C, F#m7'):
        exchange.parse_chord("Hm7")


def test_a_mixer_is_read_from_a_file_and_written_into_it():
    rows = [(i, i + 1, 60, 80, 0, False, i % 2) for i in range(4)]
    data = midi.to_bytes(Score(notes=rows, ticks_per_quarter=480))
    document = document_of(midi.read(data))
    _, remark = exchange.open_document(midi.to_bytes(Score()), "", StudioLimits())
    assert remark == '"": there are no notes in this file'
    assert original.write(document, data).data == data  # the mixer has its defaults
    first, second = document.tracks
    document.tracks = (second._replace(pan=0, reverb=90), first._replace(volume=20, mute=True))
    assert set(exchange.audible_notes(document)) == {1, 3}
    assert exchange.gains(document) == {1: (1.0, -1.0, 2.25), 0: (pytest.approx(0.04), 0.0, 1.0)}
    assert [track.id for track in exchange.renumber_tracks(document).tracks] == [0, 1]
    written = original.write(document, data).data
    again = document_of(midi.read(written))
    assert [(t.volume, t.pan, t.reverb) for t in again.tracks] == [(100, 0, 90), (20, 64, 40)]
    assert again.notes[0][4] == 1  # the track of the first note is the second one now
    assert {7, 10, 91} == {number for _, number in read_controllers(written)}
    assert saved(document).tracks == document.tracks


def test_controllers_are_read_by_part_and_initial_values_can_be_set():
    """The volume of the second part is in a track without notes. The tempo is 120."""
    change, note = partial(mido.Message, "control_change"), {"note": 60, "channel": 0}
    volumes = [(n, change(channel=1, control=7, value=v)) for n, v in ((0, 90), (960, 50))]
    first = [(10, change(control=7, value=70)), (480, mido.Message("note_on", **note))]
    first += [(960, mido.Message("note_off", **note)), (960, change(control=7, value=99))]
    second = [(tick, message.copy(channel=1)) for tick, message in first[1:3]]
    data = midi_bytes.saved(volumes, first, second)
    expected = {(0, 7): [(pytest.approx(10 / 960), 70), (1.0, 99)], (1, 7): [(0.0, 90), (1.0, 50)]}
    assert read_controllers(data) == expected
    again = set_controllers(data, {0: {7: 33, 91: 60}})
    changed = {(0, 7): [(0.0, 33), (1.0, 99)], (0, 91): [(0.0, 60)]}
    assert read_controllers(again) == expected | changed
    assert midi.read(again) == midi.read(data)
