"""What the composing thread does with a take: the calls of the commands, their notes and progress,
sent to the pages, and what a result changes in the document."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from musictx.apps import generate, infill
from musictx.bundle import Bundle
from musictx.chorale import app as harmonise
from musictx.chorale.config import HarmoniseConfig
from musictx.config import GenerateConfig
from musictx.notes import DRUMS, Score
from musictx.sampling.continuation import end_of
from musictx.sampling.events import Event
from musictx.sampling.sample import Sample
from musictx.studio.change import Track
from musictx.studio.inputs import Input, Key, keys
from musictx.studio.session import Publish
from musictx.studio.takes import Take

#: Seconds between two messages about the notes of a take, and about how far it is.
NOTES_EVERY, PROGRESS_EVERY = 0.1, 0.25


class Cancelled(Exception):
    """The take was cancelled."""


class Performance:
    """Composes a take, and publishes its notes meanwhile."""

    def __init__(self, take: Take, source: Input, session: str, publish: Publish) -> None:
        self._take, self._source = take, source
        self._session, self._publish = session, publish
        self._tracks = [Tracks(source) for _ in take.proposals]
        self._waiting: defaultdict[int, list[list[Any]]] = defaultdict(list)
        self._progress_at, self._notes_at = 0.0, 0.0

    def results(self, bundle: Bundle) -> Iterator[tuple[int, Sample, Outcome]]:
        """(number of the proposal from 0, what was composed, what it changes in the document) as
        each is done. Raises :class:`Cancelled` once the take is stopped."""
        for number, sample in self._composed(bundle):
            self._flush()
            until = sample.seam + sample.seconds
            yield number, sample, outcome(self._source, sample.score, until, self._tracks[number])

    def _composed(self, bundle: Bundle) -> Iterator[tuple[int, Sample]]:
        config, score, task = self._source.config, self._source.score, self._source.task
        seed = self._source.request.seed
        if isinstance(config, GenerateConfig):
            primer = generate.primer_of(bundle, score, config, str(config.primer or ""))
            stop = end_of(config, bundle.tokenizer, primer)
            progress = self._progress(0.0 if stop is None else stop - primer.seconds)
            return generate.pieces(
                bundle,
                [primer],
                [score],
                config,
                seeds=[seed],
                progress=lambda _, seconds: progress(seconds),
                on_event=self.event,
            )
        if isinstance(config, HarmoniseConfig):
            assert score is not None
            tune = harmonise.tune_of(score, config)
            pieces = harmonise.pieces(bundle, tune, config, seed, self.step)
            return enumerate(sample for _, sample in pieces)
        assert task is not None
        progress = self._progress((task.end - task.begin) * config.samples)
        versions = infill.composed(
            bundle, task, config, seed=seed, progress=progress, on_event=self.event
        )
        return enumerate(versions)

    def _progress(self, length: float) -> Callable[[float], None]:
        """Called with the seconds that are composed, of this ``length``."""
        return lambda seconds: self.step(min(seconds / max(length, 1e-3), 1.0))

    def event(self, number: int, event: Event) -> None:
        """A note of a proposal begins or ends."""
        if not self._take.running:
            return
        proposal = self._take.proposals[number]
        track = self._tracks[number].of(event.track)
        at = round(self._source.placed(event.seconds), 4)
        begins = ["on", at, event.pitch, event.velocity, track]
        self._waiting[number].append(begins if event.on else ["off", at, event.pitch, track])
        if proposal.state == "waiting":
            proposal.state, proposal.events = "composing", []
            self._flush()

    def step(self, share: float) -> None:
        """After each step: ``share`` of all is done."""
        if not self._take.running:
            raise Cancelled
        now = time.monotonic()
        if self._waiting and now - self._notes_at >= NOTES_EVERY:
            self._flush()
        if now - self._progress_at >= PROGRESS_EVERY:
            self._progress_at = now
            self._take.progress = round(min(share, 0.99), 3)
            self._publish(self._session, "take", self._take.json(notes=False))
            time.sleep(0)  # the server's threads wait for the interpreter

    def _flush(self) -> None:
        """Publish the notes that wait."""
        self._notes_at = time.monotonic()
        for number, events in self._waiting.items():
            proposal = self._take.proposals[number]
            if self._take.running:
                proposal.events = [*proposal.events, *events]
                data = {"take": self._take.id, "proposal": proposal.number, "events": events}
                self._publish(self._session, "note", data)
        self._waiting.clear()


class Tracks:
    """Which track of the document each track of a result is: one that is there, or a new one.

    new  track of the result -> number of the new track in the document
    """

    def __init__(self, source: Input) -> None:
        self._source, self._model = source, source.model
        self._places = {} if source.request.task == "harmonise" else dict(source.tracks)
        self._next = max((track.id for track in source.document.tracks), default=-1) + 1
        self.new: dict[int, int] = {}

    def of(self, key: int) -> int:
        """The number in the document of the track ``key`` of an event (see :meth:`key`)."""
        if key not in self._places:
            number = self._existing(key) if self._source.request.task == "new" else None
            if number is None:
                number, self._next = self._next, self._next + 1
                self.new[key] = number
            self._places[key] = number
        return self._places[key]

    def key(self, note: tuple[Any, ...]) -> int:
        """What events call the track of a finished note: its program in a new piece by a model that
        keeps programs apart, else the track of the file."""
        *_, program, drum, track = note
        if self._source.request.task == "new" and self._model.programs:
            return DRUMS if drum else int(program)
        return int(track)

    def _existing(self, key: int) -> int | None:
        """A track of the document for the same instrument, in a new piece."""
        if self._model.four_voices:
            return None
        drum, program = key == DRUMS, 0 if key == DRUMS else key
        for track in self._source.document.tracks:
            same = track.drum == drum and (drum or track.program == program)
            if same and track.id not in self._places.values():
                return track.id
        return None


@dataclass(frozen=True)
class Outcome:
    """A finished proposal: rows (start, end, pitch, velocity, track), new tracks, and the numbers
    of the notes that it replaces, in terms of the document."""

    notes: list[tuple[float, float, int, int, int]]
    tracks: list[dict[str, Any]]
    removes: list[int]


def outcome(source: Input, score: Score, until: float, tracks: Tracks) -> Outcome:
    """What ``score``, a result, changes in the document: its notes come and those of the file
    leave, but for what every result keeps. Equal notes come and leave, too: another proposal may
    have taken them away.

    until  seconds up to which the new music of a continuation reaches
    """
    in_file, kept = (
        Counter(keys(one.notes) if one is not None else ()) for one in (source.score, source.kept)
    )
    stays = Counter[Key]()
    rows: list[tuple[float, float, int, int, int]] = []
    sounds: dict[int, tuple[int, bool, int]] = {}  # key -> program, drums and track
    for note in score.notes.tolist():
        start, end, pitch, velocity, program, drum, track = note
        place = (start, end, pitch, velocity, track)
        if stays[place] < kept[place]:
            stays[place] += 1
            continue
        key = tracks.key(note)
        sounds[key] = program, drum, track
        start, end = round(source.placed(start), 6), round(source.placed(end), 6)
        rows.append((start, end, pitch, velocity, tracks.of(key)))
    rows += source.shortened
    removes = [*source.replaced]
    removes += [number for start, number in source.following if start < until - 1e-6]
    for place, count in (in_file - stays).items():
        removes += source.numbers.get(place, [])[::-1][:count]
    new = [
        Track(number, score.names.get(sounds[key][2], ""), *sounds[key][:2])._asdict()
        for key, number in tracks.new.items()
        if key in sounds
    ]
    return Outcome(rows, new, sorted(removes))
