"""Bytes that somebody dropped on the page -> a document, or one sentence."""

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

#: Repairs (:mod:`musictx.midi.scan`) after which there is less music than there was in the file.
LOSSES = ("truncated track", "damaged track", "missing track")


def title(name: str) -> str:
    """What to call a piece that came under the name of a file: without folders and endings."""
    plain = clean_name(re.split(r"[/\\]", name)[-1])
    endings = "|".join(map(re.escape, SUFFIXES + CHORD_SUFFIXES))
    return re.sub(f"(?i)({endings})$", "", plain) or "untitled"


def ending(data: bytes) -> str:
    """The ending of a file that holds these bytes of music."""
    if data[:2] == b"PK":
        return ".mxl"
    return ".mid" if data[:4] in (b"MThd", b"RIFF") else ".musicxml"


def document_of(data: bytes, name: str, limits: StudioLimits) -> tuple[Document, str | None]:
    """The music in the bytes of a MIDI or MusicXML file; of none, an empty document. With it a
    sentence on what of a damaged file is lost, or of notation not played as it is written.

    Raises :class:`Refused`, in a sentence that begins with the name, for what is no music, damaged
    or more than ``limits``.
    """
    if not data:
        return Document(name=name), None
    repairs: Counter[str] = Counter()
    what = f'"{name}"'
    try:
        score = read(data, limits=dataclasses.replace(limits, seconds=DAY), repairs=repairs)
    except ReadError as error:
        if error.reason == "not a MIDI file":
            raise Refused(f"{what}: this is neither a MIDI file nor MusicXML") from None
        sentence = str(error).partition(": ")[2]
        if limit := re.search(r"limits\.\w+=", sentence):
            more = f"; cut it, or start musictx studio with {limit[0]}"
            sentence = sentence.replace(limit[0], "") + more
        raise Refused(f"{what}: {sentence}") from None
    notation = ending(data) != ".mid"
    if repairs and not notation and not len(score):
        raise Refused(f"{what}: it is damaged, and no note could be read ({', '.join(repairs)})")
    last = max(score.duration, float(score.pedals["time"].max(initial=0.0)))
    if last > limits.seconds:
        raise Refused(
            f"{what}: it lasts {last / 3600:.1f} hours, and the studio takes at most "
            f"{limits.seconds / 3600:g}; cut it, or start musictx studio with limits.seconds="
        )
    lost = ", ".join(what for what in repairs if what in LOSSES)
    remark = f"The file is damaged ({lost}). What could be read of it is here." if lost else None
    if repairs and notation:
        remark = f"Not played as it is written: {'; '.join(repairs)}."
    return exchange.document_of(score, clean_name(score.title) or name), remark
