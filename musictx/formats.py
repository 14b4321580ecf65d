"""Any music <-> Score: files of every format are read and written here.

``read`` looks at what a file holds, not only at its name; ``write`` goes by the name's ending.
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

#: Endings of the files that :func:`read` takes, in small letters.
MIDI_SUFFIXES = (".mid", ".midi", ".kar", ".rmi")
XML_SUFFIXES = (".mxl", ".musicxml", ".xml")
SUFFIXES = MIDI_SUFFIXES + XML_SUFFIXES
#: Endings of texts with chords, which :func:`read` takes too; corpora do not.
CHORD_SUFFIXES = (".cho", ".chordpro", ".chopro", ".crd", ".pro", ".txt", ".html", ".irealb")

#: Endings of recordings, which hold no notes.
AUDIO_SUFFIXES = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".wma")

#: Calls the function that reads a file, as ``call(function, *arguments)``; set by :func:`reading`.
_call: ContextVar[Callable[..., Score]] = ContextVar("call", default=lambda f, *of: f(*of))


@contextmanager
def reading(call: Callable[..., Score]) -> Iterator[None]:
    """Within this context, and this thread, :func:`read` reads files by ``call(function,
    *arguments)``, which may run the function in another process, for example; ``repairs`` may then
    be lost."""
    before = _call.set(call)
    try:
        yield
    finally:
        _call.reset(before)


def read(
    source: Any,
    *,
    limits: Limits | None = None,
    repairs: Counter | None = None,
    repeats: bool = True,
) -> Score:
    """Music as a :class:`Score`, from a file, from its bytes or from another library's object.

    source   the path of a MIDI file (.mid, .midi, .kar, .rmi), of a MusicXML file (.musicxml, .xml,
             .mxl) or of a text with chords (ChordPro, iReal Pro, ``| C | Am7 |``; its Score has no
             notes); the bytes of one, or a file object; a ``mido.MidiFile``, a
             ``pretty_midi.PrettyMIDI`` or a Score
    limits   bounds the memory and the time that a file may take
    repairs  counts what was repaired in a damaged MIDI file (see :func:`musictx.midi.read`), and
             what of other files is not played as it is written
    repeats  whether repeats, D.C. and D.S. of MusicXML are played

    Raises :class:`ReadError`, whose ``reason`` is a short label, for a file that cannot be read,
    and :class:`UserError` for anything that is no music. ::

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
    # An object of another library is written to a MIDI file in memory, which is then read.
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
    """A message that some marks of the notation in ``path`` are not played, from the ``repairs`` of
    :func:`read`. Empty for MIDI files, whose repairs are in the report of prepare."""
    if not repairs or str(path).lower().endswith(MIDI_SUFFIXES):
        return ""
    return f"{path}: not played as written: {'; '.join(repairs)}"


def _parse(data: bytes, name: str, limits: Limits, repairs: Counter | None, repeats: bool) -> Score:
    """The music in ``data``, the bytes of the file ``name``. The bytes decide on the format, the
    name only if they are ambiguous."""
    name = name.lower()
    xml = _looks_like_xml(data)
    if data[:4] not in (b"MThd", b"RIFF"):  # each package is imported when there is a file for it
        linked = b"irealb" in data and b"<score-" not in data
        if xml and not linked:
            return _notation().read(data, limits=limits, repeats=repeats, repairs=repairs)
        if "chords" in registry.READERS:
            texts = registry.load(registry.READERS["chords"])
            if linked or name.endswith(CHORD_SUFFIXES) or texts.looks_like(data):
                chart: Score = texts.read(data, repeats=repeats, repairs=repairs)
                return chart
        if name.endswith(XML_SUFFIXES):
            return _notation().read(data, limits=limits, repeats=repeats, repairs=repairs)
    if data[:4] != b"MThd" and (name.endswith(AUDIO_SUFFIXES) or data[8:12] == b"WAVE"):
        raise ReadError("the file: a recording; transcribe it to MIDI first", "audio")
    from musictx import midi

    return midi.read(data, limits=limits, repairs=repairs)


def _notation() -> Any:
    """The module that reads and writes MusicXML."""
    if "notation" not in registry.READERS:
        raise ReadError(
            "MusicXML: expected the folder musictx/musicxml, which is missing", "no reader"
        )
    return registry.load(registry.READERS["notation"])


def has_notation(score: Score) -> bool:
    """Whether :func:`write` can write ``score`` as notation: whether it keeps to beats."""
    return "notation" in registry.READERS and bool(_notation().has_notation(score))


def _content(file: Any, limits: Limits) -> bytes:
    """The bytes of a file object from its present position."""
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
    is_xml = path.name.lower().endswith(XML_SUFFIXES) or _looks_like_xml(_beginning(path))
    limit = "xml_mb" if is_xml else "midi_mb"
    data = read_bytes(path, getattr(limits, limit), f"limits.{limit}")
    try:
        return _parse(data, path.name, limits, repairs, repeats)
    except ReadError as error:  # the readers of bytes do not know the name
        _, _, what = str(error).partition(": ")
        raise type(error)(f"{path}: {what}", error.reason) from None


def _beginning(path: Path) -> bytes:
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(64)
    except OSError:
        pass  # reading it whole will say so
    return b""


def _looks_like_xml(data: bytes) -> bool:
    """Whether these bytes begin like an XML document, in UTF-8 or UTF-16, or like a zipped one."""
    if data[:4] == b"PK\x03\x04":
        return True
    return data[:64].lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"<"


def to_bytes(score: Any, suffix: str = ".mid") -> bytes:
    """A Score, or a generated Sample, as the bytes that :func:`write` gives a file that ends in
    ``suffix``: .mid, .midi, .musicxml or .xml. Raises :class:`UserError` for any other. ::

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


def _score(music: Any, name: str) -> Score:
    score = getattr(music, "score", music)
    if not isinstance(score, Score):
        raise UserError(f"{name}: {type(score).__name__} is no music; expected a Score or a Sample")
    return score


def write(score: Any, path: str | Path) -> Path:
    """Write a Score, or a generated Sample, by the ending of ``path``; returns the path.

    .mid, .midi      a MIDI file (:func:`musictx.midi.to_bytes`)
    .musicxml, .xml  notation, of music on a grid of beats (:func:`musictx.musicxml.to_bytes`)
    .wav, .png       sound, and a piano roll (the optional component ``musictx/render``)

    The file appears whole or not at all. Raises :class:`UserError` for any other ending, and for
    what is no music. ::

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
    """The function of ``registry.WRITERS`` that writes sound or pictures to files with the ending
    of ``path``. Raises :class:`UserError` if there is none."""
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
    """Every file of music (:data:`SUFFIXES`, upper or lower case) under ``folder``, sorted by path.

    Files and folders whose name begins with a dot are left out (macOS puts a ``._x.mid`` that is
    no MIDI beside x.mid on foreign disks); links to folders are followed as :func:`walk` does.
    Raises :class:`UserError` if ``folder`` is missing or not a folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}: expected a folder with MIDI files")
    return sorted(Path(file.path) for file in walk(folder, SUFFIXES))


class File(NamedTuple):
    """A file below a folder: its name there, parts divided by "/"; size in bytes, last change."""

    name: str
    path: str
    size: int
    mtime_ns: int


def walk(
    root: str | Path, suffixes: tuple[str, ...], real: set[str] | None = None
) -> Iterator[File]:
    """The files under ``root`` that end in one of ``suffixes``, sorted by name, one folder at a
    time. A folder or file that cannot be looked at is passed over.

    A link to a folder is followed unless it leads into ``root``, so that each folder is listed
    once, and without a link if it is there without one. ``real`` are the real paths of other
    folders, which are listed by themselves; those that links lead to are added.
    """
    real = set() if real is None else real
    real.add(os.path.realpath(root))
    return _below(root, "", suffixes, real, False)


def walk_several(roots: Mapping[Path, str], suffixes: tuple[str, ...]) -> Iterator[File]:
    """The files under the folders ``roots``, one after the other, each folder among them once; the
    name of a file has the value of its folder in front."""
    real = {os.path.realpath(root) for root in roots}
    for root, prefix in roots.items():
        for file in walk(root, suffixes, real):
            yield file._replace(name=prefix + file.name)


def _below(
    root: str | Path, inside: str, suffixes: tuple[str, ...], real: set[str], linked: bool
) -> Iterator[File]:
    """The files in the folder ``inside`` of ``root``; ``linked``: a link has led there."""
    try:
        with os.scandir(os.path.join(root, inside)) as scanned:
            entries = [entry for entry in scanned if not entry.name.startswith(".")]
    except OSError:
        return
    # "/" sorts a folder where the names of its files belong: after "a.mid", before "a0.mid"
    for name, entry in sorted((entry.name + "/" * _is_folder(entry), entry) for entry in entries):
        is_link = entry.is_symlink()
        if name.endswith("/"):
            if linked or is_link:
                target = os.path.realpath(entry.path)
                if target in real or (is_link and is_below(target, real)):
                    continue
                real.add(target)
            yield from _below(root, inside + name, suffixes, real, linked or is_link)
        elif name.lower().endswith(suffixes):
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield File(inside + name, entry.path, status.st_size, status.st_mtime_ns)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether this is a folder, or a link to one."""
    is_link = entry.is_symlink()
    return os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False)


def is_below(folder: str, real: Collection[str]) -> bool:
    """Whether :func:`walk` finds ``folder`` below one of ``real``: all are real paths."""
    path = Path(folder)
    while not path.name.startswith(".") and path != path.parent:
        path = path.parent
        if str(path) in real:
            return True
    return False
