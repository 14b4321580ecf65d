"""The document of a MusicXML file, opened safely: unzipped, bounded, without declarations."""

from __future__ import annotations

import codecs
import contextlib
import io
import re
import xml.etree.ElementTree as ET
import zipfile
from fractions import Fraction
from xml.parsers import expat

from musictx.config.limits import Limits

#: Plain decimals only: an exponent could ask for a number of a billion digits. The tempos that
#: ``write`` writes have up to 17 digits, and some zeros before them.
_DECIMAL = re.compile(r"\s*[+-]?(\d{1,12}(\.\d{0,24})?|\.\d{1,24})\s*")

#: The longest tag, comment or processing instruction; texts may be longer.
LONGEST_TOKEN_BYTES = 1_000_000
#: Different names of tags and attributes: MusicXML 4.0 has about 700.
MOST_NAMES = 10_000
#: Files in a zip: a score and its pictures.
MOST_FILES = 10_000
#: Bytes that are passed to the parser at once.
_PIECE = 2**18


class Fault(Exception):
    """What is wrong with the document, without the name of the file."""

    def __init__(self, message: str, reason: str = "damaged") -> None:
        super().__init__(message)
        self.reason = reason


def over(limits: Limits, name: str, what: str) -> Fault:
    return Fault(f"has more than limits.{name}={getattr(limits, name)} {what}", "too large")


def open_document(data: bytes, limits: Limits) -> ET.Element:
    """The root element, out of the zip if it is one."""
    most = limits.xml_mb * 1_000_000
    if data[:4] == b"PK\x03\x04":
        data = _unzipped(data, most)
    if len(data) > most:
        raise over(limits, "xml_mb", "MB")
    # No element without "<" and no attribute without "=", in every encoding that expat takes: this
    # bounds the memory of the tree before it is built.
    if data.count(b"<") + data.count(b"=") > limits.xml_tags:
        raise over(limits, "xml_tags", "tags and attributes")
    try:
        root = tree_of(data)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise Fault(f"is not MusicXML ({error})", "not MusicXML") from None
    if root.tag != "score-partwise":
        what = f"holds <{root.tag[:40]}>, expected a MusicXML <score-partwise>"
        raise Fault(what, "not MusicXML")
    return root


def tree_of(data: bytes) -> ET.Element:
    """The root element of a document, in time and memory linear in its bytes.

    If the bytes are not in the encoding that the document declares, UTF-8 is tried, then Latin-1:
    some programs write these and declare another. White space before the declaration and zeros
    after the end are passed over.
    """
    if b"\0" not in data[:4]:
        data = data.removeprefix(codecs.BOM_UTF8).strip(b" \t\r\n\0")
    try:
        return _parsed(data, None)
    except (expat.ExpatError, ValueError, LookupError):
        for encoding in ("utf-8", "iso-8859-1"):
            with contextlib.suppress(expat.ExpatError):
                return _parsed(data, encoding)
        raise


def _parsed(data: bytes, encoding: str | None) -> ET.Element:
    """The root element of a document in ``encoding``, ``None`` for the one it declares.

    expat is fed piece by piece and builds the tree of ``xml.etree``, so Python can interrupt a long
    file. With each piece expat scans an unfinished token again from its beginning, and it keeps
    each name to the end: hence the bounds on the length of a token and on the number of names.
    Namespaces are not resolved: MusicXML has none, and a resolved name would repeat the address of
    its namespace, of any length, in each element.
    """
    builder = ET.TreeBuilder()
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.buffer_size = _PIECE
    parser.StartDoctypeDeclHandler = _doctype
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    for at in range(0, len(data), _PIECE):
        piece = data[at : at + _PIECE]
        parser.Parse(piece, False)
        if at + len(piece) - parser.CurrentByteIndex > LONGEST_TOKEN_BYTES:
            what = f"has a tag, a comment or an attribute of more than {LONGEST_TOKEN_BYTES} bytes"
            raise Fault(what, "too large")
        if len(parser.intern) > MOST_NAMES:
            raise Fault(f"has more than {MOST_NAMES} different names of tags and attributes")
    parser.Parse(b"", True)
    return builder.close()


def _doctype(_name: str, _system: str | None, _public: str | None, internal: int) -> None:
    """Refuse a document type that declares anything itself (entities, default attributes). That of
    notation programs only has the address of MusicXML's DTD, which is never fetched."""
    if internal:
        raise Fault("declares things in its document type; not read for safety", "not MusicXML")


def _unzipped(data: bytes, most: int) -> bytes:
    """The score inside an .mxl: the first one that META-INF/container.xml lists, else any."""
    if data.count(b"PK\x01\x02") > MOST_FILES:  # the beginning of each entry of its directory
        raise Fault(f"is a zip of more than {MOST_FILES} files", "too large")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = dict.fromkeys(archive.namelist())
            listed: list[str] = []
            for name in names:
                if name.lower() == "meta-inf/container.xml":
                    with archive.open(name) as file:
                        text = file.read(1_000_000).decode("utf-8", "replace")
                    listed = re.findall(r"full-path\s*=\s*[\"']([^\"']+)", text)
            listed = [name for name in listed if name in names]
            others = [n for n in names if not n.lower().startswith(("meta-inf/", "__macosx/"))]
            scores = [n for n in listed + others if n.lower().endswith((".xml", ".musicxml"))]
            if not scores + listed:
                raise Fault("is a zip file without a MusicXML score in it")
            with archive.open((scores + listed)[0]) as file:  # its header may lie about its size
                return file.read(most + 1)
    except Fault:
        raise
    except Exception as error:  # zipfile and its decompressors raise many kinds
        raise Fault(f"is a damaged .mxl file ({error})") from None


def add(parent: ET.Element, name: str, text: object = "", /, **attributes: str) -> ET.Element:
    """A new last child of ``parent``."""
    child = ET.SubElement(parent, name, attributes)
    child.text = str(text)
    return child


def number_or(text: str | None, default: float) -> Fraction | int | float:
    """The number in ``text``; ``default`` if there is none, for marks that may be left out."""
    try:
        return parse_number(text, "")
    except Fault:
        return default


def parse_number(text: str | None, what: str) -> Fraction | int:
    if text is not None:
        if text.isdecimal() and len(text) <= 12:
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Fraction(text.strip())
    raise Fault(f"has {what} {text if text is None else text[:40]!r}, expected a number")
