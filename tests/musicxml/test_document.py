"""Documents of MusicXML: zips, encodings, forms; too large and hostile documents."""

import io
import xml.etree.ElementTree as ET
import zipfile

import pytest

from musictx import musicxml
from musictx.config import Limits
from musictx.errors import MusicXmlError, UserError
from musictx.musicxml.document import parse_tree
from tests.musicxml.pages import HEAD, C, D, document, note


def mxl(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():  # without the time: test ids are equal in all processes
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def container(name):
    return f'<container><rootfiles><rootfile full-path="{name}"/></rootfiles></container>'


GOOD = document([HEAD.format(1) + note(C, 1)])


@pytest.mark.parametrize(
    "files",
    [
        {"a.xml": document([HEAD.format(1) + note(D, 1)]), "scores/b.xml": GOOD,
         "META-INF/container.xml": container("scores/b.xml")},
        {"META-INF/manifest.xml": b"<x/>", "b.musicxml": GOOD},
        {"meta-inf/Container.xml": container("s.xml").replace('"', "'"), "S.XML": GOOD},
        {"META-INF/container.xml": container("s.pdf"), "s.pdf": b"%PDF", "s.xml": GOOD},
        {"__MACOSX/._s.xml": b"\0\5", "s.xml": GOOD},
    ],
)  # fmt: skip
def test_zipped_scores_are_found_by_their_container_or_without_it(files):
    assert musicxml.read(mxl(files), bpm=60).notes["pitch"].tolist() == [60]


@pytest.mark.parametrize(
    ("declared", "sent"),
    [("UTF-16", "utf-8"), ("UTF-8", "latin-1"), ("UTF-8", "utf-16"), ("KLINGON", "utf-8")],
)
def test_a_wrong_declaration_of_the_encoding_does_no_harm(declared, sent):
    text = document([HEAD.format(1) + note(C, 1)]).decode().replace("UTF-8", declared)
    text = text.replace("<score-partwise>", "<score-partwise><movement-title>É</movement-title>")
    score = musicxml.read(text.encode(sent), bpm=60)
    assert (len(score), score.title) == (1, "É")
    assert len(musicxml.read(b"\n" + GOOD + b"\n\0\0", bpm=60)) == 1


OUTSIDE = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
WIDE = GOOD.replace(b"UTF-8", b"UTF-16").replace(b"<score-p", OUTSIDE + b"<score-p", 1)
WIDE = WIDE.decode().encode("utf-16")


def part(measures: bytes, number: int = 1) -> bytes:
    return b'<part id="P%d">%b</part>' % (number, measures)


def whole(body: bytes) -> bytes:
    return b"<score-partwise>" + body + b"</score-partwise>"


#: Measures that each have other divisions.
PRIMES = b"".join(
    b"<measure><attributes><divisions>%d</divisions></attributes></measure>" % (2 * n + 10**6 + 1)
    for n in range(2000)
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not MusicXML"),
        (GOOD[:-20], "is not MusicXML"),
        (b"<score-partwise/>", "no parts"),
        (b"<score-timewise/>", "<score-timewise>, expected a MusicXML <score-partwise>"),
        (GOOD.replace(b"<score-p", OUTSIDE + b"<score-p", 1), "internal DTD"),
        (WIDE, "internal DTD"),
        (b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]>' + whole(b"&c;"), "internal DTD"),
        (GOOD.replace(b"<duration>1<", b"<duration>1e999999999<"), "duration '1e999999999'"),
        (GOOD.replace(b"<divisions>1<", b"<divisions>0<"), "divisions"),
        (GOOD.replace(b"<duration>1<", b"<duration>99999999<"), "limits.seconds"),
        (mxl({"x.txt": b"?"}), "zip"),
        (mxl({"x.xml": GOOD})[:60], ".mxl"),
        (mxl({str(n): b"" for n in range(10_001)}), "10000 files"),
        (whole(part(PRIMES)), "limits.divisions=1000"),
        (whole(b"<a/>" * 300_001), "limits.xml_tags=300000"),
        (whole(b"<a " + b"".join(b"a%x='' " % n for n in range(300_000)) + b"/>"), "xml_tags"),
        (whole(b"<part/>" * 1001), "limits.tracks=1000"),
    ],
    ids=range(17),
)
def test_unreadable_documents_and_bombs_are_refused_in_a_sentence(data, message):
    with pytest.raises(MusicXmlError, match=r"^has|^is|^holds|^lasts") as caught:
        musicxml.read(data, limits=Limits(xml_tags=300_000, tracks=1000))
    assert message in str(caught.value)


@pytest.mark.parametrize("bpm", [0, float("nan"), float("inf")])
def test_impossible_tempos_are_refused(bpm):
    with pytest.raises(UserError, match=r"^bpm=.*: expected a positive number"):
        musicxml.read(GOOD, bpm=bpm)


def test_sizes_are_limited_even_where_a_zip_lies():
    long = GOOD.replace(b"<score-partwise>", b"<score-partwise>" + b" " * 1_000_000)
    for data in (long, mxl({"x.xml": long})):
        assert len(musicxml.read(data, bpm=60)) == 1
        with pytest.raises(UserError, match=r"more than limits\.xml_mb=1 MB"):
            musicxml.read(data, bpm=60, limits=Limits(xml_mb=1))


@pytest.mark.slow
def test_large_documents_that_are_no_bombs_are_read():
    """Many measures; long names, comments and attributes, read in linear time; a public document
    type, never fetched; a meter of thousands of digits."""
    many = part(b"<measure/>") * 20_000 + part(b"<measure/>" * 40_000)
    assert len(musicxml.read(whole(many))) == 0
    long = b"u" * 5_000_000
    for begin in (
        b'<part-list xmlns="%b">' % long + b"<a/>" * 2000,
        b"<!--%b--><part-list>" % long,
        b"<part-list>" + b"".join(map(b"<a%d/>".__mod__, range(20_000))),
    ):
        assert len(musicxml.read(GOOD.replace(b"<part-list>", begin))) == 1
    public = b'<!DOCTYPE score-partwise PUBLIC "-//x//DTD//EN" "http://www.musicxml.org/x.dtd">'
    assert len(musicxml.read(GOOD.replace(b"<score-partwise>", public + b"<score-partwise>"))) == 1
    time = b"<time><beats>%b</beats><beat-type>4</beat-type></time>" % (b"9" * 5000)
    meter = b"<attributes>%b</attributes><note>" % time
    assert len(musicxml.read(GOOD.replace(b"<note>", meter)).meters) == 0


def test_the_tree_is_that_of_the_standard_library():
    data = GOOD.replace(b"<step>", "<!-- x -->&#65;<?y z?>\n<![CDATA[<]]>é<step>".encode())
    for encoding in ("utf-8", "utf-16"):
        text = data.decode().replace("UTF-8", encoding).encode(encoding)
        assert ET.tostring(parse_tree(text)) == ET.tostring(ET.fromstring(text))
