"""Reads and writes files of music in every format, and finds them in folders.

``read`` recognises a format by the content of the file, ``write`` by the ending of its name.
"""

from __future__ import annotations

import io
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from musictx import registry
from musictx.config.limits import Limits
from musictx.errors import ReadError, UserError, shown
from musictx.files import read_bytes, write_bytes
from musictx.notes import Score

#: Endings of the files that :func:`read` can read, in lower case.
MIDI_SUFFIXES = (".mid", ".midi", ".kar", ".rmi")
XML_SUFFIXES = (".mxl", ".musicxml", ".xml")
SUFFIXES = MIDI_SUFFIXES + XML_SUFFIXES
#: Endings of chord sheets, which :func:`read` can read, too. They are not searched for in folders.
CHORD_SUFFIXES = (".cho", ".chordpro", ".chopro", ".crd", ".pro", ".txt", ".html", ".irealb")
#: Endings of audio recordings, which cannot be read.
AUDIO_SUFFIXES = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".wma")

#: Runs the function that reads a file: ``call(function, *arguments)``. Set by :func:`reading`.
_call: ContextVar[Callable[..., Score]] = ContextVar(
    "call", default=lambda function, *arguments: function(*arguments)
)


@contextmanager
def reading(call: Callable[..., Score]) -> Iterator[None]:
    """Make :func:`read` read files by ``call(function, *arguments)``, in this context and thread.

    ``call`` may run the function in another process, for example; ``repairs`` may then be lost.
    """
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


def read(
    source: Any,
    *,
    limits: Limits | None = None,
    repairs: Counter | None = None,
    repeats: bool = True,
) -> Score:
    """Read music as a :class:`Score`.

    source   the path, the bytes or a file object of a MIDI file (.mid, .midi, .kar, .rmi), a
             MusicXML file (.musicxml, .xml, .mxl) or a chord sheet (ChordPro, iReal Pro,
             ``| C | Am7 |``; its Score has no notes); or a ``mido.MidiFile``, a
             ``pretty_midi.PrettyMIDI`` or a Score
    limits   largest file, most notes and so on, which bound memory and time
    repairs  counts the repairs of a damaged MIDI file (see :func:`musictx.midi.read`), or the signs
             of another file that are not played as written
    repeats  whether repeats, D.C. and D.S. of MusicXML are played

    Raises :class:`ReadError`, whose ``reason`` is a short label, for a file that cannot be read,
    and :class:`UserError` for any other source. ::

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
        return _call.get()(_read_file, Path(source), limits, repairs, repeats)
    if callable(getattr(source, "read", None)):
        source = _content(source, limits)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parse(bytes(source), "", limits, repairs, repeats)
    # An object of another library is saved as a MIDI file in memory, which is then read.
    is_mido = hasattr(source, "tracks") and hasattr(source, "ticks_per_beat")
    if is_mido or (hasattr(source, "instruments") and hasattr(source, "get_tempo_changes")):
        out = io.BytesIO()
        try:
            source.save(file=out) if is_mido else source.write(out)
        except ValueError as error:
            name = type(source).__name__
            raise UserError(f"read: {name}: no MIDI file can hold it ({error})") from None
        return _parse(out.getvalue(), "", limits, repairs, repeats)
    raise UserError(
        f"read: cannot read {type(source).__name__}; expected a path, bytes, a file, "
        "a mido.MidiFile, a pretty_midi.PrettyMIDI or a Score"
    )


def not_played(path: str | Path, repairs: Counter[str]) -> str:
    """Return a warning that lists the signs of ``path`` that are not played, from the ``repairs``
    of :func:`read`. It is empty for MIDI files, whose repairs only ``prepare`` reports."""
    if not repairs or str(path).lower().endswith(MIDI_SUFFIXES):
        return ""
    return f"{path}: not played as written: {'; '.join(repairs)}"


def _parse(data: bytes, name: str, limits: Limits, repairs: Counter | None, repeats: bool) -> Score:
    """Parse ``data``, the bytes of the file ``name``. The bytes determine the format, and the name
    only if they are ambiguous."""
    name = name.lower()
    is_xml = _looks_like_xml(data)
    if data[:4] not in (b"MThd", b"RIFF"):  # readers are imported when they are first needed
        is_ireal = b"irealb" in data and b"<score-" not in data  # links in a page of HTML
        if is_xml and not is_ireal:
            return _notation().read(data, limits=limits, repeats=repeats, repairs=repairs)
        if "chords" in registry.READERS:
            chord_files = registry.load(registry.READERS["chords"])
            if is_ireal or name.endswith(CHORD_SUFFIXES) or chord_files.looks_like(data):
                chart: Score = chord_files.read(data, repeats=repeats, repairs=repairs)
                return chart
        if name.endswith(XML_SUFFIXES):
            return _notation().read(data, limits=limits, repeats=repeats, repairs=repairs)
    if data[:4] != b"MThd" and (name.endswith(AUDIO_SUFFIXES) or data[8:12] == b"WAVE"):
        raise ReadError("the file: a recording; transcribe it to MIDI first", "audio")
    from musictx import midi

    return midi.read(data, limits=limits, repairs=repairs)


def _notation() -> Any:
    """Import the module that reads and writes MusicXML."""
    if "notation" not in registry.READERS:
        raise ReadError(
            "MusicXML: expected the folder musictx/musicxml, which is missing", "no reader"
        )
    return registry.load(registry.READERS["notation"])


def has_notation(score: Score) -> bool:
    """Whether :func:`write` can write ``score`` as MusicXML: its notes must be on beats."""
    return "notation" in registry.READERS and bool(_notation().has_notation(score))


def _content(file: Any, limits: Limits) -> bytes:
    """Read a file object from its current position to its end."""
    megabytes = max(limits.midi_mb, limits.xml_mb)
    try:
        data = file.read(megabytes * 1_000_000 + 1)
    except (OSError, ValueError, TypeError) as error:
        raise ReadError(f"the file: cannot be read ({error})", "cannot be opened") from None
    if not isinstance(data, bytes):
        raise UserError("read: this file gives text; open it in binary mode, open(path, 'rb')")
    if len(data) > megabytes * 1_000_000:
        raise ReadError(f"the file: larger than the {megabytes} MB of its limits", "too large")
    return data


def _read_file(path: Path, limits: Limits, repairs: Counter | None, repeats: bool) -> Score:
    path = Path(os.path.expanduser(path))
    is_xml = path.name.lower().endswith(XML_SUFFIXES) or _looks_like_xml(_first_bytes(path))
    limit = "xml_mb" if is_xml else "midi_mb"
    data = read_bytes(path, getattr(limits, limit), f"limits.{limit}")
    try:
        return _parse(data, path.name, limits, repairs, repeats)
    except ReadError as error:  # parsers get bytes, so their messages lack the path
        _, _, message = str(error).partition(": ")
        raise type(error)(f"{path}: {message}", error.reason) from None


def _first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file; b"" if it cannot be read (``read_bytes`` will raise)."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(64)
    except OSError:
        pass
    return b""


def _looks_like_xml(data: bytes) -> bool:
    """Whether ``data`` begins like XML, in UTF-8 or UTF-16, or like a zip file."""
    if data[:4] == b"PK\x03\x04":
        return True
    return data[:64].lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"<"


def to_bytes(score: Any, suffix: str = ".mid") -> bytes:
    """Return the bytes that :func:`write` writes for a Score or a generated Sample.

    ``suffix`` is .mid, .midi, .musicxml or .xml; raises :class:`UserError` for any other. ::

        musictx.read(io.BytesIO(musictx.to_bytes(score)))
    """
    score = _score(score, "to_bytes")
    if str(suffix) in (".mid", ".midi"):
        from musictx import midi

        return midi.to_bytes(score)
    if str(suffix) in (".musicxml", ".xml"):
        content: bytes = _notation().to_bytes(score)
        return content
    raise UserError(f"suffix={shown(repr(suffix))}: expected .mid, .midi, .musicxml or .xml")


def _score(music: Any, function: str) -> Score:
    """Return the Score of a Score or a Sample, the argument of ``function``."""
    score = getattr(music, "score", music)
    if not isinstance(score, Score):
        kind = type(score).__name__
        raise UserError(f"{function}: {kind} is no music; expected a Score or a Sample")
    return score


def write(score: Any, path: str | Path) -> Path:
    """Write a Score or a generated Sample to ``path``, whose ending selects the format.

    .mid, .midi      a MIDI file (:func:`musictx.midi.to_bytes`)
    .musicxml, .xml  notation, if the notes are on beats (:func:`musictx.musicxml.to_bytes`)
    .wav, .png       sound, or a piano roll (the optional component ``musictx/render``)

    The file is written completely or not at all. Returns the path. Raises :class:`UserError` for
    any other ending or argument. ::

        musictx.write(score, "song.musicxml")
    """
    score = _score(score, "write")
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        raise UserError(f"path={shown(repr(path))}: expected the name of a file, such as song.mid")
    path = Path(os.path.expanduser(path))
    suffix = path.suffix.lower()
    if suffix in (".mid", ".midi", ".musicxml", ".xml"):
        write_bytes(path, to_bytes(score, suffix))
    else:
        writer(path)(score, path)
    return path


def writer(path: Path) -> Callable[..., Any]:
    """Import the function that writes sound or pictures to ``path`` (``registry.WRITERS``). Raises
    :class:`UserError` if there is none for its ending."""
    suffix = path.suffix.lower()
    function = registry.WRITERS.get(suffix)
    if function is None:
        xml = [".musicxml"] if "notation" in registry.READERS else []
        *others, last = [".mid", ".midi", *xml, *registry.WRITERS]
        raise UserError(
            f"{path}: cannot write {suffix or 'a name without ending'}; use {', '.join(others)} or "
            f"{last}"
        )
    loaded: Callable[..., Any] = registry.load(function)
    return loaded


def find(folder: str | Path) -> list[Path]:
    """Return all files of music (:data:`SUFFIXES`) in ``folder`` and its subfolders, sorted.

    Hidden files and folders are skipped: next to x.mid, macOS writes a ``._x.mid`` that is no MIDI
    file. :func:`walk` says how links are followed. Raises :class:`UserError` if there is no such
    folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {problem}: expected a folder with MIDI files")
    return sorted(Path(file.path) for file in walk(folder, SUFFIXES))


class File(NamedTuple):
    """A file found in a folder. ``name`` is its path relative to the folder, with "/"; ``size`` is
    in bytes."""

    name: str
    path: str
    size: int
    mtime_ns: int


def walk(
    root: str | Path, suffixes: tuple[str, ...], real: set[str] | None = None
) -> Iterator[File]:
    """Yield the files in ``root`` and its subfolders that end in one of ``suffixes``, sorted.

    Hidden and unreadable files and folders are skipped. Links to folders are followed, but no
    folder is listed twice: a link into ``root``, or into a folder of ``real``, is skipped. ``real``
    has the real paths of other folders that the caller walks; folders reached by links are added.
    """
    real = set() if real is None else real
    real.add(os.path.realpath(root))
    return _walk(root, "", suffixes, real, False)


def walk_several(roots: Mapping[Path, str], suffixes: tuple[str, ...]) -> Iterator[File]:
    """Walk several folders, folder -> prefix for the names of its files. No folder is listed
    twice."""
    real = {os.path.realpath(root) for root in roots}
    for root, prefix in roots.items():
        for file in walk(root, suffixes, real):
            yield file._replace(name=prefix + file.name)


def _walk(
    root: str | Path, folder: str, suffixes: tuple[str, ...], real: set[str], via_link: bool
) -> Iterator[File]:
    """Walk ``folder``, a path relative to ``root`` that ends in "/" or is empty. ``via_link``:
    whether one of its parents below ``root`` is a link."""
    try:
        with os.scandir(os.path.join(root, folder)) as scanned:
            entries = [entry for entry in scanned if not entry.name.startswith(".")]
    except OSError:
        return
    # With "/" at its end, a folder is sorted like the paths in it: after "a.mid", before "a0.mid".
    for name, entry in sorted((entry.name + "/" * _is_folder(entry), entry) for entry in entries):
        is_link = entry.is_symlink()
        if name.endswith("/"):
            if via_link or is_link:
                target = os.path.realpath(entry.path)
                if target in real or (is_link and is_below(target, real)):
                    continue
                real.add(target)
            yield from _walk(root, folder + name, suffixes, real, via_link or is_link)
        elif name.lower().endswith(suffixes):
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield File(folder + name, entry.path, status.st_size, status.st_mtime_ns)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether ``entry`` is a folder or a link to a folder."""
    is_link = entry.is_symlink()
    return os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False)


def is_below(folder: str, real: Collection[str]) -> bool:
    """Whether :func:`walk` of one of the folders ``real`` reaches ``folder`` without links. All are
    real paths."""
    path = Path(folder)
    while not path.name.startswith(".") and path != path.parent:
        path = path.parent
        if str(path) in real:
            return True
    return False
