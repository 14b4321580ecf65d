"""The document of a MusicXML file, opened safely: unzipped, bounded, without declarations."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
import zipfile
from fractions import Fraction
from xml.parsers import expat

from musictx.config.limits import Limits

#: Plain decimals only: an exponent could ask for a number of a billion digits. What ``write`` says
#: of a tempo, the shortest decimal of a double, has up to 17 digits and some zeros before them.
_DECIMAL = re.compile(r"\s*[+-]?(\d{1,12}(\.\d{0,24})?|\.\d{1,24})\s*")


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
        _check_prologue(data)
        root = ET.fromstring(data)
    except (ET.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise Fault(f"is not MusicXML ({error})", "not MusicXML") from None
    if root.tag != "score-partwise":
        what = f"holds <{root.tag[:40]}>, expected a MusicXML <score-partwise>"
        raise Fault(what, "not MusicXML")
    return root


def _check_prologue(data: bytes) -> None:
    """Refuse a document type that declares anything (entities, default attributes).

    What stands before the first element is read by the parser itself, so no encoding hides it. The
    document type that notation programs write only names the public one, which is never fetched.
    """
    began = False

    def doctype(_name: str, _system: str | None, _public: str | None, internal: int) -> None:
        if internal:
            raise Fault("declares a document type of its own; not read for safety", "not MusicXML")

    def element(_name: str, _attributes: dict) -> None:
        nonlocal began
        began = True

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = element
    for at in range(0, len(data), 4096):
        parser.Parse(data[at : at + 4096], False)
        if began:
            return


def _unzipped(data: bytes, most: int) -> bytes:
    """The score inside an .mxl: the first rootfile of META-INF/container.xml."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            inner = None
            if "META-INF/container.xml" in names:
                with archive.open("META-INF/container.xml") as file:
                    found = re.search(rb'full-path\s*=\s*["\']([^"\']+)', file.read(1_000_000))
                inner = found.group(1).decode("utf-8", "replace") if found else None
            if inner not in names:
                scores = [n for n in names if n.lower().endswith((".xml", ".musicxml"))]
                scores = [n for n in scores if not n.startswith("META-INF/")]
                if not scores:
                    raise Fault("is a zip file without a MusicXML score in it")
                inner = scores[0]
            with archive.open(inner) as file:  # the size a header claims is not to be trusted
                return file.read(most + 1)
    except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError, OSError) as error:
        raise Fault(f"is a damaged .mxl file ({error})") from None
    except Exception as error:  # zlib.error, lzma errors: whatever the packing may raise
        if isinstance(error, Fault):
            raise
        raise Fault(f"is a damaged .mxl file ({error})") from None


def parse_number(text: str | None, what: str) -> Fraction | int:
    if text is not None:
        if text.isdecimal() and len(text) <= 12:
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Fraction(text.strip())
    raise Fault(f"has {what} {text if text is None else text[:40]!r}, expected a number")
