"""Composes one take with the functions of the commands, and publishes its notes and progress."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from musictx.apps import generate, infill
from musictx.chorale import app as harmonise
from musictx.chorale.config import HarmoniseConfig
from musictx.config import GenerateConfig
from musictx.notes import DRUMS, Score
from musictx.sampling.composer import Progress
from musictx.sampling.continuation import end_time
from musictx.sampling.events import Event
from musictx.sampling.sample import Sample
from musictx.studio.change import Note, Track
from musictx.studio.events import Publish
from musictx.studio.inputs import Input, NoteKey, note_counts
from musictx.studio.takes import Proposal, Take

#: The shortest time, in seconds, between two messages with notes of a take, and with its progress.
NOTES_SECONDS, PROGRESS_SECONDS = 0.1, 0.25


class Cancelled(Exception):
    """The take was stopped."""


class TakeComposer:
    """Composes a take from its ``source``, and publishes the notes so far."""

    def __init__(self, take: Take, source: Input, session: str, publish: Publish) -> None:
        self._take, self._source = take, source
        self._session, self._publish = session, publish
        self._tracks = [TrackMap(source) for _ in take.proposals]
        self._unpublished: defaultdict[int, list[list[Any]]] = defaultdict(list)
        self._progress_time, self._notes_time = 0.0, 0.0

    def results(self) -> Iterator[tuple[Proposal, Score]]:
        """Yield each finished proposal with its music; raise :class:`Cancelled` if stopped."""
        for index, sample in self._samples():
            self._flush()
            end = sample.seam + sample.seconds
            proposal = proposal_of(self._source, sample.score, end, self._tracks[index], index + 1)
            proposal.remark = sample.remark
            yield proposal, sample.score

    def _samples(self) -> Iterator[tuple[int, Sample]]:
        """Yield the index of each proposal, and its sample."""
        bundle = self._source.model.bundle
        config, score, task = self._source.config, self._source.score, self._source.task
        seed = self._source.request.seed
        if isinstance(config, GenerateConfig):
            primer = generate.make_primer(bundle, score, config, str(config.primer or ""))
            end = end_time(config, bundle.tokenizer, primer)
            progress = self._progress(0.0 if end is None else end - primer.seconds)
            callbacks: dict[str, Any] = {"progress": progress, "on_event": self.on_event}
            return generate.compose_pieces(
                bundle, [primer], [score], config, seeds=[seed], **callbacks
            )
        if isinstance(config, HarmoniseConfig):
            assert score is not None
            tune = harmonise.tune_of(score, config)
            pieces = harmonise.pieces(bundle, tune, config, seed, self.on_step)
            return enumerate(sample for _, sample in pieces)
        assert task is not None
        progress = self._progress((task.end - task.begin) * config.samples)
        versions = infill.compose_versions(
            bundle, task, config, seed=seed, progress=progress, on_event=self.on_event
        )
        return enumerate(versions)

    def _progress(self, length: float) -> Progress:
        """Return a callback for the progress of music of ``length`` seconds."""
        return lambda _, seconds: self.on_step(min(seconds / max(length, 1e-3), 1.0))

    def on_event(self, index: int, event: Event) -> None:
        """Callback for a note of proposal ``index`` (from 0) that begins or ends. It is published
        soon, as ["on", seconds, pitch, velocity, track] or ["off", seconds, pitch, track]."""
        if not self._take.is_running:
            return
        proposal = self._take.proposals[index]
        track = self._tracks[index].document_track(event.track)
        seconds = round(self._source.document_time(event.seconds), 4)
        row = ["off", seconds, event.pitch, track]
        if event.on:
            row = ["on", seconds, event.pitch, event.velocity, track]
        self._unpublished[index].append(row)
        if proposal.state == "waiting":
            proposal.state, proposal.events = "composing", []
            self._flush()

    def on_step(self, share: float) -> None:
        """Callback after each step of composing, with the composed ``share`` of the take (0 to 1).
        Raise :class:`Cancelled` if the take was stopped."""
        if not self._take.is_running:
            raise Cancelled
        now = time.monotonic()
        if self._unpublished and now - self._notes_time >= NOTES_SECONDS:
            self._flush()
        if now - self._progress_time >= PROGRESS_SECONDS:
            self._progress_time = now
            self._take.progress = round(min(share, 0.99), 3)
            self._publish(self._session, "take", self._take.json(notes=False))
            time.sleep(0)  # lets the threads of the server run

    def _flush(self) -> None:
        """Publish the notes that were not published yet."""
        self._notes_time = time.monotonic()
        for index, events in self._unpublished.items():
            proposal = self._take.proposals[index]
            if self._take.is_running:
                proposal.events = [*proposal.events, *events]
                data = {"take": self._take.id, "proposal": proposal.number, "events": events}
                self._publish(self._session, "note", data)
        self._unpublished.clear()


class TrackMap:
    """Maps the tracks of a result to existing or new tracks of the document. ``new`` is {key of a
    track of the result: id of its new track in the document}."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._ids = {} if source.request.task == "harmonise" else dict(source.tracks)
        self._next_id = max((track.id for track in source.document.tracks), default=-1) + 1
        self.new: dict[int, int] = {}

    def document_track(self, key: int) -> int:
        """Return the id in the document of the track of the result with this :meth:`key`. In a new
        piece, an unused track with its program, if there is one, else a new track."""
        source = self._source
        if key not in self._ids and source.request.task == "new" and not source.model.four_voices:
            for track in source.document.tracks:
                program = DRUMS if track.drum else track.program
                if program == key and track.id not in self._ids.values():
                    self._ids[key] = track.id
                    break
        if key not in self._ids:
            self._ids[key] = self.new[key] = self._next_id
            self._next_id += 1
        return self._ids[key]

    def key(self, note: tuple[Any, ...]) -> int:
        """Return the key of the track of a finished ``note``, as ``Event.track`` has it: in a new
        piece by a model that keeps programs apart, its program; else its track of the file."""
        *_, program, drum, track = note
        if self._source.request.task == "new" and self._source.model.has_programs:
            return DRUMS if drum else int(program)
        return int(track)


def proposal_of(
    source: Input, score: Score, end: float, tracks: TrackMap, number: int = 1
) -> Proposal:
    """Return the finished proposal ``number`` with the result ``score``, whose new music ends at
    ``end`` seconds. It adds the notes of the result and removes those of the input file, except the
    notes that stay in every result. Composed notes are added even if they equal removed ones."""
    file_counts, fixed_counts = note_counts(source.score), note_counts(source.fixed_score)
    kept = Counter[NoteKey]()
    rows: list[Note] = []
    instruments: dict[int, tuple[str, int, bool]] = {}  # track -> name, program and drums
    for note in score.notes.tolist():
        start, stop, pitch, velocity, program, drum, track = note
        note_key = (start, stop, pitch, velocity, track)
        if kept[note_key] < fixed_counts[note_key]:
            kept[note_key] += 1
            continue
        key = tracks.key(note)
        instruments[key] = score.names.get(track, ""), program, drum
        times = (round(source.document_time(time), 6) for time in (start, stop))
        rows.append((*times, pitch, velocity, tracks.document_track(key)))
    rows += source.shortened
    removes = [*source.removes]
    removes += [note_id for start, note_id in source.later_notes if start < end - 1e-6]
    for note_key, count in (file_counts - kept).items():
        removes += source.numbers.get(note_key, [])[::-1][:count]
    new = [
        Track(track_id, *instruments[key])._asdict()
        for key, track_id in tracks.new.items()
        if key in instruments
    ]
    return Proposal(number, "done", rows, new, sorted(removes))
