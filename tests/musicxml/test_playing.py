"""MusicXML is played with loudness, grace notes, articulations and pedals; other signs are counted.
Chord symbols are read and written; sheets may have chords alone."""

from collections import Counter
from dataclasses import replace

import pytest

from musictx import chords, musicxml
from musictx.chords import chord_markers, is_chart
from musictx.musicxml.lengths import DIVISIONS
from musictx.notes import Score
from musictx.pedal import fold_sustain
from tests.musicxml.pages import FOUR, HEAD, REST, C, D, E, G, backup, direction, document, note

TWELFTH = 1 / 12  # of a quarter: a grace note


def dynamics(name):
    return direction(f"<dynamics><{name}/></dynamics>")


def wedge(kind, number=1):
    return direction(f'<wedge type="{kind}" number="{number}"/>')


def pedal(kind):
    return direction(f'<pedal type="{kind}" line="no"/>')


def played(*measures, **options):
    return musicxml.read(document([HEAD.format(2) + measures[0], *measures[1:]]), bpm=60, **options)


def articulation(name):
    return f"<notations><articulations><{name}/></articulations></notations>"


QUARTER = note(C, 2)


@pytest.mark.parametrize(
    ("music", "expected"),
    [
        (dynamics("p") + QUARTER + dynamics("f") + QUARTER * 2, [49, 96, 96]),
        (dynamics("pp") + QUARTER + dynamics("sfz") + QUARTER * 2, [33, 49, 33]),
        ('<sound dynamics="999"/>' + QUARTER, [127]),
        # mf and f, as notation programs write them
        ('<sound dynamics="88.89"/>' + QUARTER + '<sound dynamics="106.67"/>' + QUARTER, [80, 96]),
        (QUARTER.replace("<note>", '<note dynamics="50">') + QUARTER, [45, 80]),
        (note(C, 2, after=articulation("accent")) + QUARTER, [92, 80]),
        # a hairpin to a mark at its end, and to none
        (dynamics("p") + wedge("crescendo") + QUARTER * 4 + wedge("stop") + dynamics("f") + QUARTER,
         [49, 61, 72, 84, 96]),
        (wedge("diminuendo") + QUARTER * 2 + wedge("stop") + QUARTER * 2, [80, 72, 64, 64]),
        # a hairpin begins with the mark at its place, also where the file has it before the mark
        (wedge("crescendo") + dynamics("p") + QUARTER * 2 + wedge("stop") + QUARTER, [49, 57, 65]),
        # a crescendo does not end in a softer mark
        (wedge("crescendo") + QUARTER * 2 + wedge("stop") + dynamics("p") + QUARTER, [80, 88, 49]),
    ],
)  # fmt: skip
def test_dynamics_and_hairpins_are_velocities(music, expected):
    assert played(music).notes["velocity"].tolist() == expected


def test_loudness_and_grace_notes_apply_to_their_part_and_are_repeated():
    back = '<barline><repeat direction="backward"/></barline>'
    soft = HEAD.format(2) + dynamics("p") + QUARTER + dynamics("f") + grace(D) + QUARTER + back
    score = musicxml.read(document([soft], [HEAD.format(2) + note(E, 4)]), bpm=60)
    first, second = (score.notes[score.notes["track"] == track] for track in (0, 1))
    assert first["pitch"].tolist() == [60, 62, 60] * 2
    assert first["velocity"].tolist() == [49, 96, 96] * 2
    assert second["velocity"].tolist() == [80, 80]


def grace(pitch, more=""):
    return note(pitch, None, before="<grace/>" + more)


def spans(score):
    rows = score.notes[["start", "end", "pitch"]].tolist()
    return [(round(start, 4), round(end, 4), pitch) for start, end, pitch in rows]


def test_grace_notes_come_before_the_beat_and_shorten_the_note_before():
    one = round(2 - TWELFTH, 4)
    assert spans(played(note(C, 4) + grace(D) + note(E, 4))) == [
        (0, one, 60), (one, 2, 62), (2, 4, 64)
    ]  # fmt: skip
    # over a bar line; two in turn, the second a chord; another voice keeps its length
    two = round(2 - 2 * TWELFTH, 4)
    other = backup(4) + note(G, 4, after="<voice>2</voice>")
    more = note(C, 4) + other, grace(D) + grace(E) + grace(G, "<chord/>") + note(C, 4)
    assert spans(played(*more)) == [
        (0, two, 60), (0, 2, 67), (two, one, 62), (one, 2, 64), (one, 2, 67), (2, 4, 60)
    ]  # fmt: skip
    # of a tied note the end is shortened
    tied = note(C, 2, ties=["start"]) + note(C, 2, ties=["stop"]) + grace(D) + note(E, 4)
    assert spans(played(tied))[0] == (0, one, 60)


def test_grace_notes_shorten_only_the_note_that_is_played_before_them():
    """The last of a repeat; after a rest they come before the bar line and shorten nothing."""
    one = round(4 - TWELFTH, 4)
    back = '<barline><repeat direction="backward"/></barline>'
    expected = [(0, 2, 60), (2, one, 60), (one, 4, 62), (4, 6, 64)]
    for between in ("", backup(0)):
        assert spans(played(note(C, 4) + back, grace(D) + between + note(E, 4))) == expected
    assert spans(played(note(REST, 8) + grace(D), note(E, 4))) == [(one, 4, 62), (4, 6, 64)]


@pytest.mark.parametrize(
    ("name", "length"),
    [("staccato", 1), ("staccatissimo", 0.5), ("tenuto", 2), ("staccato/><tenuto", 1.5)],
)
def test_articulations_shorten_notes(name, length):
    assert spans(played(note(C, 4, after=articulation(name)) + note(D, 4))) == [
        (0, length, 60), (2, 4, 62)
    ]  # fmt: skip


def test_pedals_are_played_and_end_with_the_piece():
    half = QUARTER * 2
    score = played(pedal("start") + half + pedal("change") + half, half + pedal("stop") + half)
    assert score.pedals["time"] == pytest.approx([TWELFTH, 2, 2 + TWELFTH, 6])
    assert score.pedals["value"].tolist() == [127, 0, 127, 0]
    open_end = played(pedal("start") + note(D, 2) + note(REST, 4), half)
    assert fold_sustain(open_end).notes["end"][0] == 3
    voices = played(half + pedal("stop") + half + backup(8) + pedal("start") + half)
    assert voices.pedals["value"].tolist() == [127, 0]


PLAIN = [
    note(C, 2, after="<notations><ornaments><trill-mark/></ornaments></notations>"),
    note(C, 2, after='<notations><slide type="start"/><slide type="stop"/></notations>'),
    note(C, 2) + note(D, 2, before="<cue/>"),
    note(C, 2) + note(D.replace("4<", "10<"), 2),
    note(C.replace("<oct", "<alter>0.5</alter><oct"), 2),
    direction("<words>poco rit.</words>") + note(C, 2),
    grace(D) + backup(0) + note(C, 2),
]


def test_signs_that_are_not_played_are_counted():
    for music in PLAIN:
        repairs = Counter()
        assert spans(played(music, repairs=repairs)) == [(0, 1, 60)]
        assert list(repairs.values()) == [1]


def harmony(step="C", alter=None, kind="major", text=None, bass=None, degree=(), sharp=0):
    altered = "" if alter is None else f"<root-alter>{alter}</root-alter>"
    label = "" if text is None else f' text="{text}"'
    below = f"<bass-step>{bass}</bass-step><bass-alter>{sharp}</bass-alter>"
    below = f"<bass>{below}</bass>" if bass else ""
    tags = zip(("value", "alter", "type"), degree)
    degree = "".join(f"<degree-{tag}>{text}</degree-{tag}>" for tag, text in tags)
    degree = f"<degree>{degree}</degree>" if degree else ""
    root = f"<root><root-step>{step}</root-step>{altered}</root>"
    return f"<harmony>{root}<kind{label}>{kind}</kind>{below}{degree}</harmony>"


#: (chord symbol, its name, the chord of the model's vocabulary)
SYMBOLS = [
    (harmony(bass="G"), "C:maj/5", "C:maj"),
    (harmony("B", -2), "Bbb:maj", "A:maj"),
    (harmony("F", kind="major-11th"), "F:maj11", "F:maj7"),
    (harmony("G", kind="dominant", bass="F", degree=(5, -1, "alter")), "G:7(b5)/b7", "G:7"),
    (harmony(kind="other"), "C:maj", "C:maj"),
    (harmony(kind="other", text="7alt(x)"), "C:maj(7alt x)", "C:maj"),
    ("<harmony><kind>major</kind></harmony>", "N", "N"),
    (harmony("A", kind="minor-fancy"), "A:min(minor-fancy)", "A:min"),
    (harmony("G", kind="dominant", degree=(9, -1, "add")), "G:7(b9)", "G:7"),
    (harmony("D", kind="suspended-fourth", degree=(7, 0, "add")), "D:sus4(b7)", "D:sus4"),
]


def test_chord_symbols_keep_their_bass_and_additions_without_a_name():
    bars = [symbol + note(C, 4) for symbol, _, _ in SYMBOLS]
    bars[0] = FOUR.format(1) + bars[0]
    repairs = Counter()
    score = musicxml.read(document(bars), bpm=60, repairs=repairs)
    assert len(repairs) == 2  # kinds without a name, symbols without a root
    assert score.markers == tuple((4.0 * n, name) for n, (_, name, _) in enumerate(SYMBOLS))
    assert all(str(chord_markers(score)[name].chord) == chord for _, name, chord in SYMBOLS)
    data = musicxml.to_bytes(score)
    assert musicxml.read(data).markers == score.markers
    assert data.count(b"<degree-type>alter<") == data.count(b"<degree-alter>0<") == 1


def test_marks_whose_offset_is_damaged_stay_in_their_measure():
    late = harmony("D").replace("</harmony>", "<offset>9999</offset></harmony>")
    score = played(harmony() + QUARTER + late + QUARTER, QUARTER * 2)
    assert score.markers == ((0.0, "C:maj"), (2.0, "D:maj"))


IREAL = "<identification><encoding><software>iReal Pro</software></encoding></identification>"


@pytest.mark.parametrize(
    ("bar", "program"),
    [
        ("", ""),
        (note(REST, 4), ""),
        (note(C, 4, after="<notehead>slash</notehead>"), ""),
        (note(C, 4, after="<notehead>diamond</notehead>"), IREAL),
    ],
)
def test_sheets_without_notes_are_charts(bar, program):
    bars = [harmony(step) + bar for step in "CDE"]
    data = document([FOUR.format(1) + bars[0], *bars[1:]])
    score = musicxml.read(data.replace(b"<part-list>", program.encode() + b"<part-list>"), bpm=60)
    assert is_chart(score)
    assert score.markers[:3] == ((0.0, "C:maj"), (4.0, "D:maj"), (8.0, "E:maj"))


def test_chords_are_written_as_symbols_and_read_back():
    notes = [(n * 0.5, n * 0.5 + 0.5, 60 + n, 80, 0, False, n % 2) for n in range(16)]
    piece = Score(notes=notes, tempos=[(0.0, 120.0)], meters=[(0.0, 3, 4)])
    every = [(n / 14, str(chord)) for n, chord in enumerate(chords.CHORDS)]  # 111 chords in 8 s
    piece = replace(piece, markers=tuple(sorted([*every, (1.5, "Verse")])))
    again = musicxml.read(musicxml.to_bytes(piece))
    chart = replace(piece.with_notes(notes[:0]), markers=((0.0, "G/B"), (1.5 - 1e-9, "F#m7/E")))
    names = [name for _, name in musicxml.read(musicxml.to_bytes(chart)).markers]
    assert names == ["G:maj/3", "F#:min7/b7"]
    lines = {}
    for at, chord in chords.chord_changes(piece):
        lines[round(at * 2 * DIVISIONS)] = chord  # of two on one line the last counts
    read = [(round(at * 2 * DIVISIONS), chord) for at, chord in chords.chord_changes(again)]
    assert read == [*lines.items()]
