"""The one sampling loop: prefill once, fork the cache, then draw id after id.

Ids in, ids out: this module does not depend on tokenizers, files or musical time. The constraint
decides which ids may be drawn, penalties and processors reshape the distribution; they act on
logits, in this order, before one softmax.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from musictx import registry
from musictx.errors import NotNumbers
from musictx.model.cache import Cache, KVCache
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.sampling.constraints import Constraint, apply_penalties
from musictx.sampling.processors import Processor
from musictx.tokens.tokenizer import Penalty
from musictx.tokens.vocab import BOS, CUT, EOS, PAD

#: When the context is full, this part of it is dropped at once: an eighth.
SLIDE = 8
#: In a stream without end, old ids are dropped when there are this many times the context.
KEPT = 4
CACHES = ("auto", *registry.STEPS, "growing")


class Step(Protocol):
    """A faster form of one step, that an optional component adds (``registry.STEPS``): id
    after id through a model, ``rows`` sequences at once, all equally long.

    It is made as ``Step(model, cache, rows=, capacity=)``, where ``cache``, the model's own, holds
    the ids so far, of one row (for all) or of ``rows``. It looks back on ``capacity`` ids: then the
    window slides by one.
    """

    def __init__(
        self, model: MusicTransformer, cache: Cache, *, rows: int, capacity: int
    ) -> None: ...

    @staticmethod
    def suits(model: MusicTransformer) -> bool:
        """Whether ``cache="auto"`` chooses this step for ``model``."""

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits (rows, vocab) after ``ids`` (rows,), one more each; in memory that the next call
        may write over."""

    def load(self, cache: Cache) -> None:
        """Replace the state by that of ``cache``."""

    def select(self, rows: Tensor) -> None:
        """Row i becomes a copy of what row ``rows[i]`` was."""


class Decoder:
    """Rows of half-written music with the model's cache: what has been written, what comes next.

    read      (1 or rows, P) ids that the rows begin with; only the last ``capacity`` are read
    rows      rows that go on from there; a single one is read once and forked
    capacity  ids the model looks back on
    longest   ids a row can have at most, those read included; ``None`` = without end, and of those
              beyond the reach of the model only some are kept
    cache     one of :data:`CACHES`: the name of a :class:`Step`; ``growing``, ordinary passes
              through the model; ``auto``, the first step that suits the model, or else growing.
              A full window slides by one id with a step; growing drops an eighth

    ``align`` and ``head`` are those of :func:`generate`.
    """

    def __init__(
        self,
        model: MusicTransformer,
        read: Tensor,
        *,
        rows: int,
        capacity: int,
        longest: int | None,
        align: int = 1,
        head: int = 0,
        cache: str = "auto",
    ) -> None:
        self.model, self.align, self.head = model, align, head
        self._endless = longest is None
        self.capacity = capacity if longest is None else min(capacity, longest)
        self.device = next(model.parameters()).device
        self.length = read.shape[1]
        self._ids = read.expand(rows, -1).clone()  # with room at the end, which grows
        self._stepped = (kind := chosen(cache, model)) != "growing"
        # A full window is read again from its first position, a prefill for each eighth of the
        # context: for a head, for models that know how far from the start a token stands, since
        # they have never met positions beyond their windows, and where groups of ids are a step.
        self._rereads = head > 0 or model.position.absolute or model.cascade is not None
        if self._rereads and self.length >= self.capacity:
            read = self._window(read)  # with room, or the first step would read it all again
        self._cache, last = self._read(read[:, -capacity:])
        self._next = last.expand(rows, -1)
        self._step: Step | None = None
        if self._stepped:
            self._step = _step(kind)(model, self._cache, rows=rows, capacity=self.capacity)
            del self._cache  # its tokens were taken over
        elif read.shape[0] != rows:
            self._cache = self._cache.fork(rows)

    @property
    def past(self) -> Tensor:
        """(rows, n) int64: the ids so far, or the last of them after ``cut``."""
        return self._ids[:, : self.length]

    @property
    def logits(self) -> Tensor:
        """(rows, V) float64 of the next ids. The choice is made on the CPU in float64: the same on
        every device, and V is small."""
        return self._next.cpu().double()  # in two steps: Metal knows no float64

    def append(self, ids: Tensor) -> None:
        """Write one id a row, (rows,) int64, without reading it yet."""
        if self._endless and self.length >= KEPT * self.capacity * self.align:
            self._forget()
        if self.length == self._ids.shape[1]:
            self._ids = functional.pad(self._ids, (0, self.length), value=PAD)
        self._ids.numpy()[:, self.length] = ids.numpy()  # in less time than torch takes
        self.length += 1

    def _forget(self) -> None:
        """Keep only the last ids: twice the context, from the beginning of a group of events on."""
        self._ids = self._last(self.past, 2 * self.capacity * self.align)
        self.length = self._ids.shape[1]

    def _window(self, past: Tensor) -> Tensor:
        """The last ids, which are read again when the context is full."""
        return self._last(past, self.capacity - max(1, self.capacity // SLIDE))

    def _last(self, past: Tensor, most: int) -> Tensor:
        """The last of (rows, n) ids as a training window that begins inside a piece."""
        kept = most - (most - past.shape[1]) % self.align
        ids = past[:, past.shape[1] - kept :].clone()
        if kept > 1:
            ids[:, 0] = CUT
            ids[:, 1 : self.head + 1] = past[:, 1 : self.head + 1]
        return ids

    def select(self, rows: Tensor) -> None:
        """Replace row i by a copy of row ``rows[i]``; to be called before ``step``."""
        self._ids = self._ids[rows]
        (self._step or self._cache).select(rows)

    def step(self, count: int = 1) -> None:
        """Read the last ``count`` ids that were appended: ``logits`` are those after them."""
        ids = self._ids[:, self.length - count : self.length]
        self._filled += count
        if self._filled > self.capacity and self._rereads:
            cache, self._next = self._read(self._window(self.past))
            if self._step is None:
                self._cache = cache
            else:
                self._step.load(cache)
        elif self._step is not None:
            for column in ids.T:
                self._next = self._step(column)
        else:
            if isinstance(self._cache, KVCache) and self._cache.length + count > self.capacity:
                self._cache.slide(max(self.capacity // SLIDE, count))
            self._next = self.model(ids.to(self.device), cache=self._cache)[:, -1]

    def _read(self, ids: Tensor) -> tuple[Cache, Tensor]:
        """A new cache that holds ``ids``, and the logits (rows, V) after them."""
        self._filled = ids.shape[1]
        room = self._filled if self._stepped else self.capacity  # a step takes over what is held
        cache = self.model.new_cache(rows=len(ids), capacity=room)
        return cache, self.model(ids.to(self.device), cache=cache)[:, -1]


def chosen(cache: str, model: MusicTransformer) -> str:
    """Which of :data:`CACHES` is meant by ``cache``; ``ValueError`` if it cannot be had."""
    if cache not in CACHES:
        raise ValueError(f"cache={cache}: expected one of " + ", ".join(CACHES))
    if cache != "auto":
        return cache
    return next((name for name in CACHES[1:-1] if _step(name).suits(model)), "growing")


def _step(name: str) -> type[Step]:
    step: type[Step] = registry.load(registry.STEPS[name])
    return step


@torch.inference_mode()
def generate(
    model: MusicTransformer,
    prompt: Tensor | np.ndarray | Sequence[int],
    *,
    max_tokens: int | None,
    processors: Sequence[Processor] = (),
    constraint: Constraint | None = None,
    penalties: Sequence[Penalty] = (),
    seeds: Sequence[int | Sequence[int]],
    context: int | None = None,
    align: int = 1,
    head: int = 0,
    cache: str = "auto",
) -> Generator[Tensor, None, None]:
    """Yield the next id of each row, (rows,) int64 on the CPU, until the rows end.

    prompt      (P,) ids that all rows continue, or (rows, P) one prompt a row; the first id is
                ``bos`` or ``cut``. Of a prompt longer than ``context`` only the last ids are read.
    max_tokens  ids to draw for each row at most; ``None`` = without end, in bounded memory.
    constraint  which ids may be drawn; without one, anything but ``pad``, ``bos`` and ``cut``.
    penalties   what single ids cost, given the constraint's ``states``; the first come first.
    seeds       one for each row that is written, whole numbers or tuples of them (numpy's
                ``default_rng``). A row draws from its own generator, so it is the same alone and in
                a batch, and on any device up to the rounding of the logits.
    context     ids the model looks back on; default the model's own. Once so many are cached, the
                oldest are dropped: music of any length in bounded memory. What is kept was computed
                while the dropped ids could be seen, as in Transformer-XL (Dai et al. 2019, section
                3.2); models with absolute positions drop an eighth and read the rest again as
                ``cut ...``.
    align       what is read again begins at a multiple of so many events (``Tokenizer.align``).
    head        so many ids after the first of the prompt are never dropped, such as controls.
    cache       one of :data:`CACHES`, see :class:`Decoder`.

    A row that has drawn ``eos``, or that the constraint calls done, yields ``pad`` from then on;
    the loop ends when every row has. The model is put into evaluation mode, and back at the end.
    Raises ``ValueError`` for shapes that do not fit, ``NotNumbers`` if the model gives NaN.
    """
    rows = len(seeds)
    read, capacity = read_prompt(model, prompt, rows, context)
    generators = [np.random.default_rng(seed) for seed in seeds]
    ended = np.zeros(rows, bool)
    if constraint is not None:
        ended |= constraint.done().numpy()
    if max_tokens == 0 or ended.all():
        return
    with evaluating(model):
        longest = None if max_tokens is None else read.shape[1] + max_tokens
        music = Decoder(
            model,
            read,
            rows=rows,
            capacity=capacity,
            longest=longest,
            align=align,
            head=head,
            cache=cache,
        )
        drawn = 0
        while True:
            ids = None if constraint is None else constraint.due()
            if ids is None:
                past = music.past
                nats = [one(constraint.states, past.numpy()) for one in penalties if constraint]
                choice = forbid(music.logits, constraint, nats)
                for process in processors:
                    choice = process(past, choice)
                ids = draw(choice, generators, ended)[:, None]
                ended |= ids[:, 0].numpy() == EOS
            else:
                for generator in generators:
                    generator.random(ids.shape[1])  # as so many draws take
            for column in ids.T:
                music.append(column)
                if constraint is not None:
                    constraint.advance(column)
                    ended |= constraint.done().numpy()
                yield column
            drawn += ids.shape[1]
            if (max_tokens is not None and drawn >= max_tokens) or ended.all():
                return
            music.step(ids.shape[1])


def read_prompt(
    model: MusicTransformer,
    prompt: Tensor | np.ndarray | Sequence[int],
    rows: int,
    context: int | None,
) -> tuple[Tensor, int]:
    """The prompt as (1 or rows, P) int64, and how many ids are looked back on; checked."""
    read = torch.as_tensor(np.asarray(prompt, dtype=np.int64))
    if read.ndim == 1:
        read = read[None]
    if read.ndim != 2 or read.shape[1] == 0 or read.shape[0] not in (1, rows):
        raise ValueError(
            f"prompt: expected (P,) or ({rows}, P) ids, P > 0, got {tuple(read.shape)}"
        )
    capacity = model.config.context if context is None else context
    if capacity < 2:
        raise ValueError(f"context: expected at least 2 ids, got {capacity}")
    return read, capacity


def forbid(
    logits: Tensor,
    constraint: Constraint | None,
    penalties: Sequence[np.ndarray | None] = (),
) -> Tensor:
    """``-inf`` where the constraint forbids; ``pad``, ``bos`` and ``cut`` where there is none.

    logits  (B, V);  penalties  (B, V) or (V,) nats each, or ``None`` for nothing

    Penalties are taken off; infinite ones forbid as in :func:`apply_penalties`.

    What a forbidden id would have had goes to the allowed ids of its group
    (:meth:`.Constraint.groups`), in proportion, as long as there are any. A model that knows *that*
    a note ends now, but not yet which, so does not end notes too rarely; where nothing likely is
    forbidden, nothing changes.
    """
    if constraint is None:
        logits = logits.clone()
        logits[:, [PAD, BOS, CUT]] = -torch.inf
        return logits
    # NumPy: on so few numbers its calls cost a fraction of torch's.
    values, allowed = logits.numpy(), constraint.allowed().numpy()
    allowed, less = apply_penalties(allowed, penalties)
    masked = np.where(allowed, values - less, -np.inf)
    if (groups := constraint.groups()) is not None:
        likely = np.exp(values - values.max(-1, keepdims=True))
        of_rows = np.broadcast_to(groups, values.shape)
        for row, before, after, group in zip(masked, likely, likely * allowed, of_rows):
            whole, kept = np.bincount(group, before), np.bincount(group, after)
            nothing = kept == 0  # where rounding leaves nothing of a group, it gets nothing more
            whole[nothing] = kept[nothing] = 1.0
            row += np.log(whole / kept)[group]
    return torch.from_numpy(masked)


def draw(
    logits: Tensor, generators: Sequence[np.random.Generator], ended: np.ndarray | Tensor
) -> Tensor:
    """One id a row, (B,) int64, drawn from softmax(logits) by inverting its distribution function.

    logits  (B, V) float64; ``-inf`` has probability 0 and is never drawn.
    ended   (B,) bool: rows that draw nothing (their generator stays where it is) and get ``pad``.
    """
    values = logits.numpy()
    ids, likely = np.full(len(values), PAD), np.exp(values - values.max(-1, keepdims=True))
    for row, sums in enumerate(likely.cumsum(-1)):
        if ended[row]:
            continue
        if not (total := sums[-1]) > 0:
            raise NotNumbers(
                "logits that are not numbers (NaN): the model is damaged, or processors= gave them"
            )
        # The first id whose sum lies above the point: one of probability 0 adds nothing to the sum
        # before it, so it is never the first. The last sum can be met by rounding only.
        point = generators[row].random() * total
        ids[row] = sums.searchsorted(point, "right" if point < total else "left")
    return torch.from_numpy(ids)
