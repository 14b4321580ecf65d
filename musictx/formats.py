"""Read music files of any format as a Score, and write them.

``read`` determines the format from the bytes of a file, and from its name only if these are
ambiguous; ``write`` determines it from the ending of the name.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from musictx import midi, registry
from musictx.config.limits import Limits
from musictx.errors import ReadError, UserError, reason, shown
from musictx.files import read_bytes, write_bytes
from musictx.folders import walk
from musictx.midi.scan import REPAIRS
from musictx.notes import Score

#: Endings of files that :func:`read` reads, in lower case.
MIDI_SUFFIXES = (".mid", ".midi", ".kar", ".rmi")
XML_SUFFIXES = (".mxl", ".musicxml", ".xml")
SUFFIXES = MIDI_SUFFIXES + XML_SUFFIXES
#: Endings of files that :func:`to_bytes` makes.
MIDI_OUTPUTS, XML_OUTPUTS = (".mid", ".midi"), (".musicxml", ".xml")
#: Endings of chord sheets. :func:`read` reads them, but corpora do not include them.
CHORD_SUFFIXES = (".cho", ".chordpro", ".chopro", ".crd", ".pro", ".txt", ".html", ".irealb")
#: Endings of recordings, which cannot be read.
AUDIO_SUFFIXES = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".wma")

#: How :func:`read` calls the function that reads a file: ``CALL.get()(function, *arguments)``. It
#: can be set to a function that uses another process.
CALL: ContextVar[Callable[..., tuple[Score, Counter[str]]]] = ContextVar(
    "call", default=lambda read, *arguments: read(*arguments)
)


def read(
    source: Any,
    *,
    limits: Limits | None = None,
    repairs: Counter | None = None,
    repeats: bool = True,
) -> Score:
    """Read a :class:`Score` from a file, its bytes, or an object of another library.

    source   the path of a MIDI file (.mid, .midi, .kar, .rmi), of a MusicXML file (.musicxml, .xml,
             .mxl) or of a chord sheet (ChordPro, iReal Pro, ``| C | Am7 |``), which is read as a
             Score with markers but no notes; the bytes of such a file, or a file object; a
             ``mido.MidiFile``, a ``pretty_midi.PrettyMIDI`` or a Score
    limits   limits of memory and time for one file; ``None``: ``Limits()``
    repairs  a Counter to which this function adds the repairs of a damaged MIDI file (see
             :func:`musictx.midi.read`), and notation that is not played as written
    repeats  whether to play repeats, D.C. and D.S. in MusicXML and chord sheets

    Raises :class:`ReadError`, whose ``reason`` is a short label, for a file that cannot be read,
    and :class:`UserError` for a ``source`` that is not music. ::

        score = musictx.read("song.mid")
    """
    if limits is not None and not isinstance(limits, Limits):
        raise UserError(f"limits={shown(limits)}: expected musictx.Limits(...)")
    if repairs is not None and not isinstance(repairs, Counter):
        raise UserError(f"repairs={shown(repairs)}: expected a collections.Counter")
    if not isinstance(repeats, bool):
        raise UserError(f"repeats={shown(repeats)}: expected True or False")
    limits = limits or Limits()
    if isinstance(source, Score):
        return source
    if isinstance(source, (str, os.PathLike)):
        score, new_repairs = CALL.get()(_read_file, Path(source), limits, repeats)
        if repairs is not None:
            repairs.update(new_repairs)
        return score
    if callable(getattr(source, "read", None)):
        source = _read_all(source, limits)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parse(bytes(source), None, limits, repairs, repeats)
    # An object of another library is written to a MIDI file in memory, which is then read.
    is_mido = hasattr(source, "tracks") and hasattr(source, "ticks_per_beat")
    if is_mido or (hasattr(source, "instruments") and hasattr(source, "get_tempo_changes")):
        out = io.BytesIO()
        try:
            source.save(file=out) if is_mido else source.write(out)
        except Exception as error:  # these libraries raise all kinds of exceptions
            name, why = type(source).__name__, reason(error)
            raise UserError(f"read: {name}: cannot be converted to MIDI ({why})") from None
        return _parse(out.getvalue(), None, limits, repairs, repeats)
    raise UserError(
        f"read: cannot read {type(source).__name__}; expected a path, bytes, a file, "
        "a mido.MidiFile, a pretty_midi.PrettyMIDI or a Score"
    )


def repairs_message(path: str | Path, repairs: Counter[str]) -> str:
    """Return a message with the ``repairs`` of :func:`read` in the file ``path``: notation that is
    not played as written, or damage to a MIDI file; "" if there are only notes left open."""
    kinds = [kind for kind in repairs if kind != "notes left open"]
    is_damaged = not repairs.keys().isdisjoint(REPAIRS)
    problem = "damaged, read as far as possible" if is_damaged else "not played as written"
    return f"{path}: {problem}: {'; '.join(kinds)}" if kinds else ""


def _parse(
    data: bytes, path: Path | None, limits: Limits, repairs: Counter | None, repeats: bool
) -> Score:
    """Read ``data``, the content of the file ``path``; ``None`` if it is not from a file."""
    name = path.name.lower() if path else ""
    try:
        if data[:4] not in (b"MThd", b"RIFF"):  # other readers are imported only if necessary
            is_xml = looks_like_musicxml(data)
            is_ireal = b"irealb" in data and b"<score-" not in data
            if "chords" in registry.READERS and (is_ireal or not is_xml):
                sheets = registry.load(registry.READERS["chords"])
                if is_ireal or name.endswith(CHORD_SUFFIXES) or sheets.is_chord_file(data):
                    return sheets.read(data, repeats=repeats, repairs=repairs)
            if is_xml or name.endswith(XML_SUFFIXES):
                return _musicxml().read(data, limits=limits, repeats=repeats, repairs=repairs)
        if data[:4] != b"MThd" and (name.endswith(AUDIO_SUFFIXES) or data[8:12] == b"WAVE"):
            raise ReadError("a recording; transcribe it to MIDI first", "audio")
        return midi.read(data, limits=limits, repairs=repairs)
    except ReadError as error:  # functions that read bytes do not know the name of the file
        raise type(error)(f"{path or 'the given bytes'}: {error}", error.reason) from None


def _musicxml() -> Any:
    """Return the module that reads and writes MusicXML, an optional component."""
    if "notation" not in registry.READERS:
        raise ReadError(f"MusicXML: {registry.READERS.missing_message('notation')}", "no reader")
    return registry.load(registry.READERS["notation"])


def has_notation(score: Score) -> bool:
    """Whether :func:`write` can write ``score`` as notation: if it is on a grid of beats, and the
    optional component is installed."""
    return "notation" in registry.READERS and bool(_musicxml().has_notation(score))


def _read_all(file: Any, limits: Limits) -> bytes:
    """Read a file object from its current position to its end."""
    if isinstance(file, io.TextIOBase):
        raise UserError("read: this file is open as text; open it in binary mode, open(path, 'rb')")
    megabytes = max(limits.midi_mb, limits.xml_mb)
    max_bytes, data = megabytes * 1_000_000, bytearray()
    try:
        # A pipe may return fewer bytes; read(0) returns none.
        while part := file.read(max_bytes + 1 - len(data)):
            data += part
    except (OSError, ValueError, TypeError) as error:
        raise ReadError(f"the file: cannot be read ({error})", "cannot be opened") from None
    if len(data) > max_bytes:
        raise ReadError(f"the file: larger than {megabytes} MB, see limits", "too large")
    return bytes(data)


def _read_file(path: Path, limits: Limits, repeats: bool) -> tuple[Score, Counter[str]]:
    """Return the Score in a file and its repairs, also if another process reads it."""
    path = Path(os.path.expanduser(path))
    is_xml = path.name.lower().endswith(XML_SUFFIXES)
    with suppress(OSError):  # read_bytes below raises the same error
        if not is_xml and path.is_file():
            with path.open("rb") as file:
                is_xml = looks_like_musicxml(file.read(64))
    limit = "xml_mb" if is_xml else "midi_mb"
    data = read_bytes(path, getattr(limits, limit), f"limits.{limit}")
    repairs: Counter[str] = Counter()
    return _parse(data, path, limits, repairs, repeats), repairs


def looks_like_musicxml(data: bytes) -> bool:
    """Whether ``data`` begins like an XML document, in UTF-8 or UTF-16, or a zip file (.mxl)."""
    if data[:4] == b"PK\x03\x04":
        return True
    return data[:64].lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"<"


def to_bytes(score: Any, suffix: str = ".mid") -> bytes:
    """Convert a Score, or a generated Sample, to the bytes of a file with the ending ``suffix``:
    .mid, .midi, .musicxml or .xml. Raises :class:`UserError` for any other. ::

        musictx.read(musictx.to_bytes(score))
    """
    score = _as_score(score, "to_bytes")
    ending = str(suffix).lower()
    if ending in MIDI_OUTPUTS:
        return midi.to_bytes(score)
    if ending in XML_OUTPUTS:
        return _musicxml().to_bytes(score)
    raise UserError(f"suffix={shown(repr(suffix))}: expected .mid, .midi, .musicxml or .xml")


def _as_score(music: Any, function: str) -> Score:
    score = getattr(music, "score", music)
    if not isinstance(score, Score):
        raise UserError(f"{function}: expected a Score or a Sample, not {type(score).__name__}")
    return score


def write(score: Any, path: str | Path) -> Path:
    """Write a Score, or a generated Sample, to ``path``, whose ending determines the format. Return
    the path.

    .mid, .midi      a MIDI file (:func:`musictx.midi.to_bytes`)
    .musicxml, .xml  notation, for music on a grid of beats (:func:`musictx.musicxml.to_bytes`)
    .wav             audio (from the optional component ``musictx/render``, as is .png)
    .png             a piano roll

    The file is written atomically. Raises :class:`UserError` for any other ending, and if ``score``
    is not music. ::

        musictx.write(score, "song.musicxml")
    """
    score = _as_score(score, "write")
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        raise UserError(f"path={shown(repr(path))}: expected the name of a file, such as song.mid")
    path = Path(os.path.expanduser(path))
    suffix = path.suffix.lower()
    if suffix in MIDI_OUTPUTS + XML_OUTPUTS:
        write_bytes(path, to_bytes(score, suffix))
    else:
        writer(path)(score, path)
    return path


def writer(path: Path) -> Callable[..., Any]:
    """Return the function of ``registry.WRITERS`` for the ending of ``path``. Raises
    :class:`UserError` if there is none."""
    suffix = path.suffix.lower()
    function = registry.WRITERS.get(suffix)
    if function is None:
        xml = [".musicxml"] if "notation" in registry.READERS else []
        *others, last = [*MIDI_OUTPUTS, *xml, *registry.WRITERS]
        raise UserError(
            f"{path}: cannot write {suffix or 'a name without ending'}; use {', '.join(others)} or "
            f"{last}"
        )
    return registry.load(function)


def find_music(folder: str | Path) -> list[Path]:
    """Return all music files (:data:`SUFFIXES`, in any case) in ``folder`` and its subfolders
    (:func:`musictx.folders.walk`), sorted. Raises :class:`UserError` if ``folder`` is not a folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}: expected a folder of music")
    return sorted(Path(file.path) for file in walk(folder, SUFFIXES))


def music_files(path: str, option: str) -> list[str]:
    """Return [``path``], or the music files in ``path`` if it is a folder. Raises ``UserError``
    about ``option`` for a folder without music."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        return [path]
    if files := find_music(folder):
        return [str(file) for file in files]
    raise UserError(f"{option}={path}: no music in this folder, expected {', '.join(SUFFIXES)}")
