"""Score <-> document, a part of either, and the lines of bars and beats that a page draws."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from musictx import registry
from musictx.beats import Beats
from musictx.chords import is_chart, marked, name_of, symbol_of
from musictx.grid import FEWEST, exactness, grid_of
from musictx.midi.names import part_names
from musictx.notes import METER, NOTE, TEMPO, Score
from musictx.studio.change import MIXER, TEXTS, Change, Track, clean_name
from musictx.studio.controllers import controllers
from musictx.studio.document import Document
from musictx.studio.errors import Refused

#: What the tracks of a harmonised tune are called, in the order of the alphabet.
VOICES = ["alto", "bass", "soprano", "tenor"]
#: Bars that a page can show after the end.
BARS_AFTER = 32
#: At most so many beats are listed: a damaged tempo has millions of them.
MOST_BEATS = 50_000


def document_of(score: Score, name: str = "") -> Document:
    """``score`` as a document; a track of several programs becomes one track for each."""
    notes = score.notes
    kinds, which = np.unique(notes[["track", "drum", "program"]], return_inverse=True)
    parts = [(int(t), int(p), bool(d)) for t, d, p in kinds.tolist()]
    set_to = _mixers(score) if score.file else {}
    tracks = [
        Track(i, clean_name(score.names.get(part[0], "")), *part[1:], **set_to.get(part[0], {}))
        for i, part in enumerate(parts)
    ]
    columns = (notes[c].tolist() for c in ("start", "end", "pitch", "velocity"))
    rows = zip(*columns, which.reshape(-1).tolist())
    pedals = [
        (time, value, i)
        for time, value, of in score.pedals.tolist()
        for i, part in enumerate(parts)
        if part[0] == of
    ]
    texts: dict[str, Any] = {
        n: tuple((t, clean_name(text)) for t, text in getattr(score, n)) for n in TEXTS
    }
    return Document(
        name=name,
        notes=dict(enumerate(rows)),
        next_id=len(notes),
        tracks=tuple(tracks) or Document.tracks,
        pedals=tuple(pedals),
        tempos=tuple(score.tempos.tolist()),
        meters=tuple(score.meters.tolist()),
        keys=tuple(score.keys.tolist()),
        ticks_per_quarter=score.ticks_per_quarter,
        fermatas=tuple(score.fermatas),
        **texts,
        composer=clean_name(score.composer),
    )


def _mixers(score: Score) -> dict[int, dict[str, Any]]:
    """Part of a MIDI file -> what its controllers set before its first note."""
    mixers: dict[int, dict[str, Any]] = {}
    for (part, number), rows in controllers(score.file).items():
        first = score.notes["start"][score.notes["track"] == part].min()
        for name in (name for name, of in MIXER.items() if of == number):
            values = [value for time, value in rows if time <= first]
            mixers.setdefault(part, {}).update({name: values[-1]} if values else {})
    return mixers


def gains(document: Document) -> dict[int, tuple[float, float, float]]:
    """Track -> how loud, 1 as usual; how far right, -1 to 1; how much of the room, 1 as usual."""
    return {t.id: ((t.volume / 100) ** 2, t.pan / 64 - 1, t.reverb / 40) for t in document.tracks}


def in_order(document: Document) -> Document:
    """``document`` with its tracks numbered in their order, as files have them."""
    place = {track.id: n for n, track in enumerate(document.tracks)}
    if list(place) == sorted(place):
        return document
    return dataclasses.replace(
        document,
        tracks=tuple(track._replace(id=n) for n, track in enumerate(document.tracks)),
        notes={number: (*note[:4], place[note[4]]) for number, note in document.notes.items()},
        pedals=tuple((time, value, place[of]) for time, value, of in document.pedals),
    )


def audible(document: Document) -> list[int]:
    """Numbers of the notes that sound, since their track is not mute, or alone."""
    solo = any(track.solo for track in document.tracks)
    on = {track.id for track in document.tracks if (track.solo if solo else not track.mute)}
    return [number for number, note in document.notes.items() if note[4] in on]


def shown_names(tracks: Sequence[Track]) -> dict[int, str]:
    """Track -> what to call it where it has no name. They are never written to files, since
    models read the names of tracks."""
    parts = [(track.id, track.program, track.drum) for track in tracks]
    return {part[0]: name for part, name in part_names(parts, {}).items()}


def tracks(document: Document) -> list[dict[str, Any]]:
    """The tracks as a page gets them, each with something to call it."""
    shown = shown_names(document.tracks)
    return [t._asdict() | {"name": t.name or shown[t.id]} for t in document.tracks]


def stored_names(change: Change, document: Document) -> Change:
    """``change`` from a page, in which tracks without a name do not take on the one shown."""
    if change.tracks is None:
        return change
    shown = shown_names(document.tracks)
    shown = {track.id: shown[track.id] for track in document.tracks if not track.name}
    tracks = (t._replace(name="") if t.name == shown.get(t.id) else t for t in change.tracks)
    return dataclasses.replace(change, tracks=tuple(tracks))


def view(document: Document) -> dict[str, Any]:
    """The document as a page gets it; what belongs to its session and its takes is added there.
    ``brought`` has for each proposal in it, "take/proposal", the number of its first note, how many
    it added, and the notes that left for it."""
    state = document.state()
    rows = state.pop("accepted")
    brought = {f"{row.take}/{row.proposal}": row[2:5] for row in rows}
    return state | {"brought": brought} | derived(document)


def derived(document: Document) -> dict[str, Any]:
    """What a page shows of the document that follows from the rest of it, and that any operation
    may change."""
    own = {name: getattr(document, name) for name in ("revision", "next_id", "duration")}
    more = {"music": music_of(document), "beats": beats(document), "tracks": tracks(document)}
    return own | more | above(document)


def music_of(document: Document) -> str:
    """What kind of music it is, so that a model suits it: "chorale" where its tracks are called as
    the four voices, else "beats" where it keeps to those of its marks, as commands decide it, also
    of a few drawn notes or of chords alone, or "free"."""
    if not document.notes and is_chart(score_of(document)):
        return "beats"
    used = {values[4] for values in document.notes.values()}
    if sorted(t.name.lower() for t in document.tracks if t.id in used) == VOICES:
        return "chorale"
    notes = np.zeros(len(document.notes), NOTE)
    notes["start"] = notes["end"] = sorted(values[0] for values in document.notes.values())
    notes["velocity"] = 1
    score = Score(notes=notes, tempos=document.tempos)  # type: ignore[arg-type]
    if 0 < len(score) < FEWEST:
        exact = exactness(_clock(document).quarters(notes["start"])) == 1
        return "beats" if exact else "free"
    return "beats" if grid_of(score).kind == "grid" else "free"


def lines_of(document: Document) -> str:
    """The grid, as ``quantise`` calls it, that its notes keep to: sixteenths, or triplets."""
    clock = _clock(document)
    at = clock.quarters(np.array([values[0] for values in document.notes.values()]))
    near = {g: (np.abs(at * n - np.round(at * n)) < 0.1).mean() for g, n in (("16", 4), ("8t", 3))}
    return "8t" if near["8t"] > near["16"] else "16"


def above(document: Document) -> dict[str, Any]:
    """The markers as a page shows them: ``chords`` as (seconds, text of the marker, symbol that
    musicians write), and ``sections`` as (seconds, text)."""
    chords = marked(score_of(document, ()))
    symbols = {text: symbol_of(name_of(text.strip()) or "N") for text in chords}
    return {
        "chords": [
            (time, text, symbols[text]) for time, text in document.markers if text in chords
        ],
        "sections": [row for row in document.markers if row[1] not in chords],
    }


def chord_named(text: str) -> dict[str, str]:
    """The ``name`` that markers have for a typed chord; :class:`Refused` for other text."""
    text = text.strip()
    name = name_of(text[:1].upper() + text[1:])
    if name is None:
        raise Refused(f"{text[:40]} is no chord; write C, F#m7, Bbmaj7, Gsus4 or N.C.")
    return {"name": name}


def chords_of(document: Document, symbols: bool = False) -> list[tuple[Any, ...]]:
    """The chords that its notes imply: seconds and name of each change, with ``symbols`` also as
    musicians write it; none where the component that finds them is missing."""
    if not registry.is_present("musictx.songs"):
        return []
    from musictx.songs.chord_estimation import recognised

    chords = recognised(score_of(document))
    names: list[tuple[Any, ...]] = [(time, str(chord)) for time, chord in chords]
    return [(*row, symbol_of(row[1])) for row in names] if symbols else names


def score_of(document: Document, numbers: Iterable[int] | None = None) -> Score:
    """The document, or those of its notes that have these ``numbers``, as a Score."""
    by_id = {track.id: track for track in document.tracks}
    notes = [
        (start, end, pitch, velocity, by_id[of].program, by_id[of].drum, of)
        for _, start, end, pitch, velocity, of in document.rows(numbers)
    ]
    return Score(
        notes=np.array(notes, NOTE),
        pedals=document.pedals,  # type: ignore[arg-type]
        tempos=document.tempos,  # type: ignore[arg-type]
        meters=document.meters,  # type: ignore[arg-type]
        keys=document.keys,  # type: ignore[arg-type]
        names={track.id: track.name for track in document.tracks if track.name},
        ticks_per_quarter=document.ticks_per_quarter,
        fermatas=document.fermatas,
        **{name: getattr(document, name) for name in TEXTS},
        title="" if document.name.lower() == "untitled" else document.name,
        composer=document.composer,
    )


def part_of(score: Score, begin: float, end: float) -> Score:
    """What sounds from ``begin`` to ``end`` seconds, counted from ``begin``: notes are cut at both,
    and the tempo, meter, key and pedals that hold at ``begin`` open it."""
    notes = score.notes
    inside = (notes["start"] < end) & (notes["end"] > begin)
    inside |= (notes["start"] == notes["end"]) & (notes["start"] == begin)
    chosen = notes[inside].copy()
    chosen["start"] = np.maximum(chosen["start"], begin)
    chosen["end"] = np.minimum(chosen["end"], end)
    marks: dict[str, Any] = {}
    for name in TEXTS:
        marks[name] = tuple(row for row in getattr(score, name) if begin <= row[0] < end)
    for name in ("tempos", "meters", "keys"):
        marks[name] = _held(getattr(score, name), begin, end)
    pedals = score.pedals
    of_tracks = [_held(pedals[pedals["track"] == t], begin, end) for t in {*pedals["track"]}]
    fermatas = tuple(time for time in score.fermatas if begin <= time < end)
    pedals = np.concatenate([pedals[:0], *of_tracks])
    part = dataclasses.replace(score, notes=chosen, pedals=pedals, fermatas=fermatas, **marks)
    return part.shifted(-begin)


def _held(marks: np.ndarray, begin: float, end: float) -> np.ndarray:
    """The last of ``marks`` until ``begin``, and those from there to ``end``."""
    before = int(np.searchsorted(marks["time"], begin, side="right"))
    return marks[max(before - 1, 0) : np.searchsorted(marks["time"], end)]


def beats(document: Document) -> list[tuple[float, int, int]]:
    """(seconds, bar, beat) of every beat to 32 bars after the end; beats from 1, bars from 1 as
    well, but for a pick-up, which is bar 0."""
    clock = _clock(document)
    end = max([document.duration, *(time for time, _ in document.markers)])  # of a chart, too
    last = clock.bar(float(clock.quarters(end)))[0] + BARS_AFTER
    rows: list[tuple[float, int, int]] = []
    bar = 1 - clock.pickup
    stops = [*clock.meter_at[1:].tolist(), math.inf]
    meters = clock.meters["numerator"].tolist(), clock.bar_quarters.tolist()
    for begin, stop, count, length in zip(clock.meter_at.tolist(), stops, *meters):
        line = begin
        while line < stop - 1e-6 and bar <= last and len(rows) < MOST_BEATS:
            places = [line + n * length / count for n in range(count)]
            rows += [(at, bar, n) for n, at in enumerate(places, 1) if at < stop - 1e-6]
            bar += 1
            line = begin + round((line - begin) / length + 1) * length
    seconds = clock.seconds(np.array([at for at, *_ in rows])).tolist()
    return [(time, *place) for time, (_, *place) in zip(seconds, rows)]


def _clock(document: Document) -> Beats:
    meters = [row for row in document.meters if row[1] and row[2]]
    return Beats(
        Score(tempos=np.array(list(document.tempos), TEMPO), meters=np.array(meters, METER))
    )
