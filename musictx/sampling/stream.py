"""Music event by event, as soon as it is drawn, for as long as anybody listens.

Memory does not grow: the window of the model slides (:class:`musictx.sampling.engine.Decoder`), and
nothing is kept of a note once it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.notes import DRUMS
from musictx.sampling import engine, soft
from musictx.sampling import processors as reshape
from musictx.sampling.constraints import GrammarConstraint
from musictx.sampling.music import prompts
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.soft import NoteLimits
from musictx.sampling.timeline import Timeline
from musictx.tokens.vocab import EOS, NoteEvents, SoftConstraint, Tokenizer


class Event(NamedTuple):
    """A note that begins (``on``) or ends.

    seconds   from the beginning of the new music; never less than those of the event before
    velocity  1 to 127; 0 where a note ends
    track     voice of a chorale from the highest, program of an ensemble, else 0; :data:`DRUMS`,
              whose strokes begin and end at once
    """

    seconds: float
    on: bool
    pitch: int
    velocity: int
    track: int = 0


class Stream(Iterator[Event]):
    """An iterator of events; ``close`` it, or leave its ``with`` block, and it stops.

    seconds   length of the music; ``None`` = until it is closed. Notes that sound then are ended.
    context   ids that the model looks back on. It may be set while the stream runs: less is faster.
    drawn     ids so far, the primer's included

    The other arguments are those of :func:`musictx.sampling.music.continuations`. Raises
    ``UserError`` for tokens that write notes with their length: these are known too late.
    """

    def __init__(
        self,
        model: MusicTransformer,
        tokenizer: Tokenizer,
        primer: Primer,
        *,
        seed: int | Sequence[int],
        seconds: float | None = None,
        sampling: SamplingConfig | None = None,
        context: int | None = None,
        note_limits: Mapping[str, Any] | None = None,
        constraints: Sequence[SoftConstraint] = (),
        processors: Sequence[Processor] = (),
    ) -> None:
        sampling = sampling or SamplingConfig()
        self._model, self._tokenizer = model, tokenizer
        self._seed = [seed] if isinstance(seed, int) else list(seed)
        self._line, self._begins = Timeline(tokenizer, primer.score), primer.seconds
        self._seam = float(self._line.placed(primer.seconds))
        until = None if seconds is None else self._line.read(self._seam + seconds)
        self._law = GrammarConstraint([primer.state(tokenizer)], may_end=False, until=until)
        self._reader = reader(tokenizer, primer.ids)
        built = soft.build(tokenizer, sampling, NoteLimits.of(note_limits), [primer])
        self._soft = soft.together(tokenizer, [*constraints, *built])
        self._processors = [*processors, *reshape.build(sampling, tokenizer)]
        self._context = context or int(model.config["context"])
        room = 2 * max(self._context, int(model.config["context"])) * tokenizer.align
        self._ids: deque[int] = deque(primer.ids.tolist(), maxlen=room)
        self.drawn = len(primer.ids)
        self._sounding: set[tuple[int, int]] = set()
        self._events: deque[Event] = deque()
        self._closed, self._starts = False, 0
        self._steps: Iterator[Tensor] | None = None

    @property
    def context(self) -> int:
        return self._context

    @context.setter
    def context(self, ids: int) -> None:
        self._context = max(ids, 2 * self._tokenizer.align)
        self._steps = None

    def __next__(self) -> Event:
        self.prepare()
        if not self._events:
            raise StopIteration
        return self._events.popleft()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self) -> None:
        """Read the primer and draw up to the first event, so that it is there when asked for."""
        while not self._events and not self._closed:
            self._advance()

    def close(self) -> None:
        """Stop at once; no further event comes."""
        self._closed = True
        self._events.clear()
        self._steps = None

    def _engine(self) -> Iterator[Tensor]:
        (prompt,) = prompts([np.array(self._ids, np.int64)], self._context, self._tokenizer.align)
        self._starts += 1
        return engine.generate(
            self._model,
            prompt,
            rows=1,
            max_tokens=None,
            processors=self._processors,
            constraint=self._law,
            soft=self._soft,
            groups=self._tokenizer.kind_of,
            seeds=[[*self._seed, self._starts]],
            context=self._context,
            align=self._tokenizer.align,
        )

    def _advance(self) -> None:
        """Draw one id and read it; at the end let go of what sounds."""
        whole = self.drawn % self._tokenizer.align == 0
        if self._steps is None and (whole or not self._starts):
            self._steps = self._engine()
        assert self._steps is not None
        ids = next(self._steps, None)
        state, until = self._law.states[0], self._law.until[0]
        if ids is not None and int(ids[0]) != EOS:
            self._ids.append(int(ids[0]))
            self.drawn += 1
            for seconds, on, *note in self._reader(int(ids[0]), state.seconds):
                self._add(Event(self._since(seconds), on, *note))
            if not self._law.done()[0]:
                return
        for track, pitch in sorted(self._sounding):
            self._add(Event(self._since(min(until, state.seconds)), False, pitch, 0, track))
        self._closed = True

    def _since(self, seconds: float) -> float:
        """Seconds of the tokens as seconds since the new music began."""
        return max(0.0, float(self._line.placed(seconds)) - self._seam)

    def _add(self, event: Event) -> None:
        """A pitch that is struck while it sounds ends first."""
        key = (event.track, event.pitch)
        if key in self._sounding:
            self._sounding.remove(key)
            self._events.append(event._replace(on=False, velocity=0))
        if event.on:
            self._sounding.add(key)
            self._events.append(event)


#: Called with an id and the time after it: (seconds, on, pitch, velocity, track) of what it does.
Reader = Callable[[int, float], list[tuple[float, bool, int, int, int]]]


def reader(tokenizer: Tokenizer, past: np.ndarray) -> Reader:
    """What each next id does to notes, after the ids ``past``; ``UserError`` where that shows too
    late."""
    events = tokenizer.note_events
    if events is not None and events.longest_wait is not None:
        return _ReadEvents(tokenizer, events, past)
    if tokenizer.bpm is not None and tokenizer.align > 1:
        return _ReadSteps(tokenizer, past)
    raise UserError(
        f"stream: {tokenizer.name} tokens write notes with their length; expected a model with "
        "tokenizer=performance, ensemble or chorale"
    )


class _ReadEvents:
    """Strikes and releases one by one; notes that the past has left sounding are ended too."""

    def __init__(self, tokenizer: Tokenizer, events: NoteEvents, past: np.ndarray) -> None:
        self._events, self._program = events, 0
        strike = int(np.flatnonzero(events.strike >= 0)[0])
        leads = np.flatnonzero(events.lead & (events.program < 0)).tolist()
        probes = {lead: tokenizer.decode([lead, strike]).notes["velocity"][0] for lead in leads}
        self._velocities = {lead: int(velocity) for lead, velocity in probes.items()}
        self._velocity = int(tokenizer.decode([strike]).notes["velocity"][0])
        drums = tokenizer.kinds.index("drum") if "drum" in tokenizer.kinds else -1
        self._drums = np.flatnonzero(tokenizer.kind_of == drums).tolist()
        self._decode = tokenizer.decode
        for token_id in past.tolist():
            self(token_id, 0.0)

    def __call__(self, token_id: int, seconds: float) -> list[tuple[float, bool, int, int, int]]:
        events = self._events
        self._velocity = self._velocities.get(token_id, self._velocity)
        if events.program[token_id] >= 0:
            self._program = int(events.program[token_id])
        elif events.strike[token_id] >= 0:
            pitch = int(events.strike[token_id])
            return [(seconds, True, pitch, self._velocity, self._program)]
        elif events.release[token_id] >= 0:
            return [(seconds, False, int(events.release[token_id]), 0, self._program)]
        elif token_id in self._drums:
            pitch = int(self._decode([token_id]).notes["pitch"][0])
            stroke = (True, pitch, self._velocity), (False, pitch, 0)
            return [(seconds, *one, DRUMS) for one in stroke]
        return []


class _ReadSteps:
    """Voices that take turns: a step is known when its last voice is written. A voice holds its
    pitch by a tie, or where the tokens know none by writing it again."""

    def __init__(self, tokenizer: Tokenizer, past: np.ndarray) -> None:
        self._pitch_of, self._new = tokenizer.pitch_of, list[int]()
        ties = tokenizer.kinds.index("tie") if "tie" in tokenizer.kinds else None
        self._ties = tokenizer.kind_of == (-1 if ties is None else ties)
        self._held, self._since, self._given = [-1] * tokenizer.align, 0.0, 0
        sounding = int(np.flatnonzero(self._pitch_of >= 0)[0])
        self._velocity = int(tokenizer.decode([sounding]).notes["velocity"][0])
        for token_id in past.tolist():
            self(token_id, 0.0)
        self._since = tokenizer.grammar(past).seconds
        self._given = len(self._new)  # voices of the first step that the past has written

    def __call__(self, token_id: int, seconds: float) -> list[tuple[float, bool, int, int, int]]:
        self._new.append(token_id)
        if len(self._new) < len(self._held):
            return []
        found = []
        for voice, (before, new) in enumerate(zip(self._held, self._new)):
            pitch = int(self._pitch_of[new])
            if self._ties[new] or (not self._ties.any() and pitch == before):
                continue
            self._held[voice] = pitch
            if before >= 0:
                found.append((self._since, False, before, 0, voice))
            if pitch >= 0 and voice >= self._given:
                found.append((self._since, True, pitch, self._velocity, voice))
        self._new, self._since, self._given = [], seconds, 0
        return found
