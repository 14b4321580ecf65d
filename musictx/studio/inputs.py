"""A request and a document -> the file that a take is computed from; its results -> proposals.

The file is what a person would pass to the command to get the same take: nothing else of the
document matters. Notes inside a gap that stay, since they are locked or kept in a variation, are on
separate tracks named "locked".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from musictx import midi
from musictx.chords import is_chart
from musictx.notes import DRUMS, PEDAL, Score, skyline
from musictx.studio.change import NamedNote, Note
from musictx.studio.document import Document, starts_inside
from musictx.studio.errors import Refused
from musictx.studio.exchange import closest_grid, music_of, score_of
from musictx.studio.models import Model
from musictx.studio.request import LONGEST, Request, bars, moment
from musictx.tokens.controls import measured
from musictx.tokens.tokenizer import Clock

if TYPE_CHECKING:
    from musictx.apps.tasks import Task

#: The longest bar, in whole notes, that a model of notes in bars can write.
LONGEST_BAR = 2
#: The largest number of notes in a melody.
LONGEST_MELODY = 5000
#: (start, end, pitch, velocity, track of a result)
Key = tuple[float, float, int, int, int]


@dataclass(frozen=True)
class Input:
    """What a take is computed from.

    document  the piece, with the notes of the file
    data      the MIDI file; None for a new piece
    score     the music of the file, as it is read back
    kept      the notes of the file that stay in every result; None if none does
    task      the gap or accompaniment to compose; None for other requests
    config    the options of the command, without the name of the file
    clock     for a new piece, the clock that gives its times in the document
    tracks    track of the file -> id of the track in the document
    numbers   note of the file -> numbers of the equal notes in the document
    replaced  numbers of the notes that every result removes from the document
    shortened  notes that every result adds: those that sound into the gap, ending where it begins
    following  for a continuation, (start, number) of the notes after its beginning; a result
              removes those that begin before its own end
    """

    document: Document
    request: Request
    model: Model
    config: Any
    data: bytes | None = None
    score: Score | None = None
    kept: Score | None = None
    task: Task | None = None
    clock: Clock | None = None
    tracks: Mapping[int, int] = field(default_factory=dict)
    numbers: Mapping[Key, list[int]] = field(default_factory=dict)
    replaced: tuple[int, ...] = ()
    shortened: tuple[Note, ...] = ()
    following: tuple[tuple[float, int], ...] = ()

    def placed(self, seconds: float) -> float:
        """The time in the document, in seconds, of a time in a result."""
        return seconds if self.clock is None else float(self.clock.seconds(seconds))


def prepare(document: Document, request: Request, model: Model) -> Input:
    """What the take of ``request`` is computed from. Raises :class:`Refused` if the document has no
    notes for it, or the model cannot do it."""
    for track in request.tracks or ():
        if track not in {one.id for one in document.tracks}:
            raise Refused(f"tracks: there is no track {track}")
    if request.task == "new":
        return _new(document, request, model)
    with_notes = {note[4] for note in document.notes.values()}
    empty = bool(request.tracks) and not with_notes.intersection(request.tracks or ())
    if empty and request.task in ("replace", "vary", "accompany"):
        return _parts(document, request, model)
    if request.task == "accompany" and is_chart(score_of(document)):
        return _chart(document, request, model)
    if not document.notes:
        raise Refused("there are no notes yet; draw some, load a file, or begin with a new piece")
    if request.quantise is None and model.bpm is None and music_of(document) != "free":
        request = replace(request, quantise=closest_grid(document))
    make = {"continue": _continued, "replace": _gap, "vary": _gap}.get(request.task, _melody)
    return make(document, request, model)


def _new(document: Document, request: Request, model: Model) -> Input:
    beats, begin = score_of(document, ()).beats, 0.0
    if document.notes:
        begin = float(beats.seconds(beats.bar_line(float(beats.quarters(document.duration)))))
    seconds = request.seconds
    if request.bars is not None:  # bars of the document: a model may count in seconds
        line = beats.bar_line(float(beats.quarters(begin)), request.bars)
        seconds = float(beats.seconds(line)) - begin
        _not_too_long(seconds, request.bars)
    if model.bpm is not None and seconds is not None:
        length = beats.quarters(begin + seconds) - beats.quarters(begin)
        seconds = float(length) * 60.0 / model.bpm
    if seconds is not None:  # rounded down to four digits, so that no further bar begins
        seconds = float(np.floor(seconds * 1e4 + 1e-3)) / 1e4
    meter = instruments = None
    if model.bpm is not None and not model.four_voices:
        instruments = ",".join(_part_tracks(document, request)) or None
        place = float(beats.quarters(begin)) + 1e-6
        mark = beats.meters[int(np.searchsorted(beats.meter_at, place, side="right")) - 1]
        if mark["numerator"] <= LONGEST_BAR * mark["denominator"]:
            meter = f"{mark['numerator']}/{mark['denominator']}"
    config = request.config(model, seconds=seconds, meter=meter, instruments=instruments)
    return Input(document, request, model, config, clock=Clock(beats, begin, model.bpm))


def _part_tracks(document: Document, request: Request) -> dict[str, int]:
    """The parts of the selected tracks, by their names in commands, such as "bass", each with the
    id of its track. A part follows from the name of the track, or else from its instrument."""
    from musictx.apps.parts import NAMES, family  # these import torch

    names = {program: name for name, program in reversed(NAMES.items())}
    parts: dict[str, int] = {}
    for track in document.tracks:
        if track.id in (request.tracks or ()):
            program = DRUMS if track.drum else track.program
            part = names.get(program) or names.get(family(program))
            if not track.drum and track.name.lower() in NAMES:
                part = track.name.lower()
            if part is None:
                raise Refused(f"tracks: the model writes no track such as {track.name or track.id}")
            parts.setdefault(part, track.id)
    return parts


def _parts(document: Document, request: Request, model: Model) -> Input:
    """The input for composing parts on selected tracks that have no notes, to the notes of all
    other tracks in the selected time, or to chords without notes, as ``musictx accompany add=``
    does."""
    if request.task == "vary":
        raise Refused("there are no notes to vary on these tracks; replace composes some there")
    score = score_of(document)
    if document.notes:
        begin, end = request.begin - 1e-3, request.end - 1e-6
        selected = [n for n, note in document.notes.items() if begin <= note[0] < end]
        score = score_of(document, selected)
    if not len(score) and not is_chart(score):
        raise Refused("there are no notes here to compose to; draw some, or begin with a new piece")
    parts = _part_tracks(document, request)
    names = ",".join(parts)
    if not model.programs:
        raise Refused(
            f"the model {model.name} writes no {names} to other tracks; choose one that keeps "
            "instruments apart, such as song"
        )
    request = replace(request, task="accompany")
    source = _written(document, request, model, score, {"add": names})
    # The command puts its new parts on the tracks after those of the file, in their order.
    new = enumerate(parts.values(), max(source.tracks, default=-1) + 1)
    return replace(source, tracks={**source.tracks, **dict(new)})


def _continued(document: Document, request: Request, model: Model) -> Input:
    seam, chosen = request.end, _chosen(document, request)
    kept = [row[0] for row in document.rows() if row[5] in chosen and row[1] < seam - 1e-6]
    if not kept:
        raise Refused(f"there are no notes before {seam:.1f} s that could be continued")
    score = score_of(document, kept)
    if model.four_voices and score.one_voice:
        raise Refused(
            f"this is one voice, and the model {model.name} continues four; harmonise it first"
        )
    if request.bars is not None:
        clock = score.beats
        line = clock.bar_line(float(clock.quarters(seam)), request.bars)
        _not_too_long(float(clock.seconds(line)) - seam, request.bars)
    notes = score.notes.copy()
    notes["end"] = np.minimum(notes["end"], seam)
    pedals = score.pedals[score.pedals["time"] < seam]
    last = max(notes["end"].max(), notes["start"].max())
    lifted = np.array([(last, 0, track) for track in np.unique(pedals["track"])], PEDAL)
    score = replace(score, notes=notes, pedals=np.concatenate([pedals, lifted]))
    following = tuple(
        (row[1], row[0])
        for row in document.rows()
        if row[5] in chosen and row[1] >= seam - 1e-6 and row[0] not in document.locked
    )
    length = {"seconds": request.seconds, "bars": request.bars}
    return _written(document, request, model, score, length, following=following)


def _not_too_long(seconds: float, bars: int) -> None:
    if seconds > 2 * LONGEST:
        raise Refused(f"bars={bars}: at this tempo they last {seconds:.0f} s; ask for fewer")


def _gap(document: Document, request: Request, model: Model) -> Input:
    begin, end = (round(at, 4) for at in (request.begin, request.end))
    if end <= begin:
        raise Refused("select some bars, or notes, to compose anew")
    chosen = _chosen(document, request)
    drums = {track.id for track in document.tracks if track.drum}
    if request.tracks is None:
        chosen -= drums
    elif chosen & drums and not model.programs:
        raise Refused(f"the model {model.name} writes no drums; leave their track out")
    inside = {n: note[4] for n, note in document.notes.items() if starts_inside(note, begin, end)}
    stays, locked_tracks = _staying(document, request, inside, chosen)
    chosen -= locked_tracks
    file_notes, shortened = dict(document.notes), dict[int, Note]()
    for number, note in document.notes.items():
        if number in inside and number not in stays:
            # The command finds the notes of the gap by their starts.
            file_notes[number] = (max(note[0], begin), *note[1:])
        elif number not in inside and begin <= note[0] < end and note[4] in chosen:
            stays.add(number)  # an early note of the bar after the gap
        elif (
            request.task == "replace"
            and note[0] < begin < note[1]
            and note[4] in chosen
            and number not in document.locked
        ):
            file_notes[number] = shortened[number] = (note[0], begin, *note[2:])
    document = replace(document, notes=file_notes)
    if begin >= document.duration - 0.002:  # the tolerance for times rounded to ticks
        raise Refused("the selection begins after the last note; continue goes on from there")
    rows = document.rows()
    used = {row[5] for row in rows if row[0] not in stays}
    if not chosen & used:
        raise Refused("there are no notes on these tracks: there is nothing to compose anew")
    score = score_of(document)
    if model.four_voices:
        if stays:
            raise Refused(f"the model {model.name} keeps no locked notes there; unlock them first")
        if (count := len(used - drums)) != 4:
            raise Refused(
                f"the model {model.name} writes in four voices, a track each; with notes there "
                f"{'is' if count == 1 else 'are'} {count} track{'s' * (count != 1)}"
            )
    notes, names = score.notes.copy(), dict(score.names)
    first_free = max(track.id for track in document.tracks) + 1
    staying = np.array([row[0] in stays for row in rows], bool)
    for number, track in enumerate(np.unique(notes["track"][staying]).tolist()):
        names[first_free + number] = "locked" if not number else f"locked {number + 1}"
        notes["track"][staying & (score.notes["track"] == track)] = first_free + number
    order = np.unique(notes["track"]).tolist()
    places = [place for place, track in enumerate(order, 1) if track in chosen]
    options = {"begin": moment(begin), "end": moment(end)}
    if len(places) < len(order):
        options["tracks"] = ",".join(map(str, places))
    score = replace(score, notes=notes, names=names)
    if request.task == "vary":
        around = [note for note in score.notes.tolist() if begin <= note[0] < end]
        levels = measured(score.with_notes(around).shifted(-begin).notes, end - begin)
        # A model of notes in bars keeps to the register and polyphony of a track by itself.
        held = levels if model.bpm is None else {"density": levels["density"]} if levels else {}
        request = replace(request, controls={**held, **request.controls})
    more = {"replaced": tuple(shortened), "shortened": tuple(shortened.values())}
    return _written(document, request, model, score, options, **more)


def _staying(
    document: Document, request: Request, inside: Mapping[int, int], chosen: set[int]
) -> tuple[set[int], set[int]]:
    """The numbers of the notes inside the gap that stay, and the tracks on which all notes inside
    it are locked, so that nothing is composed on them. Raises :class:`Refused` if every note would
    stay."""
    inside = {number: track for number, track in inside.items() if track in chosen}
    free = [number for number in inside if number not in document.locked]
    where = f"in {bars(request, score_of(document, ()).beats)}"
    if inside and not free:
        raise Refused(f"all notes selected {where} are locked; unlock some of them, or select more")
    locked_tracks = {*inside.values()} - {inside[number] for number in free}
    stays = {number for number in inside if inside[number] not in locked_tracks} - {*free}
    if request.task == "vary":
        random = np.random.default_rng((request.seed, 1))
        count = round(request.keep * len(free))
        if 0 < len(free) == count:
            all_of = f"all {count} notes that are" if count > 1 else "the one note that is"
            raise Refused(
                f"keep={request.keep:g}: {all_of} not locked {where} would stay; keep fewer, or "
                "select more"
            )
        stays |= {free[i] for i in random.permutation(len(free))[:count].tolist()}
    return stays, locked_tracks


def _melody(document: Document, request: Request, model: Model) -> Input:
    chosen = _chosen(document, request) - {track.id for track in document.tracks if track.drum}
    kept = [
        row[0]
        for row in document.rows()
        if row[5] in chosen and request.begin - 1e-3 <= row[1] < request.end - 1e-6
    ]
    if not kept:
        raise Refused("there are no pitched notes in the selection; select a melody")
    if len(kept) > LONGEST_MELODY:
        raise Refused(f"{len(kept)} notes are too long a melody; select {LONGEST_MELODY} at most")
    score = score_of(document, kept)
    if request.task == "harmonise":
        score = score.with_notes(score.notes[skyline(score)])
        ends = {"phrase_ends": _phrase_ends(score)}
        return _written(document, request, model, score, ends, replaced=tuple(kept))
    return _written(document, request, model, score)


def _chart(document: Document, request: Request, model: Model) -> Input:
    """Chords without notes: the piece from its beginning to the bar of the last one is composed."""
    source = _written(document, request, model, score_of(document))
    assert source.task is not None
    return replace(source, request=replace(request, begin=0.0, end=source.task.end))


def _phrase_ends(score: Score) -> list[int]:
    """The bars of the notes under fermatas, which a MIDI file cannot say."""
    clock, notes = score.beats, score.notes
    under = [t for t in score.fermatas if ((notes["start"] <= t) & (t < notes["end"])).any()]
    return sorted({clock.bar(float(clock.quarters(t)))[0] for t in under})


def _chosen(document: Document, request: Request) -> set[int]:
    every = {track.id for track in document.tracks}
    return every if request.tracks is None else set(request.tracks)


def _written(
    document: Document,
    request: Request,
    model: Model,
    score: Score,
    options: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> Input:
    """The input of a request with the file of ``score``, read back, so that the take is computed
    from what is in it: nothing of tracks without notes. ``more`` are other fields of the input."""
    config, data = request.config(model, **options), midi.to_bytes(score)
    back = midi.read(data)
    places = np.unique(back.notes["track"]).tolist()
    more["tracks"] = dict(zip(places, np.unique(score.notes["track"]).tolist()))
    if request.task != "harmonise":
        more["kept"] = back
    if request.task in ("replace", "vary", "accompany"):
        from musictx.apps import tasks  # torch is loaded by then

        task = more["task"] = tasks.task_of(config, back)
        if task.is_gap:
            more["kept"] = task.given
            more["numbers"] = _numbered(document.rows(), score, back, more["tracks"])
    return Input(document, request, model, config, data, back, **more)


def _numbered(
    rows: Iterable[NamedNote], score: Score, back: Score, tracks: Mapping[int, int]
) -> dict[Key, list[int]]:
    """For each note of the file, the numbers of the notes of the document that it was written from.
    Notes of one track and pitch are matched in their order, since the file rounds times to
    ticks."""
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for row, note in zip(rows, score.notes.tolist()):  # both by start
        groups[note[6], note[2]].append(row[0])
    numbers: defaultdict[Key, list[int]] = defaultdict(list)
    for note in sorted(keys(back.notes)):
        waiting = groups[tracks[note[4]], note[2]]
        if waiting:
            numbers[note].append(waiting.pop(0))
    return dict(numbers)


def keys(notes: np.ndarray) -> list[Key]:
    """What identifies each note."""
    return [(s, e, p, v, t) for s, e, p, v, _, _, t in notes.tolist()]
