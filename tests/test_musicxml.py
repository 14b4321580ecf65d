from __future__ import annotations

import io
import tracemalloc
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import musicxml
from musictx.beats import Beats
from musictx.config import Limits
from musictx.errors import MusicXmlError, UserError
from musictx.musicxml.document import tree_of

PARTS = '<part-list><score-part id="P1"><part-name>x</part-name></score-part></part-list>'
HEAD = "<attributes><divisions>{}</divisions></attributes>"
C, D, E, G = (f"<pitch><step>{s}</step><octave>4</octave></pitch>" for s in "CDEG")
CHORD, GRACE, CUE, REST = "<chord/>", "<grace/>", "<cue/>", "<rest/>"


def note(pitch, duration, *, before="", ties=(), after=""):
    """Children in the order of the MusicXML schema."""
    length = f"<duration>{duration}</duration>" if duration is not None else ""
    tied = "".join(f'<tie type="{t}"/>' for t in ties)
    return f"<note>{before}{pitch}{length}{tied}{after}</note>"


def backup(duration):
    return f"<backup><duration>{duration}</duration></backup>"


def forward(duration):
    return f"<forward><duration>{duration}</duration></forward>"


def document(*parts, part_list=PARTS):
    """Each part is a list of measures, each measure a string of its contents."""
    body = "".join(
        f'<part id="P{i + 1}">'
        + "".join(f'<measure number="{n}">{m}</measure>' for n, m in enumerate(measures))
        + "</part>"
        for i, measures in enumerate(parts)
    )
    xml = (
        f'<?xml version="1.0" encoding="UTF-8"?><score-partwise>{part_list}{body}</score-partwise>'
    )
    return xml.encode()


def read(*parts, bpm=60, **options):
    """(start, end, pitch, track) of each note; at 60 a quarter is a second."""
    score = musicxml.read(document(*parts, **options), bpm=bpm)
    return [
        (round(n["start"], 6), round(n["end"], 6), int(n["pitch"]), int(n["track"]))
        for n in score.notes
    ]


def pitch(step, alter, octave):
    return f"<pitch><step>{step}</step><alter>{alter}</alter><octave>{octave}</octave></pitch>"


FLATS = (pitch("B", 1, 3), pitch("C", -1, 4), pitch("F", 2, 5), pitch("A", 0, 0))
#: What test_musicxml_music21.py has not: what it is about -> the parts as lists of measures, and
#: (start, end, pitch, track) of the notes.
WRITTEN = {
    "accidentals and octaves": (
        [[HEAD.format(1) + "".join(note(p, 1) for p in FLATS)]],
        [(0, 1, 60, 0), (1, 2, 59, 0), (2, 3, 79, 0), (3, 4, 21, 0)],
    ),
    "a tie into another voice, which the file writes after the first one": (
        [[HEAD.format(1) + note(C, 2, ties=["start"]) + note(E, 2, before=CHORD),
          note(G, 2) + backup(2) + note(C, 2, ties=["stop"])]],
        [(0, 4, 60, 0), (0, 2, 64, 0), (2, 4, 67, 0)],
    ),
    "a tie that leads nowhere changes nothing": (
        [[HEAD.format(1) + note(C, 1, ties=["start"]) + note(D, 1) + note(C, 1, ties=["stop"])]],
        [(0, 1, 60, 0), (1, 2, 62, 0), (2, 3, 60, 0)],
    ),
    "divisions may change and differ between parts": (
        [[HEAD.format(1) + note(C, 1), HEAD.format(480) + note(D, 240) + note(E, 240)],
         [HEAD.format(3) + note(G, 1) + note(G, 2), note(G, 3)]],
        [(0, 1, 60, 0), (0, 0.333333, 67, 1), (0.333333, 1, 67, 1), (1, 1.5, 62, 0),
         (1, 2, 67, 1), (1.5, 2, 64, 0)],
    ),
    "nothing goes back beyond the beginning of its measure": (
        [[HEAD.format(1) + note(C, 1) + backup(2) + note(E, 1), forward(-2) + note(G, 1),
          note(REST, -3) + note(D, 1)]],
        [(0, 1, 60, 0), (0, 1, 64, 0), (1, 2, 67, 0), (2, 3, 62, 0)],
    ),
    "cue notes are left out, but take their time, and so are grace notes before the beginning": (
        [[HEAD.format(1) + note(D, None, before=GRACE) + note(C, 1) + note(E, 1, before=CUE)
          + note(G, 1)]],
        [(0, 1, 60, 0), (2, 3, 67, 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRITTEN)
def test_notes_sound_as_they_are_written(what):
    parts, notes = WRITTEN[what]
    assert read(*parts) == notes


def test_triplets_meet_exactly():
    """Three triplet eighths end at the very moment at which the quarter in the other part does."""
    score = musicxml.read(
        document([HEAD.format(6) + note(C, 2) * 3 + note(C, 6)], [HEAD.format(7) + note(E, 7) * 2]),
        bpm=97,
    )
    by_track = [score.notes[score.notes["track"] == t] for t in (0, 1)]
    assert by_track[0]["start"][3] == by_track[1]["start"][1]


def test_a_key_sounds_as_far_from_the_written_one_as_the_notes():
    for fifths, chromatic in product(range(-7, 8), range(-12, 13)):
        key = f"<key><fifths>{fifths}</fifths><mode>minor</mode></key>"
        transposed = f"<transpose><chromatic>{chromatic}</chromatic></transpose>"
        first = f"<attributes><divisions>1</divisions>{key}{transposed}</attributes>" + note(C, 1)
        ((_, sharps, minor),) = musicxml.read(document([first])).keys.tolist()
        assert -7 <= sharps <= 7
        assert 7 * sharps % 12 == (7 * fifths + chromatic) % 12  # the keynotes
        assert minor
        assert chromatic % 12 or sharps == fifths


SLOWER = '<direction><sound tempo="60"/></direction>'


def test_the_file_s_tempo_is_followed_unless_one_is_given():
    tempo = '<sound tempo="120"/>'
    one = HEAD.format(1) + tempo + note(C, 2) + SLOWER + note(D, 1)
    data = document([one, note(E, 1)])
    assert musicxml.read(data).notes["start"].tolist() == [0, 1, 2]
    assert musicxml.read(data).tempos.tolist() == [(0.0, 120.0), (1.0, 60.0)]
    assert musicxml.read(data, bpm=30).notes["start"].tolist() == [0, 4, 6]
    assert musicxml.read(data, bpm=30).tempos.tolist() == [(0.0, 30.0)]
    unmarked = document([HEAD.format(1) + note(C, 1)])
    assert musicxml.read(unmarked).notes["end"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("mark", "second"),
    [
        ('<direction><offset sound="yes">1</offset><sound tempo="60"/></direction>', 0.5),
        ('<direction><offset>1</offset><sound tempo="60"/></direction>', 0.0),
        ('<direction><sound tempo="60"><offset>1</offset></sound></direction>', 0.5),
        ('<sound tempo="60"><offset>1</offset></sound>', 0.5),
    ],
)
def test_the_offset_of_a_tempo_counts_where_it_is_one_of_sound(mark, second):
    """As the reference of MusicXML 4.0 says under <offset> and <sound>."""
    data = document([HEAD.format(1) + mark + note(C, 1) + note(D, 1)])
    assert musicxml.read(data).tempos[-1].tolist() == (second, 60.0)


def test_meters_are_marked():
    def time(beats, kind):
        inside = f"<beats>{beats}</beats><beat-type>{kind}</beat-type>"
        return f"<attributes><time>{inside}</time></attributes>"

    one = HEAD.format(1) + time(3, 4) + note(C, 3)
    score = musicxml.read(document([one, time("3+2", 8) + note(C, 2.5)]), bpm=60)
    assert score.meters.tolist() == [(0.0, 3, 4), (3.0, 5, 8)]
    several = "<beats>3</beats><beat-type>8</beat-type><beats>2</beats><beat-type>4</beat-type>"
    staff = "<time><beats>2</beats><beat-type>4</beat-type></time>"  # of another one, passed over
    first = f"<attributes><divisions>2</divisions><time>{several}</time>{staff}</attributes>"
    score = musicxml.read(document([first + note(C, 7)]))
    assert score.meters.tolist() == [(0.0, 7, 8)]


def test_the_meter_is_said_again_where_a_measure_is_no_whole_bar():
    """A pick-up; a bar that a repeat divides; the last one, after which nothing comes."""
    four = "<attributes><time><beats>4</beats><beat-type>4</beat-type></time></attributes>"
    lengths = (1, 4, 4, 3, 1, 4, 3)
    measures = [note(C, length) for length in lengths]
    measures[0] = HEAD.format(1) + four + measures[0]
    score = musicxml.read(document(measures), bpm=60)
    assert score.meters["time"].tolist() == [0, 1, 12, 13]
    lines = [Beats(score).bar(float(at)) for at in score.notes["start"]]
    assert lines == [(number, 0.0) for number in range(1, len(lengths) + 1)]
    again = musicxml.read(musicxml.to_bytes(score))
    assert again.meters.tolist() == score.meters.tolist()


def test_of_marks_at_one_moment_the_first_part_s_count_and_of_those_the_last():
    def marks(bpm, fifths):
        key = f"<attributes><key><fifths>{fifths}</fifths></key></attributes>"
        return f'<sound tempo="{bpm}"/>{key}'

    one = [HEAD.format(1) + note(C, 1) + marks(30, 1), marks(90, 2) + note(D, 1)]
    two = [HEAD.format(1) + note(C, 1), marks(60, -1) + note(D, 1)]
    score = musicxml.read(document(one, two))
    assert score.tempos.tolist() == [(0.0, 120.0), (0.5, 90.0)]
    assert score.keys.tolist() == [(0.5, 2, False)]


def mxl(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():  # no time of day: each worker names the cases alike
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def container(name):
    return f'<container><rootfiles><rootfile full-path="{name}"/></rootfiles></container>'


def test_zipped_scores_are_found_by_their_container(tmp_path):
    right = document([HEAD.format(1) + note(C, 1)])
    wrong = document([HEAD.format(1) + note(D, 1)])
    files = {
        "a.xml": wrong,
        "scores/b.xml": right,
        "META-INF/container.xml": container("scores/b.xml"),
    }
    data = mxl(files)
    assert musicxml.read(data, bpm=60).notes["pitch"].tolist() == [60]
    path = tmp_path / "song.mxl"
    path.write_bytes(data)
    assert musicxml.read(path, bpm=60) == musicxml.read(str(path), bpm=60)
    without = mxl({"META-INF/manifest.xml": b"<x/>", "b.musicxml": right})
    assert musicxml.read(without, bpm=60).notes["pitch"].tolist() == [60]


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
OUTSIDE = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
GOOD = document([HEAD.format(1) + note(C, 1)])
WIDE = GOOD.replace(b"UTF-8", b"UTF-16").replace(b"<score-p", OUTSIDE + b"<score-p", 1)
WIDE = WIDE.decode().encode("utf-16")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not MusicXML"),
        (b"MThd\0\0\0\6", "is not MusicXML"),
        (GOOD[:-20], "is not MusicXML"),
        (b"<html/>", "<html>"),
        (b"<score-timewise/>", "no parts"),
        (b"<score-partwise/>", "no parts"),
        (GOOD.replace(b"<score-partwise>", BOMB + b"<score-partwise>"), "document type"),
        (GOOD.replace(b"<score-p", OUTSIDE + b"<score-p", 1), "document type"),
        (WIDE, "document type"),
        (GOOD.replace(b"<duration>1<", b"<duration>1e999999999<"), "duration '1e999999999'"),
        (GOOD.replace(b"<duration>1<", b"<duration>many<"), "'many'"),
        (GOOD.replace(b"<divisions>1<", b"<divisions>0<"), "divisions"),
        (GOOD.replace(b"<divisions>1<", b"<divisions>-1<"), "divisions"),
        (GOOD.replace(b"<step>C<", b"<step>H<"), "step 'H'"),
        (GOOD.replace(b"<duration>1<", b"<duration>99999999<"), "limits.seconds"),
        (mxl({"x.txt": b"?"}), "zip"),
        (mxl({"x.xml": GOOD})[:60], ".mxl"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_gets_one_sentence(data, message, tmp_path):
    with pytest.raises(UserError, match=r"^the given bytes: ") as caught:
        musicxml.read(data, bpm=100)
    assert message in str(caught.value)
    path = tmp_path / "song.xml"
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"song\.xml: "):
        musicxml.read(path, bpm=100)


def test_sizes_are_limited_even_where_a_zip_lies():
    long = GOOD.replace(b"<score-partwise>", b"<score-partwise>" + b" " * 1_000_000)
    for data in (long, mxl({"x.xml": long})):
        assert len(musicxml.read(data, bpm=60)) == 1
        with pytest.raises(UserError, match=r"more than limits\.xml_mb=1 MB"):
            musicxml.read(data, bpm=60, limits=Limits(xml_mb=1))


def part(measures: bytes, number: int = 1) -> bytes:
    return b'<part id="P%d">%b</part>' % (number, measures)


def whole(body: bytes) -> bytes:
    return b"<score-partwise>" + body + b"</score-partwise>"


PRIMES = b"".join(
    b"<measure><attributes><divisions>%d</divisions></attributes></measure>" % (2 * n + 10**6 + 1)
    for n in range(2000)
)
ATTLIST = b'<!DOCTYPE score-partwise [<!ATTLIST measure z CDATA "' + b"A" * 1000 + b'">]>'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (whole(part(PRIMES[: PRIMES.index(b"<measure>", 30_000)])), "divisions"),
        (whole(part(PRIMES)), "limits.divisions=1000"),
        (whole(b"<a/>" * 300_001), "limits.xml_tags=300000"),
        (whole(b"<a " + b"".join(b"a%x='' " % n for n in range(300_000)) + b"/>"), "xml_tags"),
        (whole(b"<part/>" * 1001), "limits.tracks=1000"),
        (whole(b'<x xmlns="' + b"u" * 5_000_000 + b'">' + b"<a/>" * 9 + b"</x>"), "attribute"),
        (b"<!--" + b"x" * 30_000_000 + b"-->" + GOOD, "comment"),
        (b"<?x " + b"x" * 30_000_000 + b"?>" + GOOD, "comment"),
        (b'<score-partwise a="' + b"x" * 30_000_000 + b'"/>', "attribute"),
        (whole(b"".join(b"<a%d/>" % n for n in range(20_000))), "10000 different names"),
        (mxl({str(n): b"" for n in range(10_001)}), "10000 files"),
        (ATTLIST + whole(part(b"<measure/>" * 20_000)), "document type"),
        ((ATTLIST + GOOD[GOOD.index(b"<score") :]).decode().encode("utf-16"), "document type"),
    ],
    ids=range(13),
)
def test_bombs_are_refused(data, message):
    with pytest.raises(MusicXmlError, match=message):
        musicxml.read(data, limits=Limits(xml_tags=300_000, tracks=1000))


def test_what_only_looks_like_one_is_read():
    """Many measures; a public document type, never fetched; a meter of thousands of digits."""
    many = part(b"<measure/>") * 3_000 + part(b"<measure/>" * 20_000)
    assert len(musicxml.read(whole(many))) == 0
    public = b'<!DOCTYPE score-partwise PUBLIC "-//x//DTD//EN" "http://www.musicxml.org/x.dtd">'
    assert len(musicxml.read(GOOD.replace(b"<score-partwise>", public + b"<score-partwise>"))) == 1
    time = b"<time><beats>%b</beats><beat-type>4</beat-type></time>" % (b"9" * 5000)
    meter = b"<attributes>%b</attributes><note>" % time
    assert len(musicxml.read(GOOD.replace(b"<note>", meter)).meters) == 0


def test_names_do_not_carry_the_address_of_their_namespace():
    """A few kilobytes of zip would else become gigabytes: the address once for each name."""
    address = b"u" * 200_000
    names = b"".join(b"<a%d/>" % n for n in range(4000))
    data = GOOD.replace(b"<score-partwise>", b'<score-partwise xmlns="%b">%b' % (address, names))
    tracemalloc.start()
    assert len(musicxml.read(data)) == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_the_tree_is_that_of_the_standard_library():
    data = GOOD.replace(b"<step>", "<!-- x -->&#65;<?y z?>\n<![CDATA[<]]>é<step>".encode())
    for encoding in ("utf-8", "utf-16"):
        text = data.decode().replace("UTF-8", encoding).encode(encoding)
        assert ET.tostring(tree_of(text)) == ET.tostring(ET.fromstring(text))


def test_missing_files_and_impossible_tempos_are_named(tmp_path):
    with pytest.raises(MusicXmlError, match=r"none\.xml: cannot be opened"):
        musicxml.read(tmp_path / "none.xml", bpm=100)
    for bpm in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match=r"^bpm=.*: expected a positive number"):
            musicxml.read(GOOD, bpm=bpm)


def test_damaged_documents_raise_nothing_but_user_errors():
    """Anywhere, or where text and not a tag is."""
    outcomes = Counter()
    texts = [place for place in range(1, len(GOOD) - 1) if chr(GOOD[place]).isdigit()]

    @settings(deadline=None, max_examples=100)
    @given(st.data(), st.sampled_from([GOOD, mxl({"x.xml": GOOD})]), st.booleans())
    def damaged(data, whole, anywhere):
        among_texts = whole is GOOD and not anywhere
        places = texts if among_texts else range(len(whole))
        values = st.sampled_from(b"0123456789.-") if among_texts else st.integers(0, 255)
        spoiled = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 4))):
            spoiled[data.draw(st.sampled_from(places))] = data.draw(values)
        try:
            score = musicxml.read(bytes(spoiled), bpm=60)
        except UserError:
            outcomes["refused"] += 1
            return
        assert np.all(np.isfinite(score.notes["end"]))
        outcomes["read"] += 1

    damaged()
    assert min(outcomes["read"], outcomes["refused"]) > 5, outcomes
