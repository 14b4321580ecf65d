"""Any music on the grid is read back from MusicXML as it was written."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import musictx
from musictx import musicxml
from musictx.errors import UserError
from musictx.musicxml import write as w
from musictx.notes import KEY, METER, Score
from tests.pieces import of
from tests.tokens.grids import TICKS, on_ticks

#: Sixteenths, triplets of eighths, and thirty-seconds, in ticks.
STEPS = st.sampled_from([3, 6, 8, 12, 16, 24, 36, 60, 100, 192])


@st.composite
def scores(draw):
    """Draw music with overlaps, chords, ties over bars, and changes of tempo, meter and key."""
    tempos = [(0, draw(st.sampled_from([60.0, 96.0, 6e7 / 450_000])))]
    if draw(st.booleans()):
        tempos.append((96 * draw(st.integers(1, 3)), 80.0))
    meters = [(0, *draw(st.sampled_from([(4, 4), (3, 4), (6, 8), (5, 8)])))]
    if draw(st.booleans()):  # it may cut a bar short
        meters.append((24 * draw(st.integers(1, 9)), 3, 4))
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
            velocity = draw(st.integers(1, 127))
            rows.append((start, end, pitch, velocity, 0 if drum else program, drum, track))
    fine = TICKS // w.DIVISIONS
    rows = [(fine * start, fine * end, *rest) for start, end, *rest in rows]
    marks = ([(fine * row[0], *row[1:]) for row in table] for table in (tempos, meters))
    keys = [(0.0, draw(st.integers(-7, 7)), draw(st.booleans()))]
    return replace(on_ticks(rows, *marks), keys=keys, names={0: "Flöte & <Oboe>"})


@settings(max_examples=40)
@given(scores())
def test_a_written_score_is_read_back(score):
    again = musicxml.read(w.to_bytes(score))
    tracks = np.unique(score.notes["track"])
    notes = score.notes.copy()
    notes["track"] = np.searchsorted(tracks, notes["track"])
    assert len(notes) == len(again)
    notes, read = (
        rows[np.lexsort((rows["track"], rows["pitch"], np.round(rows["start"], 6)))]
        for rows in (notes, again.notes)
    )
    for column in ("pitch", "velocity", "program", "drum", "track"):
        assert notes[column].tolist() == read[column].tolist()
    for column in ("start", "end"):
        assert np.allclose(notes[column], read[column], atol=1e-6)
    last = score.duration
    for name in ("tempos", "meters", "keys"):
        expected = getattr(score, name)
        expected = expected[expected["time"] < last - 1e-6]
        marks = getattr(again, name)[: len(expected)]
        for field in expected.dtype.names:
            assert np.allclose(expected[field].astype(float), marks[field].astype(float))
    assert again.names.get(0) == (score.names[0] if tracks[0] == 0 else None)


def piece(*notes, **marks):
    return of(*notes, tempos=[(0.0, 60.0)], **marks)


@pytest.mark.parametrize("ticks", [384, 480])
@pytest.mark.parametrize("gate", [0.7, 0.9, 0.9375, 0.97, 1.04])
def test_written_lengths_are_note_values_although_playing_shortens_notes(ticks, gate):
    values = [1, 1, 2, 0.5, 0.5, 1, 2, 4]
    start, rows = 0.0, []
    for value in values:
        length = round(value * gate * ticks) / ticks
        rows.append((start, start + length, 60 + len(rows)))
        start += value
    root = ET.fromstring(w.to_bytes(piece(*rows)))
    assert not root.findall(".//time-modification")
    heads = [n for n in root.iter("note") if n.find("pitch") is not None]
    if gate < 0.9:  # with rests, none of which is shorter than a sixteenth
        kinds = {n.findtext("type") for n in root.iter("note")}
        assert kinds <= {"whole", "half", "quarter", "eighth", "16th"}
        return
    assert [int(n.findtext("duration")) / 24 for n in heads] == values
    assert not root.findall(".//rest")


def test_words_fermatas_and_the_pick_up_are_read_back():
    meters = np.array([(0.0, 4, 4), (1.0, 4, 4)], METER)
    texts = {"title": "Harbour & <Waltz>\0", "composer": "A. Person", "names": {0: "Piano\0"}}
    lyrics = (0.0, "Freu\u00adden-"), (1.0, "de & <so>"), (7.0, "la")
    notes = (0, 1, 60), (1, 6, 62), (1, 6, 67), (6, 7, 64), (7, 8, 60)
    data = w.to_bytes(piece(*notes, meters=meters, fermatas=(1.0, 8.0), lyrics=lyrics, **texts))
    for back in (musicxml.read(data), musicxml.read(w.to_bytes(musicxml.read(data)))):
        assert (back.title, back.composer) == ("Harbour & <Waltz>", "A. Person")
        assert (back.names, back.fermatas, back.lyrics) == ({0: "Piano"}, (1.0, 8.0), lyrics)
    root = ET.fromstring(data)
    assert [s.text for s in root.iter("syllabic")] == ["begin", "end", "single"]
    bars = root.findall("part/measure")
    assert [m.get("number") for m in bars] == ["0", "1", "2"]
    assert [m.get("implicit") for m in bars] == ["yes", None, None]
    assert len(root.findall(".//fermata")) == 2  # over a chord and a rest


def test_a_note_over_a_bar_line_is_tied_and_spelt_by_the_key_at_its_start():
    keys = np.array([(0.0, -3, True), (4.0, 2, False), (6.0, -1, True), (8.0, -7, False)], KEY)
    notes = (3, 5, 63), (5, 6, 68), (6, 7, 61), (7, 8, 70), (8, 9, 59)
    pitched = ET.fromstring(w.to_bytes(piece(*notes, keys=keys))).findall(".//note[pitch]")
    ties = [[tie.get("type") for tie in note.findall("tie")] for note in pitched]
    assert ties == [["start"], ["stop"], [], [], [], []]
    spelt = ["".join(note.find("pitch").itertext()).split() for note in pitched]
    assert [*map("".join, spelt)] == ["E-14", "E-14", "G14", "C14", "B-14", "C-14"]
    accidentals = [note.findtext("accidental") for note in pitched]
    assert accidentals == [None, None, "sharp", "sharp", None, None]


def test_music_without_marks_has_clefs_a_meter_a_key_and_accidentals():
    melody = [(n, n + 1, p) for n, p in enumerate((62, 64, 66, 67, 69, 71, 73, 74, 65, 65, 66, 66))]
    bass, drum = (0, 4, 38, 64, 32, False, 1), (0, 4, 46, 64, 0, True, 3)
    hands = ((0, 1, pitch, 64, 0, False, 2) for pitch in (50, 74))
    markers = (0.0, "D:maj"), (4.0, "D:maj")
    data = w.to_bytes(piece(*melody, bass, *hands, drum, markers=markers))
    first, *others = parts = ET.fromstring(data).findall("part")
    signs = [[sign.text for sign in part.iter("sign")] for part in parts]
    assert signs == [["G"], ["F"], ["G", "F"], ["percussion"]]
    accidentals = [note.findtext("accidental") for note in first.iter("note")]
    assert accidentals == [None] * 8 + ["natural", None, "sharp", None]
    assert others[2].findtext(".//unpitched/display-step") == "G"
    again = musicxml.read(data)
    assert (again.keys.tolist(), again.meters.tolist()) == ([(0, 2, False)], [(0, 4, 4)])
    assert again.markers == markers


@pytest.mark.parametrize("bpm", [60.0, 120.0, 200.0])
def test_a_performance_is_refused_and_leaves_no_file(tmp_path, bpm):
    rng = np.random.default_rng(0)
    starts = np.sort(rng.uniform(0, 20, 60))
    free = piece(*((s, s + 0.1, 60) for s in starts))
    for score in (replace(free, tempos=[(0.0, bpm)]), Score(notes=free.notes)):
        with pytest.raises(UserError, match="grid of beats"):
            musictx.write(score, tmp_path / "x.musicxml")
    assert not list(tmp_path.iterdir())


def test_scores_of_too_many_measures_or_notes_are_refused():
    fast = replace(piece((0, 100, 60), (300, 301, 62)), tempos=[(0.0, 6e7)])
    unison = replace(piece(*[(0, 7000, 60)] * 1000), tempos=[(0.0, 120.0)])
    wide = piece(*[(0, 100 + n / 100, n % 128) for n in range(20_000)])  # 20,000 voices
    for score in (fast, unison, wide):
        with pytest.raises(UserError, match="500000"):
            w.to_bytes(score)
