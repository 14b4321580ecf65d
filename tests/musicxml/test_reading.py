"""The notes, instruments, tempos, meters and keys of MusicXML, also of imperfect documents."""

from itertools import product

import pytest

from musictx import musicxml
from musictx.beats import Beats
from tests.musicxml import pages
from tests.musicxml.pages import CHORD, FOUR, HEAD, REST, C, D, E, G, backup, document, note, read

THIRD = (
    "<time-modification><actual-notes>3</actual-notes><normal-notes>2</normal-notes>"
    "</time-modification>"
)
TIED = '<notations><tied type="{}"/></notations>'
#: Cases that test_music21.py lacks: title -> parts as lists of measures, and (start, end, pitch,
#: track) of the notes.
WRITTEN = {
    "a tie into another voice, which the file writes after the first one": (
        [[HEAD.format(1) + note(C, 2, ties=["start"]) + note(E, 2, before=CHORD),
          note(G, 2) + backup(2) + note(C, 2, ties=["stop"])]],
        [(0, 4, 60, 0), (0, 2, 64, 0), (2, 4, 67, 0)],
    ),
    "divisions may change and differ between parts": (
        [[HEAD.format(1) + note(C, 1), HEAD.format(480) + note(D, 240) + note(E, 240)],
         [HEAD.format(3) + note(G, 1) + note(G, 2), note(G, 3)]],
        [(0, 1, 60, 0), (0, 0.333333, 67, 1), (0.333333, 1, 67, 1), (1, 1.5, 62, 0),
         (1, 2, 67, 1), (1.5, 2, 64, 0)],
    ),
    "a tie that ends in one voice, while the other one strikes its note": (
        [[HEAD.format(1) + note(C, 2, ties=["start"]),
          note(C, 1) + backup(1) + note(C, 2, ties=["stop"])]],
        [(0, 4, 60, 0), (2, 3, 60, 0)],
    ),
    "an empty measure is as long as in other parts": (
        [[HEAD.format(1) + note(C, 1), note(D, 4)], ["", note(E, 4)]],
        [(0, 1, 60, 0), (1, 5, 62, 0), (1, 5, 64, 1)],
    ),
    "rests beyond the meter do not lengthen the bar": (
        [[FOUR.format(1) + note(C, 4), note(D, 4)],
         [FOUR.format(1) + note(E, 1) + note(REST, 8), note(G, 4)]],
        [(0, 4, 60, 0), (0, 1, 64, 1), (4, 8, 62, 0), (4, 8, 67, 1)],
    ),
    "without a meter a rest is as long as it is written": (
        [[HEAD.format(1) + note(C, 4), note(D, 4)], [HEAD.format(1) + note(REST, 8), note(G, 4)]],
        [(0, 4, 60, 0), (8, 12, 62, 0), (8, 12, 67, 1)],
    ),
    "a note without a duration has that of its note value": (
        [[HEAD.format(96) + note(C, None, after="<type>quarter</type><dot/>")
          + note(E, None, after=f"<type>quarter</type>{THIRD}") + note(G, None)
          + note(D, None, after="<type>128th</type>")]],
        [(0, 1.5, 60, 0), (1.5, 2.166667, 64, 0), (2.166667, 2.197917, 62, 0)],
    ),
    "nothing goes back beyond the beginning of its measure": (
        [[HEAD.format(1) + note(C, 1) + backup(2) + note(E, 1),
          "<forward><duration>-2</duration></forward>" + note(G, 1), note(REST, -3) + note(D, 1)]],
        [(0, 1, 60, 0), (0, 1, 64, 0), (1, 2, 67, 0), (2, 3, 62, 0)],
    ),
    "cue notes are left out, but take their time, and so are grace notes before the beginning": (
        [[HEAD.format(1) + note(D, None, before="<grace/>") + note(C, 1)
          + note(E, 1, before="<cue/>") + note(G, 1)]],
        [(0, 1, 60, 0), (2, 3, 67, 0)],
    ),
    "a tie that only begins ends in the next note of its pitch": (
        [[HEAD.format(1) + note(C, 2, ties=["start"]), note(C, 2)]], [(0, 4, 60, 0)],
    ),
    "so does a sign of a tie": (
        [[HEAD.format(1) + note(C, 2, after=TIED.format("start")), note(C, 2)]], [(0, 4, 60, 0)],
    ),
    "but not after another note": (
        [[HEAD.format(1) + note(C, 2, ties=["start"]), note(D, 2) + note(C, 2)]],
        [(0, 2, 60, 0), (2, 4, 62, 0), (4, 6, 60, 0)],
    ),
    "nor where a note rings on": (
        [[HEAD.format(1) + note(C, 2, after=TIED.format("let-ring")), note(C, 2)]],
        [(0, 2, 60, 0), (2, 4, 60, 0)],
    ),
    "such a tie of one note in a chord": (
        [[HEAD.format(1) + note(C, 2, ties=["start"]) + note(E, 2, before=CHORD),
          note(C, 2) + note(E, 2, before=CHORD)]],
        [(0, 4, 60, 0), (0, 2, 64, 0), (2, 4, 64, 0)],
    ),
    "divisions may come after the first notes": (
        [[note(C, 2) + note(D, 2) + HEAD.format(2) + note(E, 2) + note(G, 2)]],
        [(0, 1, 60, 0), (1, 2, 62, 0), (2, 3, 64, 0), (3, 4, 67, 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", WRITTEN)
def test_notes_sound_as_they_are_written(title):
    parts, notes = WRITTEN[title]
    assert read(*parts) == notes


def unpitched(place="", head="", instrument=""):
    step = place and f"<display-step>{place[0]}</display-step>"
    octave = place and f"<display-octave>{place[1]}</display-octave>"
    after = f'<instrument id="{instrument}"/>' if instrument else ""
    after += f"<notehead>{head}</notehead>" if head else ""
    return note(f"<unpitched>{step}{octave}</unpitched>", 1, after=after)


DRUMSET = """<part-list><score-part id="P1"><part-name>Drumset</part-name>
<score-instrument id="I0"><instrument-name>Bass Drum 1</instrument-name></score-instrument>
<score-instrument id="I1"><instrument-name>Closed Hi-Hat</instrument-name></score-instrument>
<score-instrument id="I2"><instrument-name>Something</instrument-name></score-instrument>
<midi-instrument id="I0"><midi-channel>10</midi-channel></midi-instrument>
<midi-instrument id="I2"><midi-unpitched>57</midi-unpitched></midi-instrument></score-part>
<score-part id="P2"><part-name>Triangle</part-name></score-part>
<score-part id="P3"><part-name>x</part-name></score-part></part-list>"""


def test_drums_without_a_key_get_it_from_their_name_or_their_place_on_the_staff():
    places = [("F4",), ("C5",), ("G5", "x"), ("G5", "circle-x"), ("F5", "x"), ("C5", "x"), ()]
    hits = [[unpitched(instrument=f"I{n}") for n in range(3)], [unpitched("C5")],
            [unpitched(*place) for place in places]]  # fmt: skip
    parts = ([HEAD.format(1) + "".join(part)] for part in hits)
    score = musicxml.read(document(*parts, part_list=DRUMSET), bpm=60)
    assert score.notes["drum"].all()
    keys = [score.notes["pitch"][score.notes["track"] == n].tolist() for n in range(3)]
    assert keys == [[36, 42, 56], [81], [36, 38, 42, 46, 51, 37, 38]]


def test_an_instrument_may_change_its_program():
    """Not an equal instrument of its part, and not that of another part."""
    equal = '</part-name><score-instrument id="X"/><score-instrument id="Y"/>'
    change = '<sound><midi-instrument id="Y"><midi-program>41</midi-program></midi-instrument>'
    change += '<midi-instrument id="Y"><volume>80</volume></midi-instrument></sound>'
    second = note(D, 1, after='<instrument id="Y"/>')
    first = FOUR.format(1) + second + change + second.replace(D, G) + note(C, 2)
    parts = pages.PARTS.replace("</part-name>", equal)
    data = document([first], [FOUR.format(1) + note(E, 4)], part_list=parts)
    notes = musicxml.read(data).notes[["pitch", "program"]].tolist()
    assert sorted(notes) == [(60, 0), (62, 0), (64, 0), (67, 40)]


def test_keys_are_transposed_as_the_notes_of_transposing_instruments():
    for fifths, chromatic in product(range(-7, 8), range(-12, 13)):
        key = f"<key><fifths>{fifths}</fifths><mode>minor</mode></key>"
        transposed = f"<transpose><chromatic>{chromatic}</chromatic></transpose>"
        first = f"<attributes><divisions>1</divisions>{key}{transposed}</attributes>" + note(C, 1)
        ((_, sharps, minor),) = musicxml.read(document([first])).keys.tolist()
        assert -7 <= sharps <= 7
        assert 7 * sharps % 12 == (7 * fifths + chromatic) % 12  # the keynotes
        assert minor
        assert chromatic % 12 or sharps == fifths


def test_the_tempo_is_that_of_the_file_unless_one_is_given():
    tempo, slower = (f'<sound tempo="{bpm}"/>' for bpm in (120, 60))
    first = HEAD.format(1) + tempo + note(C, 2) + slower + note(D, 1)
    data = document([first, note(E, 1)])
    for bpm, starts, tempos in ((None, [0, 1, 2], [(0, 120), (1, 60)]), (30, [0, 4, 6], [(0, 30)])):
        score = musicxml.read(data, bpm=bpm)
        assert (score.notes["start"].tolist(), score.tempos.tolist()) == (starts, tempos)


def metronome(unit, number, more="", sound=""):
    inside = f"<beat-unit>{unit}</beat-unit>{more}<per-minute>{number}</per-minute>"
    mark = f"<direction-type><metronome>{inside}</metronome></direction-type>"
    return f"<direction>{mark}{sound}</direction>"


DOT, SOUND = "<beat-unit-dot/>", '<sound tempo="90"/>'
EQUAL = metronome("eighth", 1).replace("<per-minute>1</per-minute>", "<beat-unit>half</beat-unit>")
#: (tempo mark, (second from which it holds, tempo)); the tempo is 120 before.
TEMPOS = [
    ('<direction><offset sound="yes">1</offset><sound tempo="60"/></direction>', (0.5, 60)),
    ('<direction><offset>1</offset><sound tempo="60"/></direction>', (0, 60)),
    (metronome("quarter", 60, DOT), (0, 90)),
    (metronome("quarter", "c. 72-76"), (0, 72)),
    (metronome("quarter", 60, sound=SOUND), (0, 90)),
    (EQUAL, (0, 120)),
]


@pytest.mark.parametrize(("mark", "tempo"), TEMPOS)
def test_a_tempo_mark_has_the_time_and_the_number_that_programs_play(mark, tempo):
    data = document([HEAD.format(1) + mark + note(C, 1) + note(D, 1)])
    assert musicxml.read(data).tempos[-1].tolist() == tempo


def test_meters_are_marked():
    def time(*parts):
        inside = "".join(f"<beats>{n}</beats><beat-type>{d}</beat-type>" for n, d in parts)
        return f"<attributes><time>{inside}</time></attributes>"

    bars = [HEAD.format(2) + time((3, 4)) + note(C, 6), time(("3+2", 8)) + note(C, 5)]
    bars.append(time((3, 8), (2, 4)) + note(C, 7))
    score = musicxml.read(document(bars), bpm=60)
    assert score.meters.tolist() == [(0.0, 3, 4), (3.0, 5, 8), (5.5, 7, 8)]


def test_the_meter_is_marked_again_after_an_incomplete_measure():
    """A pick-up and a bar that a repeat divides; not after the last measure."""
    lengths = (1, 4, 4, 3, 1, 4, 3)
    measures = [note(C, length) for length in lengths]
    measures[0] = FOUR.format(1) + measures[0]
    score = musicxml.read(document(measures), bpm=60)
    assert score.meters["time"].tolist() == [0, 1, 12, 13]
    lines = [Beats(score).bar(float(at)) for at in score.notes["start"]]
    assert lines == [(number, 0.0) for number in range(1, len(lengths) + 1)]
    again = musicxml.read(musicxml.to_bytes(score))
    assert again.meters.tolist() == score.meters.tolist()


def test_marks_without_a_number_are_ignored():
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
