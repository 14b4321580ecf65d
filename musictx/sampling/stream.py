"""An endless stream of music that yields each event as soon as it is drawn.

Memory is bounded: the context of the model slides (:class:`musictx.sampling.engine.Decoder`), and
notes that have ended are not kept.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.sampling import engine
from musictx.sampling.constraints import Penalty
from musictx.sampling.continuation import Continuation, prompts
from musictx.sampling.events import Emitter, Event
from musictx.sampling.idiom import idiom_of
from musictx.sampling.primer import Primer
from musictx.sampling.processors import Processor
from musictx.sampling.steer import Steering
from musictx.tokens.vocab import EOS


class Stream(Iterator[Event]):
    """An iterator of events. :meth:`close`, or the end of its ``with`` block, stops it.

    request   only its ``sampling`` and ``seconds`` are used; after ``seconds`` all sounding notes
              end (``None``: the stream runs until it is closed)
    context   the number of ids that the model attends to; by default the context of the model. It
              may be set while the stream runs; a smaller context is faster
    drawn     the number of ids so far, including those of the primer

    The other arguments are those of :func:`musictx.sampling.composer.continuations`. Raises
    ``UserError`` for tokens that write notes with their length, which come too late.
    """

    def __init__(
        self,
        bundle: Bundle,
        primer: Primer,
        request: GenerateConfig,
        *,
        seed: int | Sequence[int],
        penalties: Sequence[Penalty] = (),
        processors: Sequence[Processor] = (),
    ) -> None:
        self._seed = [seed] if isinstance(seed, int) else list(seed)
        request = GenerateConfig(seconds=request.seconds, end="cut", sampling=request.sampling)
        tokenizer, steering = bundle.tokenizer, Steering(targets=request.controls)
        self._region = Continuation(
            bundle, primer, request, self._seed, steering, penalties, processors
        )
        if not idiom_of(tokenizer).notes_are_immediate:
            raise UserError(
                f"model: {tokenizer.name} tokens write notes with their length, too late to play "
                "them at once; expected a model of performances, such as model=piano"
            )
        self._setup = Continuation.setup([self._region])
        self._align = tokenizer.align
        size = 2 * self._region.context * self._align
        self._ids: deque[int] = deque(primer.ids.tolist(), maxlen=size)
        self.drawn = len(primer.ids)
        self._events: deque[Event] = deque()
        self._emitter = Emitter(self._finish, self._events.append)
        self._is_closed = self._has_new_context = False
        self._drawing: Iterator[int] = self._draw()

    @property
    def context(self) -> int:
        return self._region.context

    @context.setter
    def context(self, ids: int) -> None:
        """The context changes at the end of the current group of ids."""
        self._region.context = max(ids, 2 * self._align)
        self._has_new_context = True

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
        """Draw ids up to the next event, so that ``next`` returns without delay. The first call
        reads the primer."""
        while not self._events and not self._is_closed:
            self._advance()

    def close(self) -> None:
        """Stop the stream; no further event follows."""
        self._is_closed = True
        self._events.clear()
        self._drawing = iter(())

    def _draw(self) -> Iterator[int]:
        """Yield id after id. A change of context restarts the engine with another seed."""
        for number in itertools.count(1):
            self._has_new_context = False
            setup = self._setup | {
                "prompt": prompts([np.array(self._ids, np.int64)], self.context, self._align),
                "seeds": [[*self._seed, number]],
                "max_tokens": None,
                "context": self.context,
            }
            for ids in engine.generate(**setup):
                yield int(ids[0])
                if self._has_new_context and self.drawn % self._align == 0:
                    break
            else:
                return

    def _advance(self) -> None:
        """Draw one id and append its events; at the end of the music, end the sounding notes."""
        token = next(self._drawing, EOS)
        row, end = self._region.row, self._region.ids_end()
        if token != EOS:
            self._ids.append(token)
            self.drawn += 1
            self._emitter.report(row.changes)
            if not row.done:
                return
        seconds = row.state.seconds
        self._emitter.stop(seconds if end is None else min(end, seconds))
        self._is_closed = True

    def _finish(self, notes: np.ndarray) -> np.ndarray:
        """Convert times of ``notes`` from seconds of the ids to seconds of new music."""
        notes = self._region.clock.notes_in_seconds(notes)
        for name in ("start", "end"):
            notes[name] = np.maximum(notes[name] - self._region.seam, 0.0)
        return notes
