"""MusicXML as programs write it, where the standard would have it otherwise or leaves it open."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from musictx import musicxml
from musictx.chords import is_chart, marked
from musictx.notes import Score
from tests.test_musicxml import CHORD, HEAD, REST, C, D, E, G, backup, document, note, read

TIED = '<notations><tied type="{}"/></notations>'
FOUR = (
    "<attributes><divisions>{}</divisions>"
    "<time><beats>4</beats><beat-type>4</beat-type></time></attributes>"
)


@pytest.mark.parametrize(
    ("measures", "notes"),
    [
        ([note(C, 2, ties=["start"]), note(C, 2)], [(0, 4, 60, 0)]),
        ([note(C, 2, after=TIED.format("start")), note(C, 2)], [(0, 4, 60, 0)]),
        (
            [note(C, 2, after=TIED.format("start")), note(C, 2, after=TIED.format("stop"))],
            [(0, 4, 60, 0)],
        ),
        (
            [note(C, 2, ties=["start"]), note(C, 2, ties=["start"]), note(C, 2) * 2],
            [(0, 6, 60, 0), (6, 8, 60, 0)],
        ),
        ([note(C, 2, ties=["start"]), note(D, 2) + note(C, 2)],
         [(0, 2, 60, 0), (2, 4, 62, 0), (4, 6, 60, 0)]),
        (  # the tie ends in the one voice, so the other one strikes its note
            [note(C, 2, ties=["start"]), note(C, 1) + backup(1) + note(C, 2, ties=["stop"])],
            [(0, 4, 60, 0), (2, 3, 60, 0)],
        ),
        (  # of a chord one note
            [note(C, 2, ties=["start"]) + note(E, 2, before=CHORD),
             note(C, 2) + note(E, 2, before=CHORD)],
            [(0, 4, 60, 0), (0, 2, 64, 0), (2, 4, 64, 0)],
        ),
        ([note(C, 2, after=TIED.format("let-ring")), note(C, 2)], [(0, 2, 60, 0), (2, 4, 60, 0)]),
    ],
    ids=["tie", "tied", "both tied", "chain", "elsewhere", "voices", "chord", "let ring"],
)  # fmt: skip
def test_a_tie_that_only_begins_ends_in_the_next_note_of_its_pitch(measures, notes):
    first, *others = measures
    assert read([HEAD.format(1) + first, *others]) == notes


def test_rests_beyond_the_meter_do_not_lengthen_the_bar():
    one = [FOUR.format(1) + note(C, 4), note(D, 4)]
    two = [FOUR.format(1) + note(E, 1) + note(REST, 8), note(G, 4)]
    without = [HEAD.format(1) + note(REST, 8), note(G, 4)]
    notes = [(0, 1, 64, 1), (0, 4, 60, 0), (4, 8, 62, 0), (4, 8, 67, 1)]
    assert read(one, two) == sorted(notes, key=lambda n: (n[0], n[2]))
    assert read(one, without)[-1] == (4, 8, 67, 1)
    # Without a meter a rest is as long as it is written; notes always are, and rests before them.
    assert read([HEAD.format(1) + note(C, 4), note(D, 4)], without)[-1] == (8, 12, 67, 1)
    long = [FOUR.format(1) + note(REST, 5) + note(E, 1) + note(REST, 4), note(G, 4)]
    assert [n[0] for n in read(one, long) if n[3] == 0] == [0, 6]


def test_a_bar_s_rest_in_a_pick_up_is_as_short_as_the_other_parts():
    """So Finale writes the pick-up of a part that is silent there."""
    first = HEAD.format(1) + note(C, 1)
    silent = HEAD.format(1) + note(REST, 4)
    data = document([first, note(D, 4)], [silent, note(E, 4)])
    data = data.replace(b'number="0"', b'number="0" implicit="yes"')
    notes = musicxml.read(data, bpm=60).notes
    assert notes["start"].tolist() == [0, 1, 1]
    alone = document([silent, note(E, 4)]).replace(b'number="0"', b'number="0" implicit="yes"')
    assert musicxml.read(alone, bpm=60).notes["start"].tolist() == [4]


def test_measures_may_hold_their_parts():
    """``score-timewise``, the other form of the format."""
    parts = [[FOUR.format(1) + note(C, 4), note(D, 4)], [FOUR.format(1) + note(E, 4), note(G, 4)]]
    root = ET.fromstring(document(*parts))
    other = ET.Element("score-timewise")
    other.append(root.find("part-list"))
    for number, measures in enumerate(zip(*root.findall("part"))):
        measure = ET.SubElement(other, "measure", number=str(number))
        for name, content in zip(("P1", "P2"), measures):
            ET.SubElement(measure, "part", id=name).extend(content)
    assert musicxml.read(ET.tostring(other)) == musicxml.read(document(*parts))


def test_a_mark_that_says_no_number_is_passed_over():
    """Half a mark is no reason to lose a piece."""
    marks = (
        '<sound tempo="fast"/><direction><direction-type><words>x</words></direction-type><offset/>'
        '<sound tempo="90"><offset/></sound></direction>'
        "<attributes><transpose><diatonic>-1</diatonic></transpose></attributes>"
        "<harmony><root><root-step>C</root-step></root><kind/><offset/></harmony>"
    )
    listed = "<score-part id='P1'><midi-instrument><midi-program/></midi-instrument></score-part>"
    first = FOUR.format(1) + marks + note(C.replace("C", "c"), 4)
    score = musicxml.read(document([first], part_list=f"<part-list>{listed}</part-list>"))
    assert score.notes["pitch"].tolist() == [60]
    assert score.tempos["bpm"].tolist() == [90]
    assert score.markers == ((0.0, "C:maj"),)


def test_an_instrument_may_change_its_program():
    change = "<sound><midi-instrument><midi-program>41</midi-program></midi-instrument></sound>"
    first = FOUR.format(1) + note(C, 2) + change + note(D, 2)
    notes = musicxml.read(document([first], [FOUR.format(1) + note(E, 4)])).notes
    assert dict(zip(notes["pitch"].tolist(), notes["program"].tolist())) == {60: 0, 62: 40, 64: 0}


def test_notes_of_a_chord_with_one_note_value_end_together():
    """Dolet for Sibelius leaves out the dots of all but the first."""
    dotted = "<type>half</type><dot/>"
    chord = note(C, 3, after=dotted) + note(E, 2, before=CHORD, after=dotted)
    chord += note(G, 2, before=CHORD, after="<type>half</type>")
    assert read([HEAD.format(1) + chord]) == [(0, 3, 60, 0), (0, 3, 64, 0), (0, 2, 67, 0)]


def test_a_note_without_a_duration_has_that_of_its_note_value():
    third = (
        "<type>eighth</type><time-modification><actual-notes>3</actual-notes>"
        "<normal-notes>2</normal-notes></time-modification>"
    )
    values = ["<type>quarter</type><dot/>", third, third, third, "<type>half</type>", ""]
    notes = [note(C, None, after=value) for value in values]
    lengths = [1.5, 1 / 3, 1 / 3, 1 / 3, 2]
    score = musicxml.read(document([HEAD.format(6) + "".join(notes)]), bpm=60)
    assert score.notes["end"] - score.notes["start"] == pytest.approx(lengths)


def test_divisions_may_come_after_the_first_notes():
    assert read([note(C, 2) + note(D, 2) + HEAD.format(2) + note(E, 2) + note(G, 2)]) == [
        (0, 1, 60, 0), (1, 2, 62, 0), (2, 3, 64, 0), (3, 4, 67, 0)
    ]  # fmt: skip


def harmony(step="C", alter=None, kind="major", text=None, bass=None, degree=""):
    altered = "" if alter is None else f"<root-alter>{alter}</root-alter>"
    label = "" if text is None else f' text="{text}"'
    below = f"<bass><bass-step>{bass}</bass-step></bass>" if bass else ""
    root = f"<root><root-step>{step}</root-step>{altered}</root>"
    return f"<harmony>{root}<kind{label}>{kind}</kind>{below}{degree}</harmony>"


FLAT_NINE = (
    "<degree><degree-value>9</degree-value><degree-alter>-1</degree-alter>"
    "<degree-type>add</degree-type></degree>"
)
#: A chord symbol -> its name, and the chord that it counts as.
SYMBOLS = [
    (harmony(), "C:maj", "C:maj"),
    (harmony(bass="G"), "C:maj/5", "C:maj"),
    (harmony("B", -2), "Bbb:maj", "A:maj"),
    (harmony("B", "-1.0"), "Bb:maj", "Bb:maj"),
    (harmony("F", kind="major-11th"), "F:maj11", "F:maj7"),
    (harmony("D", kind="minor-13th"), "D:min13", "D:min7"),
    (harmony("G", kind="dominant", bass="F"), "G:7/b7", "G:7"),
    (harmony(kind="other"), "C:maj", "C:maj"),
    (harmony(kind="other", text="7alt(x)"), "C:maj(7alt x)", "C:maj"),
    (harmony(kind="other", text="m7"), "C:min7", "C:min7"),
    (harmony("A", kind=""), "A:maj", "A:maj"),
    (harmony("A", kind="minor-fancy"), "A:min(minor-fancy)", "A:min"),
    (harmony("G", kind="dominant", degree=FLAT_NINE), "G:7(b9)", "G:7"),
]


def test_chord_symbols_keep_their_bass_and_what_no_name_is_for():
    """Each is a chord of its kind, never the one before; written and read again it is the same."""
    bars = [symbol + note(C, 4) for symbol, _, _ in SYMBOLS]
    bars[0] = FOUR.format(1) + bars[0]
    score = musicxml.read(document(bars), bpm=60)
    assert score.markers == tuple((4.0 * n, name) for n, (_, name, _) in enumerate(SYMBOLS))
    assert [str(marked(score)[name]) for _, name in score.markers] == [s[2] for s in SYMBOLS]
    again = musicxml.read(musicxml.to_bytes(score))
    assert again.markers == score.markers


IREAL = (
    "<identification><encoding><software>iReal Pro (Android)</software></encoding></identification>"
)


@pytest.mark.parametrize(
    ("bar", "program"),
    [
        ("", ""),
        (note(REST, 4), ""),
        (note(C, 4, after="<notehead>slash</notehead>"), ""),
        (note(C, 4, after="<notehead>diamond</notehead>"), IREAL),
    ],
    ids=["nothing", "rests", "slashes", "iReal Pro"],
)
def test_sheets_without_notes_are_charts(bar, program):
    """What stands under the symbols, if anything does, is no music; each symbol has its bar."""
    bars = [harmony(step) + bar for step in "CDE"]
    data = document([FOUR.format(1) + bars[0], *bars[1:]])
    score = musicxml.read(data.replace(b"<part-list>", program.encode() + b"<part-list>"), bpm=60)
    assert is_chart(score)
    assert score.markers[:3] == ((0.0, "C:maj"), (4.0, "D:maj"), (8.0, "E:maj"))
    diamond = document([FOUR.format(1) + note(C, 4, after="<notehead>diamond</notehead>")])
    assert len(musicxml.read(diamond)) == 1


def test_an_empty_measure_is_as_long_as_the_other_parts():
    assert read([HEAD.format(1) + note(C, 1), note(D, 4)], ["", note(E, 4)])[1:] == [
        (1, 5, 62, 0), (1, 5, 64, 1)
    ]  # fmt: skip
    assert read([FOUR.format(1) + note(C, 4), "", note(D, 4)])[1][0] == 8


def test_chord_symbols_that_cannot_be_read_exactly_are_counted():
    """A kind without a name is the nearest triad, a symbol without a root none, never the chord
    before; each with a remark."""
    rootless = "<harmony><kind>major</kind></harmony>"
    symbols = [harmony("D", kind="minor"), harmony("A", kind="minor-fancy"), rootless]
    bars = [symbol + note(C, 4) for symbol in symbols]
    repairs = Counter()
    score = musicxml.read(document([FOUR.format(1) + bars[0], *bars[1:]]), repairs=repairs)
    assert [name for _, name in score.markers] == ["D:min", "A:min(minor-fancy)", "N"]
    assert sorted(repairs.values()) == [1, 1]
    assert all("chord symbols" in remark for remark in repairs)


@pytest.mark.parametrize(
    ("name", "root", "bass"),
    [("G/B", ("G", 0), "B:0"), ("F#m7/E", ("F", 1), "E:0"), ("Eb:maj/3", ("E", -1), "G:0"),
     ("E:maj/3", ("E", 0), "G:1"), ("C:min/b3", ("C", 0), "E:-1"), ("Bb/Ab", ("B", -1), "A:-1")],
)  # fmt: skip
def test_the_bass_of_a_marker_is_written(name, root, bass):
    score = Score(
        [(0.0, 4.0, 60, 80, 0, False, 0)], tempos=[(0.0, 60.0)],
        markers=((0.0, name), (2.0, "C:min7")),
    )  # fmt: skip
    written = ET.fromstring(musicxml.to_bytes(score)).find(".//harmony")
    steps = [written.findtext(f".//{n}-step") for n in ("root", "bass")]
    alters = [int(written.findtext(f".//{n}-alter", "0")) for n in ("root", "bass")]
    assert (steps[0], alters[0]) == root
    assert f"{steps[1]}:{alters[1]}" == bass


def metronome(unit, number, more="", sound=""):
    inside = f"<beat-unit>{unit}</beat-unit>{more}<per-minute>{number}</per-minute>"
    mark = f"<direction-type><metronome>{inside}</metronome></direction-type>"
    return f"<direction>{mark}{sound}</direction>"


DOT = "<beat-unit-dot/>"
EQUAL = (
    "<direction><direction-type><metronome><beat-unit>eighth</beat-unit>"
    "<beat-unit>quarter</beat-unit></metronome></direction-type></direction>"
)


@pytest.mark.parametrize(
    ("mark", "bpm"),
    [
        (metronome("quarter", 60), 60),
        (metronome("quarter", 60, DOT), 90),
        (metronome("half", 50), 100),
        (metronome("eighth", 100, DOT), 75),
        (metronome("quarter", "c. 72-76"), 72),
        (metronome("quarter", 60, sound='<sound tempo="90"/>'), 90),
        ('<sound tempo="90"/>' + metronome("quarter", 60), 90),
        (metronome("quarter", 60) + '<sound tempo="90"/>', 90),
        (EQUAL, 120),
        (metronome("quarter", "fast"), 120),
        (metronome("quarter", 0), 120),
        (metronome("breath", 60), 120),
    ],
)
def test_metronome_marks_count_where_programs_get_no_tempo(mark, bpm):
    score = musicxml.read(document([HEAD.format(1) + mark + note(C, 1) + note(D, 1)]))
    assert score.notes["start"].tolist() == [0.0, 60 / bpm]


@pytest.mark.parametrize(
    ("declared", "sent"),
    [("UTF-16", "utf-8"), ("UTF-8", "latin-1"), ("UTF-8", "utf-16"), ("ISO-8859-1", "utf-8"),
     ("KLINGON", "utf-8"), ("US-ASCII", "latin-1")],
)  # fmt: skip
def test_a_wrong_declaration_of_the_encoding_does_no_harm(declared, sent):
    text = document([HEAD.format(1) + note(C, 1)]).decode().replace("UTF-8", declared)
    text = text.replace("<score-partwise>", "<score-partwise><movement-title>É</movement-title>")
    score = musicxml.read(text.encode(sent), bpm=60)
    assert len(score) == 1
    assert score.title == ("É" if declared != "ISO-8859-1" else "Ã\x89")


def unpitched(place="", head="", instrument=""):
    step = place and f"<display-step>{place[0]}</display-step>"
    octave = place and f"<display-octave>{place[1]}</display-octave>"
    after = f'<instrument id="{instrument}"/>' if instrument else ""
    after += f"<notehead>{head}</notehead>" if head else ""
    return note(f"<unpitched>{step}{octave}</unpitched>", 1, after=after)


def test_drums_without_a_key_sound_by_their_names_or_their_places():
    inside = "".join(
        f'<score-instrument id="I{n}"><instrument-name>{name}</instrument-name></score-instrument>'
        for n, name in enumerate(["Bass Drum 1", "Closed Hi-Hat", "Something"])
    )
    inside += (
        '<midi-instrument id="I0"><midi-channel>10</midi-channel></midi-instrument>'
        '<midi-instrument id="I2">'
        "<midi-unpitched>57</midi-unpitched></midi-instrument>"
    )
    part_list = (
        f'<part-list><score-part id="P1"><part-name>Drumset</part-name>{inside}</score-part>'
        '<score-part id="P2"><part-name>Triangle</part-name></score-part>'
        '<score-part id="P3"><part-name>x</part-name></score-part></part-list>'
    )
    drumset = [unpitched(instrument=f"I{n}") for n in range(3)]
    places = [unpitched("F4"), unpitched("C5"), unpitched("G5", "x"), unpitched("G5", "circle-x"),
              unpitched("F5", "x"), unpitched("C5", "x"), unpitched("C9"), unpitched()]  # fmt: skip
    parts = ([HEAD.format(1) + "".join(hits)] for hits in (drumset, [unpitched("C5")], places))
    score = musicxml.read(document(*parts, part_list=part_list), bpm=60)
    assert score.notes["drum"].all()
    keys = [score.notes["pitch"][score.notes["track"] == n].tolist() for n in range(3)]
    assert keys == [[36, 42, 56], [81], [36, 38, 42, 46, 51, 37, 38, 38]]
