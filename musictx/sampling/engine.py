"""The one sampling loop: prefill once, fork the cache, then draw id after id.

Input and output are ids: this module does not depend on tokenizers, files or musical time. The
constraint decides which ids may be drawn; penalties and processors reshape the distribution. All
three act on logits, in this order, before a single softmax.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from musictx import registry
from musictx.errors import NotNumbers
from musictx.model.cache import Cache, KVCache
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.sampling.constraints import Constraint, Penalty
from musictx.sampling.processors import Processor
from musictx.tokens.vocab import BOS, CUT, EOS, PAD

#: When the context is full, ``1 / SLIDE`` of its ids are dropped at once.
SLIDE = 8
#: In a stream without end, old ids are dropped as soon as ``KEPT`` times the context is stored.
KEPT = 4
#: The values of the option ``cache``; see :class:`Decoder`.
CACHES = ("auto", *registry.STEPS, "growing")


class Decoder:
    """A batch of unfinished sequences with the model's cache: the ids so far, and the logits of the
    next ids.

    read      (1 or rows, P) ids with which the rows begin; only the last ``capacity`` are read
    rows      number of rows; if ``read`` has one row, it is read once and its cache is forked
    capacity  ids that the model attends to
    longest   maximum number of ids in a row, including ``read``; ``None`` = without end, and then
              only some of the ids beyond ``capacity`` are kept
    cache     one of :data:`CACHES`: the name of a faster step (``registry.STEPS``); ``growing``,
              ordinary passes through the model; or ``auto``, the first step that suits the model,
              or else growing. With a step a full window slides by one id; with ``growing`` an
              eighth of it is dropped

    ``align`` and ``prefix_size`` are described in :func:`generate`.
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
        prefix_size: int = 0,
        cache: str = "auto",
    ) -> None:
        self.model, self.align, self.prefix_size = model, align, prefix_size
        self._endless = longest is None
        self.capacity = capacity if longest is None else min(capacity, longest)
        self.device = next(model.parameters()).device
        self.length = read.shape[1]
        self._ids = read.expand(rows, -1).clone()  # `append` adds room at the end
        self._stepped = (name := chosen(cache, model)) != "growing"
        # In three cases a full window is read again from its first position, with one prefill for
        # each eighth of the context: if a prefix must stay; for models with absolute
        # positions, which were not trained on positions beyond their windows; and for models in
        # which a group of ids is one step.
        self._rereads = prefix_size > 0 or model.position.absolute or model.cascade is not None
        if self._rereads and self.length >= self.capacity:
            read = self._window(read)  # leaves room; otherwise the first step would read it again
        self._cache, last = self._read(read[:, -capacity:])
        self._next = last.expand(rows, -1)
        self._step: Any = None
        if self._stepped:
            step = registry.load(registry.STEPS[name])
            self._step = step(model, self._cache, rows=rows, capacity=self.capacity)
            del self._cache  # the step has copied its contents
        elif read.shape[0] != rows:
            self._cache = self._cache.fork(rows)

    @property
    def past(self) -> Tensor:
        """(rows, n) int64: the ids so far; once old ids are dropped, ``cut`` and the last ids."""
        return self._ids[:, : self.length]

    @property
    def logits(self) -> Tensor:
        """(rows, V) float64 logits of the next ids, on the CPU: ids are drawn there so that results
        are the same on every device; V is small."""
        return self._next.cpu().double()  # in two steps: Metal does not support float64

    def append(self, ids: Tensor) -> None:
        """Append one id to each row, (rows,) int64; the model reads them in :meth:`step`."""
        if self._endless and self.length >= KEPT * self.capacity * self.align:
            # Keep twice the context, beginning with a whole group of events.
            self._ids = self._last(self.past, 2 * self.capacity * self.align)
            self.length = self._ids.shape[1]
        if self.length == self._ids.shape[1]:
            self._ids = functional.pad(self._ids, (0, self.length), value=PAD)
        self._ids.numpy()[:, self.length] = ids.numpy()  # faster than torch
        self.length += 1

    def _window(self, past: Tensor) -> Tensor:
        """The last ids of ``past``, seven eighths of the context, to be read again when it is
        full."""
        return self._last(past, self.capacity - max(1, self.capacity // SLIDE))

    def _last(self, past: Tensor, most: int) -> Tensor:
        """At most the last ``most`` of ``past``, (rows, n) ids, in the form of a training window
        that begins inside a piece: ``cut``, the prefix, and whole groups of ids."""
        kept = most - (most - past.shape[1]) % self.align
        ids = past[:, past.shape[1] - kept :].clone()
        if kept > 1:
            ids[:, 0] = CUT
            ids[:, 1 : self.prefix_size + 1] = past[:, 1 : self.prefix_size + 1]
        return ids

    def select(self, rows: Tensor) -> None:
        """Replace each row i by a copy of row ``rows[i]``; to be called before ``step``."""
        self._ids = self._ids[rows]
        (self._step or self._cache).select(rows)

    def step(self, count: int = 1) -> None:
        """Pass the last ``count`` appended ids through the model; ``logits`` then follow them."""
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
        room = self._filled if self._stepped else self.capacity  # a step copies it
        cache = self.model.new_cache(rows=len(ids), capacity=room)
        return cache, self.model(ids.to(self.device), cache=cache)[:, -1]


def chosen(cache: str, model: MusicTransformer) -> str:
    """The name of the step for the option ``cache``, or ``growing``. Raises ``ValueError`` for a
    name that is not in :data:`CACHES`."""
    if cache not in CACHES:
        raise ValueError(f"cache={cache}: expected one of " + ", ".join(CACHES))
    if cache != "auto":
        return cache
    steps = registry.STEPS.items()
    return next((name for name, path in steps if registry.load(path).suits(model)), "growing")


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
    prefix_size: int = 0,
    cache: str = "auto",
) -> Generator[Tensor, None, None]:
    """Yield the next id of each row, (rows,) int64 on the CPU, until all rows have ended.

    prompt      (P,) ids that all rows continue, or (rows, P) one prompt per row; the first id is
                ``bos`` or ``cut``. Of a prompt longer than ``context`` only the last ids are read.
    max_tokens  maximum number of ids to draw for each row; ``None`` = without end, in bounded
                memory.
    constraint  which ids may be drawn; without a constraint, all but ``pad``, ``bos`` and ``cut``.
    penalties   nats to take off logits, computed from the constraint's ``states``, in order of
                application; without a constraint they are ignored.
    seeds       one for each row, a whole number or a tuple of them (numpy's ``default_rng``). Each
                row has a separate generator, so its result is the same alone and in a batch, and on
                any device up to the rounding of the logits.
    context     ids that the model attends to; default the context of the model. When so many ids
                are cached, the oldest are dropped, so that memory is bounded. The remaining cache
                was computed while the dropped ids were visible, as in Transformer-XL (Dai et al.
                2019, section 3.2); models with absolute positions drop an eighth and read the
                remaining ids again, after ``cut``.
    align       ids that are read again begin at a multiple of this number (``Tokenizer.align``).
    prefix_size  number of ids after the first one of the prompt that are never dropped, such as
                controls.
    cache       one of :data:`CACHES`, see :class:`Decoder`.

    A row that has drawn ``eos``, or whose constraint is done, yields ``pad`` from then on. The
    model is in evaluation mode meanwhile; its mode is restored at the end. Raises ``ValueError``
    for shapes that do not fit, ``NotNumbers`` if the model gives NaN.
    """
    rows = len(seeds)
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
            prefix_size=prefix_size,
            cache=cache,
        )
        drawn = 0
        while True:
            ids = None if constraint is None else constraint.forced()
            if ids is None:
                past = music.past
                if constraint is None:
                    choice = without_specials(music.logits)
                else:
                    nats = [penalty(constraint.states, past.numpy()) for penalty in penalties]
                    choice = constraint.forbid(music.logits, nats)
                for process in processors:
                    choice = process(past, choice)
                ids = draw(choice, generators, ended)[:, None]
                ended |= ids[:, 0].numpy() == EOS
            else:
                for generator in generators:
                    # As many random numbers as drawing these ids would take.
                    generator.random(ids.shape[1])
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


def without_specials(logits: Tensor) -> Tensor:
    """The logits (B, V) with ``-inf`` for ``pad``, ``bos`` and ``cut``."""
    logits = logits.clone()
    logits[:, [PAD, BOS, CUT]] = -torch.inf
    return logits


def draw(
    logits: Tensor, generators: Sequence[np.random.Generator], ended: np.ndarray | Tensor
) -> Tensor:
    """One id per row, (B,) int64, drawn from softmax(logits) by inverse transform sampling.

    logits  (B, V) float64; ``-inf`` has probability 0 and is never drawn.
    ended   (B,) bool: rows that get ``pad``; their generators do not advance.
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
        # Choose the first id whose cumulative sum exceeds the point. An id of probability 0 has the
        # same sum as the id before it and is never chosen. Rounding can make the point equal to the
        # total; then the first id that reaches the total is chosen.
        point = generators[row].random() * total
        ids[row] = sums.searchsorted(point, "right" if point < total else "left")
    return torch.from_numpy(ids)
