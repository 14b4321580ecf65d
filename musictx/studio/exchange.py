"""Converts files and Scores to documents, and documents to Scores and to JSON for a page."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from musictx import registry
from musictx.chords import chord_markers, is_chart, name_of, symbol_of
from musictx.config.checks import DAY
from musictx.errors import ReadError
from musictx.formats import CHORD_SUFFIXES, SUFFIXES, read, repairs_message
from musictx.grid import FEWEST_ONSETS, exact_share, grid_of
from musictx.midi.document import MidiFile, read_messages
from musictx.notes import MARKS, NOTE, Score
from musictx.studio.change import MIXER, TEXTS, Track, clean_name
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.timing import timings

#: Fields that a document and its Score have in common.
COPIED_FIELDS = ("pedals", *MARKS, "fermatas", *TEXTS, "ticks_per_quarter", "composer")
#: The sorted names of the tracks of a chorale.
VOICES = ["alto", "bass", "soprano", "tenor"]
#: The number of bars after the end of the piece that a page can show.
BARS_AFTER_END = 32
#: The most beats that a page gets; with a damaged tempo a piece has millions.
MOST_BEATS = 50_000


def title(name: str) -> str:
    """Return the title of a piece from the path ``name`` of its file: no folders, no ending."""
    file_name = clean_name(re.split(r"[/\\]", name)[-1])
    endings = "|".join(map(re.escape, SUFFIXES + CHORD_SUFFIXES))
    return re.sub(f"(?i)({endings})$", "", file_name) or "untitled"


def suffix_of(data: bytes) -> str:
    """Return the usual ending of a music file with the content ``data``, such as ".mid"."""
    if data[:2] == b"PK":
        return ".mxl"
    return ".mid" if data[:4] in (b"MThd", b"RIFF") else ".musicxml"


def open_document(data: bytes, name: str, limits: StudioLimits) -> tuple[Document, str | None]:
    """Return the document of a MIDI, MusicXML or chord file with the content ``data`` (b"": an
    empty document), and a remark for the user about a damaged or empty file, or notation that is
    not played as written; ``None`` without one. Raise :class:`Refused`, with ``name`` in the
    sentence, if the file is not music, cannot be read, or exceeds ``limits``."""
    if not data:
        return Document(name=name), None
    repairs: Counter[str] = Counter()
    quoted = f'"{name}"'
    try:
        score = read(data, limits=dataclasses.replace(limits, seconds=DAY), repairs=repairs)
    except ReadError as error:
        raise Refused(f"{quoted}: {str(error).partition(': ')[2]}") from None
    last = max(score.duration, float(score.pedals["time"].max(initial=0.0)))
    if last > limits.seconds:
        raise Refused(f"{quoted}: {last:.0f} seconds, more than limits.seconds={limits.seconds}")
    remark = repairs_message(quoted, repairs)
    if not remark and not len(score) and not is_chart(score):
        remark = f"{quoted}: there are no notes in this file"
    return document_of(score, clean_name(score.title) or name), remark or None


def document_of(score: Score, name: str = "") -> Document:
    """Return ``score`` as a document. A track with several programs becomes several tracks."""
    notes = score.notes
    parts, track_ids = np.unique(notes[["track", "drum", "program"]], return_inverse=True)
    mixers = _mixer_settings(score) if score.file else {}
    tracks = tuple(
        Track(i, clean_name(score.names.get(part, "")), program, bool(drum), **mixers.get(part, {}))
        for i, (part, drum, program) in enumerate(parts.tolist())
    )
    columns = [notes[column].tolist() for column in ("start", "end", "pitch", "velocity")]
    rows = zip(*columns, track_ids.reshape(-1).tolist())
    pedals = [
        (time, value, track)
        for time, value, part in score.pedals.tolist()
        for track in np.flatnonzero(parts["track"] == part).tolist()
    ]
    marks: dict[str, Any] = {field: tuple(getattr(score, field).tolist()) for field in MARKS}
    for field in TEXTS:
        marks[field] = tuple((time, clean_name(text)) for time, text in getattr(score, field))
    return Document(
        name=name,
        notes=dict(enumerate(rows)),
        next_id=len(notes),
        tracks=tracks or Document.tracks,
        pedals=tuple(pedals),
        ticks_per_quarter=score.ticks_per_quarter,
        fermatas=tuple(score.fermatas),
        composer=clean_name(score.composer),
        **marks,
    )


def _mixer_settings(score: Score) -> dict[int, dict[str, Any]]:
    """Return {part: {setting: value}}: the mixer settings of a MIDI file when the part begins."""
    settings = {number: name for name, number in MIXER.items()}
    mixers: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for (part, number), rows in read_controllers(score.file).items():
        first_note = score.notes["start"][score.notes["track"] == part].min()
        values = [value for time, value in rows if time <= first_note]
        if values and number in settings:
            mixers[part][settings[number]] = values[-1]
    return mixers


def read_controllers(data: bytes) -> dict[tuple[int, int], list[tuple[float, int]]]:
    """Return {(part, controller number): rows of (seconds, value)} of the MIDI file ``data``, of
    format 0 or 1 and not in RIFF. If a MIDI track has no notes on the channel of a message, the
    message applies to all parts on that channel."""
    file = MidiFile(data)
    values: defaultdict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for track, chunk in enumerate(file.chunks):
        for tick, _, body, _ in read_messages(chunk):
            if body[0] >> 4 == 0xB:
                status, number, value = body
                for part in file.parts.parts_controlled_at(track * 16 + status % 16):
                    time = float(file.clock.seconds(tick))
                    values[part, number].append((time, value))
    return {key: sorted(rows, key=lambda row: row[0]) for key, rows in values.items()}


def gains(document: Document) -> dict[int, tuple[float, float, float]]:
    """Return {track: (gain, pan, reverb)}: gain and reverb as factors, pan from -1 to 1."""
    return {t.id: ((t.volume / 100) ** 2, t.pan / 64 - 1, t.reverb / 40) for t in document.tracks}


def renumber_tracks(document: Document) -> Document:
    """Return ``document`` with track ids 0, 1, 2, ... in the order of its tracks, as in a file."""
    new_ids = {track.id: n for n, track in enumerate(document.tracks)}
    if list(new_ids) == sorted(new_ids):
        return document
    return dataclasses.replace(
        document,
        tracks=tuple(track._replace(id=n) for n, track in enumerate(document.tracks)),
        notes={number: (*note[:4], new_ids[note[4]]) for number, note in document.notes.items()},
        pedals=tuple((time, value, new_ids[track]) for time, value, track in document.pedals),
    )


def audible_notes(document: Document) -> list[int]:
    """Return the numbers of the notes on the solo tracks, or if none is solo, on unmuted tracks."""
    solo = any(track.solo for track in document.tracks)
    tracks = {track.id for track in document.tracks if (track.solo if solo else not track.mute)}
    return [number for number, note in document.notes.items() if note[4] in tracks]


def document_json(document: Document) -> dict[str, Any]:
    """Return the document as JSON for a page. ``brought`` describes the accepted proposals:
    {"take/proposal": (number of its first note, count of its notes, notes that it replaced)}."""
    state = document.state()
    proposals = state.pop("accepted")
    state["brought"] = {
        f"{a.take}/{a.proposal}": (a.first, a.note_count, a.replaced) for a in proposals
    }
    state["timings"] = [vars(timing) for timing in timings(document)]
    return state | derived_json(document)


def derived_json(document: Document) -> dict[str, Any]:
    """Return as JSON the values that are computed from a document, so any change may alter them."""
    return {
        "revision": document.revision,
        "next_id": document.next_id,
        "duration": document.duration,
        "music": music_of(document),
        "beats": beats_json(document),
        "tracks": [track._asdict() for track in document.tracks],
        **markers_json(document),
    }


def music_of(document: Document) -> str:
    """Return the kind of music, by which a model is chosen.

    chorale  the tracks with notes have the names of the four voices
    beats    the notes keep to the beats (:func:`~musictx.grid.grid_of`); if they are fewer than
             ``FEWEST_ONSETS``, exactly. Or there are only chords
    free     everything else
    """
    if not document.notes and is_chart(score_of(document)):
        return "beats"
    used = document.tracks_of(document.notes)
    if sorted(t.name.lower() for t in document.tracks if t.id in used) == VOICES:
        return "chorale"
    notes = np.zeros(len(document.notes), NOTE)
    notes["start"] = notes["end"] = sorted(values[0] for values in document.notes.values())
    notes["velocity"] = 1
    score = Score(notes=notes, tempos=document.tempos)  # type: ignore[arg-type]
    if 0 < len(score) < FEWEST_ONSETS:
        exact = exact_share(document.beats.quarters(notes["start"])) == 1
        return "beats" if exact else "free"
    return "beats" if grid_of(score).kind == "grid" else "free"


def closest_grid(document: Document) -> str:
    """Return the value of ``quantise`` whose grid fits best: "16" (sixteenths), "8t" (triplets)."""
    starts = np.array([values[0] for values in document.notes.values()])
    onsets = document.beats.quarters(starts)

    def share_near(lines_per_quarter: int) -> float:
        positions = onsets * lines_per_quarter
        return float(np.mean(np.abs(positions - np.round(positions)) < 0.1))

    return "8t" if share_near(3) > share_near(4) else "16"


def markers_json(document: Document) -> dict[str, Any]:
    """Return the markers as JSON for a page: ``chords`` (seconds, text of the marker, chord
    symbol), and all others as ``sections`` (seconds, text)."""
    chords = chord_markers(score_of(document, ()))
    symbols = {text: symbol_of(name_of(text.strip()) or "N") for text in chords}
    return {
        "chords": [
            (time, text, symbols[text]) for time, text in document.markers if text in chords
        ],
        "sections": [row for row in document.markers if row[1] not in chords],
    }


def parse_chord(text: str) -> dict[str, str]:
    """Return {"name": text of the marker} for a typed chord, or raise :class:`Refused`."""
    text = text.strip()
    name = name_of(text[:1].upper() + text[1:])
    if name is None:
        raise Refused(f'"{text[:40]}" is no chord; write C, F#m7, Bbmaj7, Gsus4 or N.C.')
    return {"name": name}


def chords_of(document: Document, symbols: bool = False) -> list[tuple[Any, ...]]:
    """Return chords by ``estimate_chords``: for each change (seconds, name), or with ``symbols``
    (seconds, name, chord symbol such as Am7). Empty if ``musictx.songs`` is not installed."""
    if not registry.is_present("musictx.songs"):
        return []
    from musictx.songs.chord_estimation import estimate_chords

    chords = estimate_chords(score_of(document))
    return [(*row, symbol_of(row[1])) for row in chords] if symbols else [*chords]


def score_of(document: Document, numbers: Iterable[int] | None = None) -> Score:
    """Return the document as a Score with the notes of these ``numbers`` (``None``: all)."""
    tracks = {track.id: track for track in document.tracks}
    notes = [
        (start, end, pitch, velocity, tracks[track].program, tracks[track].drum, track)
        for _, start, end, pitch, velocity, track in document.rows(numbers)
    ]
    copied: dict[str, Any] = {name: getattr(document, name) for name in COPIED_FIELDS}
    return Score(
        notes=np.array(notes, NOTE),
        names={track.id: track.name for track in document.tracks if track.name},
        title="" if document.name.lower() == "untitled" else document.name,
        **copied,
    )


def beats_json(document: Document) -> list[tuple[float, int, int]]:
    """Return (seconds, bar, beat) of every beat up to :data:`BARS_AFTER_END` bars after the end of
    the piece. Beats and bars count from 1; a pick-up is bar 0."""
    beats = document.beats
    end = max([document.duration, *(time for time, _ in document.markers)])  # a chart has no notes
    last = beats.bar(beats.quarters(end))[0] + BARS_AFTER_END
    rows: list[tuple[float, int, int]] = []
    bar = 1 - beats.pickup
    begins = beats.meter_at.tolist()
    stops = [*begins[1:], math.inf]
    counts, lengths = beats.meters["numerator"].tolist(), beats.bar_quarters.tolist()
    for begin, stop, count, length in zip(begins, stops, counts, lengths):
        line = begin
        while line < stop - 1e-6 and bar <= last and len(rows) < MOST_BEATS:
            quarters = [line + n * length / count for n in range(count)]
            rows += [(q, bar, beat) for beat, q in enumerate(quarters, 1) if q < stop - 1e-6]
            bar += 1
            line = begin + round((line - begin) / length + 1) * length
    seconds = beats.seconds(np.array([row[0] for row in rows])).tolist()
    return [(time, bar, beat) for time, (_, bar, beat) in zip(seconds, rows)]
