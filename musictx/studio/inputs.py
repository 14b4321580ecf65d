"""Prepares the input of a take: a MIDI file and options, from which a command composes the same.
Notes that stay inside a gap, since they are locked or kept in a variation, are on tracks named
"locked"."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from musictx import midi
from musictx.chords import is_chart
from musictx.notes import DRUMS, PEDAL, Score, skyline, until
from musictx.studio.change import Note, NumberedNote
from musictx.studio.document import Document, starts_inside
from musictx.studio.errors import Refused
from musictx.studio.exchange import closest_grid, music_of, score_of
from musictx.studio.models import Model
from musictx.studio.request import Request
from musictx.tokens.controls import measure_controls
from musictx.tokens.tokenizer import Clock

if TYPE_CHECKING:
    from musictx.apps.tasks import Task

#: The longest bar, in whole notes, that models whose tokens count beats can write.
LONGEST_BAR = 2
#: The most notes of a melody.
LONGEST_MELODY = 5000
#: The values of a note of a file or a result: (start, end, pitch, velocity, track).
NoteKey = tuple[float, float, int, int, int]


@dataclass(frozen=True)
class Input:
    """The input of a take.

    document     the piece; notes that sound into the gap, or start early, are cut as in the file
    config       the options of the command, without the name of the file
    data         the content of the MIDI file; None for a new piece
    score        the music of the file; None for a new piece
    task         the gap or accompaniment to compose; None for other requests
    clock        for a new piece, converts its times to times of the document
    tracks       {track of the file: id of the track in the document}
    numbers      {values of a note of the file: numbers of its notes in the document}
    removes      numbers of the notes that every result removes from the document
    shortened    notes that every result adds: those that sounded into the gap, cut at its start
    later_notes  for a continuation, (start, number) of the notes after its start; a result removes
                 those that start before its end
    """

    document: Document
    request: Request
    model: Model
    config: Any
    data: bytes | None = None
    score: Score | None = None
    task: Task | None = None
    clock: Clock | None = None
    tracks: Mapping[int, int] = field(default_factory=dict)
    numbers: Mapping[NoteKey, list[int]] = field(default_factory=dict)
    removes: tuple[int, ...] = ()
    shortened: tuple[Note, ...] = ()
    later_notes: tuple[tuple[float, int], ...] = ()

    @property
    def fixed_score(self) -> Score | None:
        """The notes of the file that stay in every result; None if no note stays."""
        if self.task is not None and self.task.is_gap:
            return self.task.given
        return None if self.request.task == "harmonise" else self.score

    def document_time(self, seconds: float) -> float:
        """Convert a time in a result to the time in the document, both in seconds."""
        return seconds if self.clock is None else float(self.clock.seconds(seconds))


def prepare(document: Document, request: Request, model: Model) -> Input:
    """Return the input for the take of ``request``. If a model that counts seconds gets music on
    beats, its results are quantised to the closest grid by default. Raise :class:`Refused` if the
    document has no suitable notes, or the model does not support the request."""
    for number in request.tracks or ():
        if number not in {track.id for track in document.tracks}:
            raise Refused(f"tracks: there is no track {number}")
    if request.task == "new":
        return _new_piece(document, request, model)
    used_tracks = document.tracks_of(document.notes)
    are_empty = request.tracks and used_tracks.isdisjoint(request.tracks)
    if are_empty and request.task in ("replace", "vary", "accompany"):
        return _new_parts(document, request, model)
    if request.task == "accompany" and is_chart(score_of(document)):
        source = _with_file(document, request, model, score_of(document))  # to the last chord
        assert source.task is not None
        return replace(source, request=replace(request, begin=0.0, end=source.task.end))
    if not document.notes:
        raise Refused("there are no notes yet; draw some, load a file, or begin with a new piece")
    if request.quantise is None and model.bpm is None and music_of(document) != "free":
        request = replace(request, quantise=closest_grid(document))
    prepare_task = {"continue": _continuation, "replace": _gap, "vary": _gap}
    return prepare_task.get(request.task, _melody)(document, request, model)


def _new_piece(document: Document, request: Request, model: Model) -> Input:
    """Return the input of a new piece, which starts at the first bar line after the last note."""
    beats, begin = document.beats, 0.0
    if document.notes:
        begin = beats.seconds(beats.bar_line(beats.quarters(document.duration)))
    seconds = request.seconds
    if request.bars is not None:  # bars of the document, since the model may count seconds
        seconds = beats.seconds(beats.bar_line(beats.quarters(begin), request.bars)) - begin
    if model.bpm is not None and seconds is not None:
        length = beats.quarters(begin + seconds) - beats.quarters(begin)
        seconds = length * 60.0 / model.bpm
    if seconds is not None:  # rounded down to four digits, so that no further bar starts
        seconds = float(np.floor(seconds * 1e4 + 1e-3)) / 1e4
    meter = instruments = None
    if model.bpm is not None and not model.four_voices:
        instruments = ",".join(_part_tracks(document, request)) or None
        onset = beats.quarters(begin) + 1e-6
        row = beats.meters[int(np.searchsorted(beats.meter_at, onset, side="right")) - 1]
        if row["numerator"] <= LONGEST_BAR * row["denominator"]:
            meter = f"{row['numerator']}/{row['denominator']}"
    config = request.config(model, seconds=seconds, meter=meter, instruments=instruments)
    return Input(document, request, model, config, clock=Clock(beats, begin, model.bpm))


def _part_tracks(document: Document, request: Request) -> dict[str, int]:
    """Return {part: track id} of the selected tracks. The part, such as "bass" in commands, follows
    from the name of the track, or else from its program."""
    from musictx.apps.parts import NAMES, family_program  # this imports torch

    names = {program: name for name, program in reversed(NAMES.items())}
    parts: dict[str, int] = {}
    for track in document.tracks:
        if track.id in (request.tracks or ()):
            program = DRUMS if track.drum else track.program
            part = names.get(program) or names.get(family_program(program))
            if not track.drum and track.name.lower() in NAMES:
                part = track.name.lower()
            if part is None:
                raise Refused(f"tracks: the model writes no track such as {track.name or track.id}")
            parts.setdefault(part, track.id)
    return parts


def _new_parts(document: Document, request: Request, model: Model) -> Input:
    """Return the input for composing parts on the selected tracks, which have no notes. They
    accompany the notes in the selected time, or a chart of chords, as ``accompany add=`` does."""
    if request.task == "vary":
        raise Refused("there are no notes to vary on these tracks; replace composes some there")
    score = score_of(document)
    if document.notes:
        score = score_of(document, _selected_notes(document, request))
    if not len(score) and not is_chart(score):
        raise Refused("there are no notes here to compose to; draw some, or begin with a new piece")
    parts = _part_tracks(document, request)
    names = ",".join(parts)
    request = replace(request, task="accompany")
    source = _with_file(document, request, model, score, {"add": names})
    # The command writes the new parts, in this order, on tracks after those of the file.
    new_tracks = dict(enumerate(parts.values(), max(source.tracks, default=-1) + 1))
    return replace(source, tracks={**source.tracks, **new_tracks})


def _continuation(document: Document, request: Request, model: Model) -> Input:
    """Return the input for continuing the notes that start before the end of the selection."""
    seam, selected_tracks = request.end, _selected_tracks(document, request)
    rows = [row for row in document.rows() if row[5] in selected_tracks]
    earlier = [row[0] for row in rows if row[1] < seam - 1e-6]
    if not earlier:
        raise Refused(f"there are no notes before {seam:.1f} s that could be continued")
    score = score_of(document, earlier)
    score = until(score, seam)
    notes = score.notes
    pedals = score.pedals[score.pedals["time"] < seam]
    last = max(notes["end"].max(), notes["start"].max())
    releases = np.array([(last, 0, track) for track in np.unique(pedals["track"])], PEDAL)
    score = replace(score, pedals=np.concatenate([pedals, releases]))
    later_rows = rows[len(earlier) :]  # rows are sorted by start
    later_notes = tuple((row[1], row[0]) for row in later_rows if row[0] not in document.locked)
    # The user can continue the piece again, so it needs no ending.
    options = {"seconds": request.seconds, "bars": request.bars, "end": "cut"}
    return _with_file(document, request, model, score, options, later_notes=later_notes)


def _gap(document: Document, request: Request, model: Model) -> Input:
    """Return the input for composing the selected bars anew."""
    begin, end = round(request.begin, 4), round(request.end, 4)
    if end <= begin:
        raise Refused("select some bars, or notes, to compose anew")
    selected_tracks = _selected_tracks(document, request)
    drums = {track.id for track in document.tracks if track.drum}
    if request.tracks is None:
        selected_tracks -= drums
    inside = {n: note[4] for n, note in document.notes.items() if starts_inside(note, begin, end)}
    staying, locked_tracks = _choose_staying(document, request, inside, selected_tracks)
    selected_tracks -= locked_tracks
    moved, shortened = dict[int, Note](), dict[int, Note]()
    for number, note in document.notes.items():
        start, stop, *_, track = note
        if number in inside:
            if number not in staying:  # the command finds the notes of the gap by their starts
                moved[number] = (max(start, begin), *note[1:])
        elif track in selected_tracks and begin <= start < end:
            staying.add(number)  # an early note of the bar after the gap
        elif track in selected_tracks and start < begin < stop and number not in document.locked:
            shortened[number] = (start, begin, *note[2:])
    if request.task == "vary":
        shortened = {}
    document = replace(document, notes=document.notes | moved | shortened)
    used_tracks = document.tracks_of(document.notes.keys() - staying)
    if not selected_tracks & used_tracks:
        raise Refused("there are no notes on these tracks: there is nothing to compose anew")
    is_staying = np.array([row[0] in staying for row in document.rows()], bool)
    first_free = max(track.id for track in document.tracks) + 1
    score = _move_to_locked_tracks(score_of(document), is_staying, first_free)
    file_tracks = np.unique(score.notes["track"]).tolist()
    numbers = [number for number, track in enumerate(file_tracks, 1) if track in selected_tracks]
    options = {"begin": f"{begin:.10g}s", "end": f"{end:.10g}s"}
    if len(numbers) < len(file_tracks):
        options["tracks"] = ",".join(map(str, numbers))
    if request.task == "vary":
        varied = [note for note in score.notes.tolist() if begin <= note[0] < end]
        levels = measure_controls(score.with_notes(varied).shifted(-begin).notes, end - begin)
        if model.bpm is not None and levels:
            # Models that count beats keep the register and polyphony of a track by themselves.
            levels = {"density": levels["density"]}
        request = replace(request, controls={**levels, **request.controls})
    cut = {"removes": tuple(shortened), "shortened": tuple(shortened.values())}
    return _with_file(document, request, model, score, options, **cut)


def _move_to_locked_tracks(score: Score, is_staying: np.ndarray, first_free: int) -> Score:
    """Return ``score`` with the notes of the mask ``is_staying`` on new tracks named "locked": one
    for each track that has such notes, numbered from ``first_free``."""
    notes, names = score.notes.copy(), dict(score.names)
    for n, track in enumerate(np.unique(notes["track"][is_staying]).tolist()):
        names[first_free + n] = "locked" if n == 0 else f"locked {n + 1}"
        notes["track"][is_staying & (score.notes["track"] == track)] = first_free + n
    return replace(score, notes=notes, names=names)


def _choose_staying(
    document: Document, request: Request, inside: Mapping[int, int], selected_tracks: set[int]
) -> tuple[set[int], set[int]]:
    """Return, of the notes ``inside`` the gap ({number: track}) on the selected tracks, the numbers
    of those that stay, and the tracks with only locked notes, on which nothing is composed. At
    least one note that is not locked is varied."""
    inside = {number: track for number, track in inside.items() if track in selected_tracks}
    unlocked = [number for number in inside if number not in document.locked]
    locked_tracks = {*inside.values()} - {inside[number] for number in unlocked}
    staying = {number for number in inside if inside[number] not in locked_tracks} - {*unlocked}
    if request.task == "vary":
        random = np.random.default_rng((request.seed, 1))
        count = min(round(request.keep * len(unlocked)), max(len(unlocked) - 1, 0))
        staying |= {unlocked[i] for i in random.permutation(len(unlocked))[:count].tolist()}
    return staying, locked_tracks


def _melody(document: Document, request: Request, model: Model) -> Input:
    """Return the input for accompanying or harmonising the selected pitched notes."""
    pitched_tracks = {track.id for track in document.tracks if not track.drum}
    tracks = _selected_tracks(document, request) & pitched_tracks
    melody = [n for n in _selected_notes(document, request) if document.notes[n][4] in tracks]
    if not melody:
        raise Refused("there are no pitched notes in the selection; select a melody")
    if len(melody) > LONGEST_MELODY:
        raise Refused(f"{len(melody)} notes are too long a melody; select {LONGEST_MELODY} at most")
    score = score_of(document, melody)
    if request.task == "harmonise":
        score = score.with_notes(score.notes[skyline(score)])
        notes, beats = score.notes, score.beats
        # MIDI files have no fermatas, so an option has the bars with fermatas on notes.
        times = [t for t in score.fermatas if ((notes["start"] <= t) & (t < notes["end"])).any()]
        ends = {"phrase_ends": sorted({beats.bar(beats.quarters(time))[0] for time in times})}
        return _with_file(document, request, model, score, ends, removes=tuple(melody))
    return _with_file(document, request, model, score)


def _selected_notes(document: Document, request: Request) -> list[int]:
    """Return the numbers of the notes, on any track, that start in the selected time, in order."""
    begin, end = request.begin - 1e-3, request.end - 1e-6
    return [number for number, start, *_ in document.rows() if begin <= start < end]


def _selected_tracks(document: Document, request: Request) -> set[int]:
    """Return the ids of the selected tracks; by default all."""
    if request.tracks is not None:
        return {*request.tracks}
    return {track.id for track in document.tracks}


def _with_file(
    document: Document,
    request: Request,
    model: Model,
    score: Score,
    options: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Input:
    """Return the input with the MIDI file of ``score``, ``options`` of the command, and ``fields``
    of :class:`Input`. The file is read back, so that the take is composed from what it contains."""
    config, data = request.config(model, **(options or {})), midi.to_bytes(score)
    file_score = midi.read(data)
    file_tracks = np.unique(file_score.notes["track"]).tolist()
    tracks = dict(zip(file_tracks, np.unique(score.notes["track"]).tolist()))
    if request.task in ("replace", "vary", "accompany"):
        from musictx.apps import tasks  # torch is loaded by then

        task = fields["task"] = tasks.task_of(config, file_score)
        if task.is_gap:
            fields["numbers"] = _note_numbers(document.rows(), score, file_score, tracks)
    return Input(document, request, model, config, data, file_score, tracks=tracks, **fields)


def _note_numbers(
    rows: Iterable[NumberedNote], score: Score, file_score: Score, tracks: Mapping[int, int]
) -> dict[NoteKey, list[int]]:
    """Return {values of a note of the file: numbers of its notes in the document}. Notes of one
    track and pitch are matched in order, since the file rounds times to ticks."""
    groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for row, note in zip(rows, score.notes.tolist()):  # both are sorted by start
        groups[note[6], note[2]].append(row[0])
    numbers: defaultdict[NoteKey, list[int]] = defaultdict(list)
    for key in sorted(note_counts(file_score).elements()):
        _, _, pitch, _, track = key
        if group := groups[tracks[track], pitch]:
            numbers[key].append(group.pop(0))
    return dict(numbers)


def note_counts(score: Score | None) -> Counter[NoteKey]:
    """Return how often ``score`` has a note of these values; empty for ``None``."""
    rows = [] if score is None else score.notes.tolist()
    return Counter((*row[:4], row[6]) for row in rows)
