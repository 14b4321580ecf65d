"""MusicXML out: what is read back is what was written, for any music on the grid."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx import midi, musicxml
from musictx.errors import UserError
from musictx.musicxml import write as w
from musictx.notes import KEY, METER, NOTE, TEMPO, Score
from tests.pieces import of

#: Sixteenths, triplets of eighths, and thirty-seconds, in ticks.
STEPS = st.sampled_from([3, 6, 8, 12, 16, 24, 36, 60, 100, 192])


@st.composite
def gridded(draw):
    """Tracks, programs, drums; overlaps, chords, ties over bars; tempo, meter and key changes."""
    tempos = [(0, draw(st.sampled_from([60.0, 96.0, 6e7 / 450_000])))]
    if draw(st.booleans()):
        tempos.append((96 * draw(st.integers(1, 3)), 80.0))
    meters = [(0, *draw(st.sampled_from([(4, 4), (3, 4), (6, 8), (5, 8)])))]
    if draw(st.booleans()):  # in the midst of a bar: what was before it is a short bar
        meters.append((24 * draw(st.integers(1, 9)), 3, 4))
    at = [0.0]
    for (a, bpm), (b, _) in pairwise(tempos):
        at.append(at[-1] + (b - a) / w.DIVISIONS * 60 / bpm)

    def seconds(tick):
        i = max(i for i, (begin, _) in enumerate(tempos) if begin <= tick)
        return at[i] + (tick - tempos[i][0]) / w.DIVISIONS * 60 / tempos[i][1]

    rows, taken = [], set()
    for track in range(draw(st.integers(1, 3))):
        program, drum = draw(st.integers(0, 127)), draw(st.booleans())
        for _ in range(draw(st.integers(1, 12))):
            start = draw(st.integers(0, 40)) * draw(st.sampled_from([6, 8]))
            end, pitch = start + draw(STEPS), draw(st.integers(36, 80))
            # One pitch does not overlap itself in a track, as in MIDI.
            if any((track, pitch, t) in taken for t in range(start, end)):
                continue
            taken.update((track, pitch, t) for t in range(start, end))
            sound = (pitch, 80, 0 if drum else program, drum, track)
            rows.append((seconds(start), seconds(end), *sound))
    rows.sort(key=lambda row: (row[0], row[2], row[6]))
    return Score(
        notes=np.array(rows, NOTE),
        tempos=np.array([(seconds(t), bpm) for t, bpm in tempos], TEMPO),
        meters=np.array([(seconds(t), n, d) for t, n, d in meters], METER),
        keys=np.array([(0.0, draw(st.integers(-7, 7)), draw(st.booleans()))], KEY),
        names={0: "Flöte & <Oboe>"},
    )


@settings(max_examples=60, deadline=None)
@given(gridded())
def test_what_is_read_back_is_what_was_written(score):
    again = musicxml.read(w.to_bytes(score))
    tracks = np.unique(score.notes["track"])
    mine, theirs = score.notes.copy(), again.notes
    mine["track"] = np.searchsorted(tracks, mine["track"])
    assert len(mine) == len(theirs)
    order = [np.lexsort((n["track"], n["pitch"], np.round(n["start"], 6))) for n in (mine, theirs)]
    mine, theirs = mine[order[0]], theirs[order[1]]
    for column in ("pitch", "program", "drum", "track"):
        assert mine[column].tolist() == theirs[column].tolist()
    for column in ("start", "end"):
        assert np.allclose(mine[column], theirs[column], atol=1e-6)
    last = score.duration
    for name in ("tempos", "meters", "keys"):
        written = getattr(score, name)
        written = written[written["time"] < last - 1e-6]
        read_again = getattr(again, name)[: len(written)]
        for field in written.dtype.names:
            assert np.allclose(written[field].astype(float), read_again[field].astype(float))
    assert again.names.get(0) == (score.names[0] if tracks[0] == 0 else None)


def piece(*notes, **marks):
    return of(*notes, tempos=[(0.0, 60.0)], **marks)


def test_a_bar_that_the_meter_cuts_short_is_a_pick_up():
    meters = np.array([(1.0, 3, 4)], METER)
    root = ET.fromstring(w.to_bytes(piece((0, 1, 60), (1, 4, 62), meters=meters)))
    measures = root.findall("part/measure")
    assert [m.get("implicit") for m in measures] == ["yes", None]
    assert [m.findtext("attributes/time/beats") for m in measures] == ["3", "3"]
    assert [sum(int(d.text) for d in m.findall("note/duration")) for m in measures] == [24, 72]


@pytest.mark.parametrize("ticks", [384, 480])
@pytest.mark.parametrize("gate", [0.7, 0.9, 0.9375, 0.97, 1.04])
def test_lengths_are_those_of_notation_not_of_playing(ticks, gate):
    """A tune in quarters, halves and eighths, each let go a little early, or late (legato)."""
    values = [1, 1, 2, 0.5, 0.5, 1, 2, 4]
    at, rows = 0.0, []
    for value in values:
        length = round(value * gate * ticks) / ticks
        rows.append((at, at + length, 60 + len(rows)))
        at += value
    root = ET.fromstring(w.to_bytes(piece(*rows)))
    assert not root.findall(".//time-modification")
    heads = [n for n in root.iter("note") if n.find("pitch") is not None]
    if gate < 0.9:  # a rest of its own: as long as sixteenths say, and no shorter value
        kinds = {n.findtext("type") for n in root.iter("note")}
        assert kinds <= {"whole", "half", "quarter", "eighth", "16th"}
        return
    assert [int(n.findtext("duration")) / 24 for n in heads] == values
    assert not root.findall(".//rest")


def test_fermatas_title_composer_and_the_pick_up_come_back():
    meters = np.array([(0.0, 4, 4), (1.0, 4, 4)], METER)
    more = {"fermatas": (4.0,), "title": "Harbour & <Waltz>\0", "composer": "A. Person"}
    made = piece((0, 1, 60), (1, 4, 62), (4, 7, 64), (4, 7, 67), (7, 9, 60), meters=meters, **more)
    data = w.to_bytes(made)
    back = musicxml.read(data)
    assert back.fermatas == (4.0,)
    assert (back.title, back.composer) == ("Harbour & <Waltz>", "A. Person")
    measures = ET.fromstring(data).findall("part/measure")
    assert [m.get("number") for m in measures] == ["0", "1", "2"]
    assert [m.get("implicit") for m in measures] == ["yes", None, None]
    assert len(ET.fromstring(data).findall(".//fermata")) == 1  # one over a chord
    again = musicxml.read(w.to_bytes(back))
    assert (again.title, again.composer, again.fermatas) == (back.title, back.composer, (4.0,))


def test_lyrics_come_back_each_under_one_note():
    notes = (0, 2, 60), (2, 6, 62), (2, 6, 65), (5, 7, 40), (7, 8, 64)
    words = (0.0, "Freu-"), (2.0, "de & <so>"), (7.0, "la")
    made = piece(*notes, lyrics=words)
    data = w.to_bytes(made)
    assert musicxml.read(data).lyrics == words
    assert len(ET.fromstring(data).findall(".//lyric")) == len(words)
    sung = [n for n in ET.fromstring(data).iter("note") if n.find("lyric") is not None]
    assert not any(
        n.find("tie[@type='stop']") is not None or n.find("chord") is not None for n in sung
    )


def test_of_marks_at_one_moment_the_last_is_written():
    keys, meters = np.array([(0.0, 0, False), (0.0, -3, True)], KEY), [(0.0, 4, 4), (0.0, 3, 4)]
    made = piece((0, 1, 60), (1, 3, 62), keys=keys, meters=np.array(meters, METER))
    back = musicxml.read(w.to_bytes(made))
    assert (back.keys.tolist(), back.meters.tolist()) == ([(0.0, -3, True)], [(0.0, 3, 4)])


def test_a_note_over_a_bar_line_is_tied_and_flats_follow_the_key():
    keys = np.array([(0.0, -3, True)], KEY)
    root = ET.fromstring(w.to_bytes(piece((3, 5, 63), keys=keys)))
    ties = [[t.get("type") for t in n.findall("tie")] for n in root.iter("note") if n.find("pitch")]
    assert ties == [["start"], ["stop"]]
    (step, *_), (alter, *_) = list(root.iter("step")), list(root.iter("alter"))
    assert (step.text, alter.text) == ("E", "-1")


@pytest.mark.parametrize("bpm", [60.0, 120.0, 200.0])
def test_a_performance_is_refused_and_leaves_no_file(tmp_path, bpm):
    rng = np.random.default_rng(0)
    starts = np.sort(rng.uniform(0, 20, 60))
    free = piece(*((s, s + 0.1, 60) for s in starts))
    for score in (replace(free, tempos=[(0.0, bpm)]), Score(notes=free.notes)):
        with pytest.raises(UserError, match="grid of beats"):
            musictx.write(score, tmp_path / "x.musicxml")
    assert not list(tmp_path.iterdir())


def test_a_tempo_of_microseconds_is_refused_before_millions_of_bars_are_written():
    marks = np.array([(0.0, 6e7)], TEMPO)
    score = piece((0, 100, 60), (300, 301, 62))
    with pytest.raises(UserError, match="200000"):
        w.to_bytes(Score(notes=score.notes, tempos=marks))


def test_long_notes_in_unison_are_refused_before_they_fill_the_memory():
    score = replace(piece(*[(0, 7000, 60)] * 1000), tempos=[(0.0, 120.0)])
    with pytest.raises(UserError, match="500000"):
        w.to_bytes(score)


def test_each_bar_writes_its_marks_and_no_others():
    times = np.arange(20_000) * 2.0
    marked = replace(piece((0, 1, 60)), tempos=[(0.0, 120.0)], keys=[(t, 1, False) for t in times])
    last = piece((0, 1, 60), (times[-1], times[-1] + 1, 62))
    assert w.to_bytes(replace(marked, notes=last.notes)).count(b"<key>") == 20_000


def test_names_are_such_as_xml_and_midi_can_hold():
    name = "a" + "я" * 120
    made = piece((0, 1, 60), names={0: name + "\0"})
    assert musicxml.read(musicxml.to_bytes(made)).names == {0: name[:100]}
    assert midi.read(midi.to_bytes(made)).names == {0: name[:100]}
    zero = piece((0, 1, 60), names={0: "Piano\0"})
    assert musicxml.read(musicxml.to_bytes(zero)).names == {0: "Piano"}
