"""Parse a MusicXML file safely: unzip it, limit its size, refuse document type declarations."""

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
from musictx.errors import MusicXmlError

#: Decimals. They have no exponent, which could make a number of a billion digits. ``write.py``
#: writes tempos with up to 17 significant digits.
_DECIMAL = re.compile(r"\s*[+-]?(\d{1,12}(\.\d{0,24})?|\.\d{1,24})\s*")

#: The maximal number of files in a zip, such as a score and its images.
MOST_FILES = 10_000


def too_many(limits: Limits, name: str, what: str) -> MusicXmlError:
    return MusicXmlError(f"has more than limits.{name}={getattr(limits, name)} {what}", "too large")


def open_document(data: bytes, limits: Limits) -> ET.Element:
    """Parse a document, zipped or not, within ``limits``, and return its root element."""
    max_bytes = limits.xml_mb * 1_000_000
    if data[:4] == b"PK\x03\x04":
        data = _unzip(data, max_bytes)
    if len(data) > max_bytes:
        raise too_many(limits, "xml_mb", "MB")
    # Each element has a "<" and each attribute a "=", in every encoding that expat supports, so
    # this limits the memory of the tree before it is built.
    if data.count(b"<") + data.count(b"=") > limits.xml_tags:
        raise too_many(limits, "xml_tags", "tags and attributes")
    root = parse_tree(data)
    if root.tag != "score-partwise":
        message = f"has the root <{root.tag[:40]}>, expected a MusicXML <score-partwise>"
        raise MusicXmlError(message, "not MusicXML")
    return root


def parse_tree(data: bytes) -> ET.Element:
    """Parse a document in time and memory linear in its bytes, and return its root element.

    If the declared encoding is wrong, as in files of some programs, UTF-8 is tried, then Latin-1.
    White space before the declaration and zeros after the end are ignored.
    """
    if b"\0" not in data[:4]:
        data = data.removeprefix(codecs.BOM_UTF8).strip(b" \t\r\n\0")
    try:
        return _parse(data, None)
    except MusicXmlError:
        raise
    except (expat.ExpatError, ValueError, LookupError) as error:
        for encoding in ("utf-8", "iso-8859-1"):
            with contextlib.suppress(expat.ExpatError):
                return _parse(data, encoding)
        raise MusicXmlError(f"is not MusicXML ({error})", "not MusicXML") from None


def _parse(data: bytes, encoding: str | None) -> ET.Element:
    """Parse a document in ``encoding``; ``None`` is the encoding that the document declares.

    expat gets the file at once: with chunks it would scan a long tag or comment again for each.
    Namespaces are not resolved (as ``ET.XMLParser`` does): MusicXML has none, and a resolved name
    would repeat the address of its namespace, of any length, in each element.
    """
    builder = ET.TreeBuilder()
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _doctype
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(data, True)
    return builder.close()


def _doctype(_name: str, _system: str | None, _public: str | None, internal: int) -> None:
    """Refuse a document type with declarations (entities, default attributes). Notation programs
    write only the address of MusicXML's DTD, which is never fetched."""
    if internal:
        raise MusicXmlError("has an internal DTD; not read for safety", "not MusicXML")


def _unzip(data: bytes, max_bytes: int) -> bytes:
    """The score in an .mxl: the first score that META-INF/container.xml lists, else any score."""
    if data.count(b"PK\x01\x02") > MOST_FILES:  # the beginning of an entry of the directory
        raise MusicXmlError(f"is a zip of more than {MOST_FILES} files", "too large")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names, container = dict.fromkeys(archive.namelist()), ""
            for name in names:
                if name.lower() == "meta-inf/container.xml":
                    with archive.open(name) as file:
                        container = file.read(1_000_000).decode("utf-8", "replace")
            paths = re.findall(r"full-path\s*=\s*[\"']([^\"']+)", container)
            listed = [name for name in paths if name in names]
            others = [n for n in names if not n.lower().startswith(("meta-inf/", "__macosx/"))]
            scores = [n for n in listed + others if n.lower().endswith((".xml", ".musicxml"))]
            scores += listed
            if not scores:
                raise MusicXmlError("is a zip file without a MusicXML score in it")
            with archive.open(scores[0]) as file:  # its header may state a wrong size
                return file.read(max_bytes + 1)
    except MusicXmlError:
        raise
    except Exception as error:  # zipfile and its decompressors raise many kinds
        raise MusicXmlError(f"is a damaged .mxl file ({error})") from None


def element(tag: str, /, *content: object, **attributes: str) -> ET.Element:
    """Return a new element. Its ``content`` is child elements, or one text or number."""
    result = ET.Element(tag, attributes)
    for part in content:
        if isinstance(part, ET.Element):
            result.append(part)
        else:
            result.text = str(part)
    return result


def parse_number(text: str | None, name: str = "", default: int | None = None) -> Fraction | int:
    """Return the number in ``text``, the value of the element or attribute ``name``. If ``text`` is
    not a number, return ``default``; if that is ``None``, raise :class:`MusicXmlError`."""
    if text is not None:
        if text.isdecimal() and len(text) <= 12:
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Fraction(text.strip())
    if default is None:
        raise MusicXmlError(
            f"has {name} {text if text is None else text[:40]!r}, expected a number"
        )
    return default
