"""The sampling loop: read the prompt once, fork the cache, then draw id after id.

Input and output are ids; this module does not depend on tokenizers, files or musical time. Logits
pass through the penalties and the constraint, which decides which ids may be drawn, and then
through the processors, before a single softmax.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from musictx import registry
from musictx.errors import NotNumbers
from musictx.model.cache import Cache, KVCache
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.sampling.constraints import Constraint, Penalty
from musictx.sampling.processors import Processor
from musictx.tokens.vocab import BOS, CUT, EOS, PAD

#: When the context is full, ``1 / SLIDE`` of its ids are dropped at once.
SLIDE = 8
#: In an endless stream, old ids are dropped when ``KEPT`` times the context is stored.
KEPT = 4


class Decoder:
    """A batch of unfinished sequences with the model's cache: the ids so far, and the logits of the
    next ids.

    prompt    (1 or rows, P) ids with which the rows begin; only the last ``capacity`` are read
    rows      number of rows; if ``prompt`` has one row, it is read once and its cache is forked
    capacity  number of ids that the model attends to
    longest   maximum number of ids in a row, including ``prompt``; ``None``: no limit, and old ids
              are dropped
    cache     the name of a faster step (``registry.STEPS``); ``growing``, ordinary passes through
              the model; or ``auto``, the first step that suits the model, or else ``growing``. When
              the context is full, a step drops one id for each new one, ``growing`` an eighth of
              all ids at once

    ``align`` and ``prefix_size`` are described in :func:`generate`.
    """

    def __init__(
        self,
        model: MusicTransformer,
        prompt: Tensor,
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
        #: (rows, n) int64: the ids so far; ``cut`` and the last ids if old ids were dropped.
        self.past = prompt.expand(rows, -1)
        name = cache_name(cache, model)
        self._uses_step = name != "growing"
        # Of a full context the last seven eighths are read again, from position 0 on, if a prefix
        # must stay; if the model has absolute positions, for it was not trained on positions beyond
        # its windows; and if a group of ids is one step of the model.
        self._rereads = prefix_size > 0 or model.position.absolute or model.cascade is not None
        if self._rereads and prompt.shape[1] >= self.capacity:
            prompt = self._window(prompt)  # leaves room, or the first step would read it again
        self._cache, logits = self._read(prompt[:, -capacity:])
        self._next = logits.expand(rows, -1)
        self._step: Any = None
        if self._uses_step:
            step = registry.load(registry.STEPS[name])
            self._step = step(model, self._cache, rows=rows, capacity=self.capacity)
            del self._cache  # the step has copied its contents
        elif prompt.shape[0] != rows:
            self._cache = self._cache.fork(rows)

    @property
    def logits(self) -> Tensor:
        """(rows, V) float64 logits of the next ids, on the CPU, where ids are drawn so that results
        are the same on every device."""
        return self._next.cpu().double()  # in two steps: Metal does not support float64

    def append(self, ids: Tensor) -> None:
        """Append one id to each row, (rows,) int64; the model reads them in :meth:`step`."""
        if self._endless and self.past.shape[1] >= KEPT * self.capacity * self.align:
            self.past = self._last(self.past, 2 * self.capacity * self.align)
        self.past = torch.cat([self.past, ids[:, None]], dim=1)

    def _window(self, past: Tensor) -> Tensor:
        """The last ids of ``past``, seven eighths of ``capacity``, to be read again."""
        return self._last(past, self.capacity - max(1, self.capacity // SLIDE))

    def _last(self, past: Tensor, most: int) -> Tensor:
        """At most ``most`` ids, like a training window that begins inside a piece: ``cut``, the
        prefix, and whole groups of ``align`` ids from the end of ``past``, (rows, n) ids."""
        size = most - (most - past.shape[1]) % self.align
        ids = past[:, past.shape[1] - size :].clone()
        if size > 1:
            ids[:, 0] = CUT
            ids[:, 1 : self.prefix_size + 1] = past[:, 1 : self.prefix_size + 1]
        return ids

    def select(self, rows: Tensor) -> None:
        """Replace each row i with a copy of row ``rows[i]``. Call this before :meth:`step`."""
        self.past = self.past[rows]
        (self._step or self._cache).select(rows)

    def step(self, count: int = 1) -> None:
        """Pass the last ``count`` appended ids through the model, which updates ``logits``."""
        ids = self.past[:, -count:]
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
        """A new cache with ``ids``, and the logits (rows, V) of the ids that follow them."""
        self._filled = ids.shape[1]
        room = self._filled if self._uses_step else self.capacity  # a step copies the cache
        cache = self.model.new_cache(rows=len(ids), capacity=room)
        return cache, self.model(ids.to(self.device), cache=cache)[:, -1]


def cache_name(cache: str, model: MusicTransformer) -> str:
    """The option ``cache``, where ``auto`` is replaced by the name of the first step that suits
    ``model``, or ``growing``."""
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

    prompt      (P,) ids that all rows continue, or (rows, P), one prompt for each row; the first id
                is ``bos`` or ``cut``. Of a prompt longer than ``context`` only the last ids are
                read.
    max_tokens  maximum number of ids to draw for each row; ``None``: no limit, in bounded memory.
    constraint  decides which ids may be drawn; without it all but ``pad``, ``bos`` and ``cut``.
    penalties   functions of the constraint's ``states``, whose nats are subtracted from the logits,
                in order of application; ignored without a constraint.
    seeds       one for each row, a whole number or several (NumPy's ``default_rng``). Each row has
                a separate generator, so its result is the same alone and in a batch, and on any
                device up to the rounding of the logits.
    context     number of ids that the model attends to; default the context of the model. When it
                is full, the oldest ids are dropped, so that memory is bounded. The rest of the
                cache was computed while they were visible, as in Transformer-XL (Dai et al. 2019,
                section 3.2). Some models, such as those with absolute positions, instead drop an
                eighth and read the others again, after ``cut``.
    align       ids that are read again begin at a multiple of this number (``Tokenizer.align``).
    prefix_size  number of ids after the first one of the prompt that are never dropped, such as
                controls.
    cache       see :class:`Decoder`.

    A row that has drawn ``eos``, or whose constraint is done, yields ``pad`` from then on. The
    model is in evaluation mode until the generator ends; then its mode is restored. Raises
    ``NotNumbers`` for logits that are NaN.
    """
    rows = len(seeds)
    ids = torch.as_tensor(np.asarray(prompt, dtype=np.int64))
    ids = ids[None] if ids.ndim == 1 else ids
    capacity = model.config.context if context is None else context
    generators = [np.random.default_rng(seed) for seed in seeds]
    ended = np.zeros(rows, bool) if constraint is None else constraint.done().numpy().copy()
    if max_tokens == 0 or ended.all():
        return
    with evaluating(model):
        longest = None if max_tokens is None else ids.shape[1] + max_tokens
        decoder = Decoder(
            model,
            ids,
            rows=rows,
            capacity=capacity,
            longest=longest,
            align=align,
            prefix_size=prefix_size,
            cache=cache,
        )
        count = 0
        while True:
            forced = None if constraint is None else constraint.forced()
            if forced is None:
                past = decoder.past
                if constraint is None:
                    logits = without_specials(decoder.logits)
                else:
                    nats = [penalty(constraint.states, past.numpy()) for penalty in penalties]
                    logits = constraint.forbid(decoder.logits, nats)
                forbidden = logits.isneginf()
                for process in processors:
                    logits = process(past, logits).masked_fill(forbidden, -torch.inf)
                ids = draw(logits, generators, ended)[:, None]
                ended |= ids[:, 0].numpy() == EOS
            else:
                ids = forced
                for generator in generators:
                    generator.random(ids.shape[1])  # as many numbers as if these ids were drawn
            for column in ids.T:
                decoder.append(column)
                if constraint is not None:
                    constraint.advance(column)
                    ended |= constraint.done().numpy()
                yield column
            count += ids.shape[1]
            if (max_tokens is not None and count >= max_tokens) or ended.all():
                return
            decoder.step(ids.shape[1])


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
    ids, weights = np.full(len(values), PAD), np.exp(values - values.max(-1, keepdims=True))
    for row, sums in enumerate(weights.cumsum(-1)):
        if ended[row]:
            continue
        total = sums[-1]
        if not total > 0:  # also for NaN
            raise NotNumbers(
                "logits that are not numbers (NaN): penalties= or processors= gave them, or the "
                "model is damaged"
            )
        # Choose the first id whose cumulative sum exceeds the point. An id of probability 0 has the
        # same sum as the id before it and is never chosen. If rounding makes the point equal to the
        # total, choose the first id that reaches the total.
        point = generators[row].random() * total
        ids[row] = sums.searchsorted(point, "right" if point < total else "left")
    return torch.from_numpy(ids)
