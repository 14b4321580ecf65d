"""Reads an uploaded file: a document, or one sentence that says why there is none."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

from musictx.config.checks import DAY
from musictx.errors import ReadError
from musictx.formats import CHORD_SUFFIXES, SUFFIXES, read
from musictx.studio import exchange
from musictx.studio.change import clean_name
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused

#: Repairs (:mod:`musictx.midi.scan`) that lose music of the file.
LOSSES = ("truncated track", "damaged track", "missing track")


def title(name: str) -> str:
    """Return a title for a piece from the ``name`` of its file, without folders and ending."""
    file_name = clean_name(re.split(r"[/\\]", name)[-1])
    endings = "|".join(map(re.escape, SUFFIXES + CHORD_SUFFIXES))
    return re.sub(f"(?i)({endings})$", "", file_name) or "untitled"


def suffix_of(data: bytes) -> str:
    """Return the usual ending of a music file with this ``data``."""
    if data[:2] == b"PK":
        return ".mxl"
    return ".mid" if data[:4] in (b"MThd", b"RIFF") else ".musicxml"


def document_of(data: bytes, name: str, limits: StudioLimits) -> tuple[Document, str | None]:
    """Return the document of a MIDI or MusicXML file, an empty document without ``data``, and a
    remark: which part of a damaged file is lost, or which notation is not played as it is written.

    Raise :class:`Refused`, in a sentence that begins with ``name``, if the file is no music,
    damaged or larger than ``limits``.
    """
    if not data:
        return Document(name=name), None
    repairs: Counter[str] = Counter()
    quoted = f'"{name}"'
    try:
        score = read(data, limits=dataclasses.replace(limits, seconds=DAY), repairs=repairs)
    except ReadError as error:
        if error.reason == "not a MIDI file":
            raise Refused(f"{quoted}: this is neither a MIDI file nor MusicXML") from None
        sentence = str(error).partition(": ")[2]
        if limit := re.search(r"limits\.\w+=", sentence):
            advice = f"; cut it, or start musictx studio with {limit[0]}"
            sentence = sentence.replace(limit[0], "") + advice
        raise Refused(f"{quoted}: {sentence}") from None
    is_notation = suffix_of(data) != ".mid"
    if repairs and not is_notation and not len(score):
        raise Refused(f"{quoted}: it is damaged, and no note could be read ({', '.join(repairs)})")
    last = max(score.duration, float(score.pedals["time"].max(initial=0.0)))
    if last > limits.seconds:
        raise Refused(
            f"{quoted}: it lasts {last / 3600:.1f} hours, and the studio takes at most "
            f"{limits.seconds / 3600:g}; cut it, or start musictx studio with limits.seconds="
        )
    lost = ", ".join(repair for repair in repairs if repair in LOSSES)
    remark = f"The file is damaged ({lost}). What could be read of it is here." if lost else None
    if repairs and is_notation:
        remark = f"Not played as it is written: {'; '.join(repairs)}."
    return exchange.document_of(score, clean_name(score.title) or name), remark
