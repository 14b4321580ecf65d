"""The one sampling loop: prefill once, fork the cache, then draw id after id.

Ids in, ids out: nothing here knows a tokenizer, a file or a second of music. What may be drawn is
the constraint's business, how the distribution is reshaped the processors'; both act on logits, in
this order, before one softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from musictx.attention.positions import PositionScheme
from musictx.model.transformer import MusicTransformer
from musictx.sampling.constraints import Constraint
from musictx.sampling.graph import RingStep
from musictx.sampling.processors import Processor
from musictx.tokens.vocab import BOS, CUT, EOS, PAD

#: When the window is full, one part in so many is dropped at once.
SLIDE = 8
CACHES = ("auto", "growing", "ring")


@torch.inference_mode()
def generate(
    model: MusicTransformer,
    prompt: Tensor | np.ndarray | Sequence[int],
    *,
    rows: int,
    max_tokens: int,
    processors: Sequence[Processor] = (),
    constraint: Constraint | None = None,
    groups: Tensor | np.ndarray | None = None,
    seeds: Sequence[int | Sequence[int]],
    context: int | None = None,
    align: int = 1,
    cache: str = "auto",
) -> Iterator[Tensor]:
    """Yield the next id of each row, (rows,) int64 on the CPU, until the rows end.

    prompt      (P,) ids that all rows continue, or (rows, P) one prompt a row; the first id is
                ``bos`` or ``cut``. Of a prompt longer than ``context`` only the last ids are read.
    max_tokens  ids to draw for each row at most.
    constraint  which ids may be drawn; without one, anything but ``pad``, ``bos`` and ``cut``.
    groups      (V,) whole numbers, such as the kind of each token; see :func:`forbid`.
    seeds       one a row, whole numbers or tuples of them (numpy's ``default_rng``). A row draws
                from its own generator, so it is the same alone and in a batch, and on any device up
                to the rounding of the logits.
    context     ids the model looks back on; default the model's own. Once so many are cached, the
                oldest eighth is dropped, and so on: music of any length in bounded memory. What is
                kept was computed while the dropped ids could be seen, as in Transformer-XL (Dai et
                al. 2019, section 3.2); models with absolute positions read it again as ``cut ...``.

    align       what is read again begins at a multiple of so many events (``Tokenizer.align``).
    cache       one of :data:`CACHES`: ``growing``; ``ring``, whose steps are all the same work (on
                CUDA one recorded graph) and whose full window slides by one id at a time; ``auto``:
                ring on CUDA, else growing.

    A row that has drawn ``eos``, or that the constraint calls done, yields ``pad`` from then on;
    the loop ends when every row has. The model is put into evaluation mode, and back at the end.
    Raises ``ValueError`` for shapes that do not fit, ``FloatingPointError`` if the model gives NaN.
    """
    read, capacity = read_prompt(model, prompt, rows=rows, seeds=seeds, context=context)
    groups = None if groups is None else torch.tensor(np.asarray(groups), dtype=torch.int64)
    generators = [np.random.default_rng(seed) for seed in seeds]
    device = next(model.parameters()).device
    if cache not in CACHES:
        raise ValueError(f"cache={cache}: expected one of " + ", ".join(CACHES))
    ring = cache == "ring" or (cache == "auto" and device.type == "cuda")
    training = model.training
    model.eval()
    try:
        ended = torch.zeros(rows, dtype=torch.bool)
        if constraint is not None:
            ended |= constraint.done()
        past = torch.full((rows, read.shape[1] + max_tokens), PAD, dtype=torch.int64)
        past[:, : read.shape[1]] = read
        length = read.shape[1]

        read = read[:, -capacity:].to(device)
        capacity = min(capacity, read.shape[1] + max_tokens)  # no larger than can be filled
        held = model.new_cache(rows=read.shape[0], capacity=capacity)
        logits = model(read, cache=held)[:, -1].expand(rows, -1)
        step = None
        if ring:
            step = RingStep(model, held, rows=rows, capacity=capacity)
        elif read.shape[0] != rows:
            held = held.fork(rows)
        filled = held.length

        for drawn in range(max_tokens):
            if bool(ended.all()):
                return
            # The choice is made on the CPU in float64: the same on every device, and V is small.
            choice = logits.to(device="cpu", dtype=torch.float64)
            choice = forbid(choice, constraint, groups)
            for process in processors:
                choice = process(past[:, :length], choice)
            ids = draw(choice, generators, ended)
            past[:, length] = ids
            length += 1
            ended = ended | (ids == EOS)
            if constraint is not None:
                constraint.advance(ids)
                ended = ended | constraint.done()
            yield ids
            if drawn + 1 == max_tokens or bool(ended.all()):
                return
            filled += 1
            if filled > capacity and counts_positions(model):
                kept = capacity - max(1, capacity // SLIDE)
                kept -= -(length - kept) % align
                window = past[:, length - kept : length].clone()
                if kept > 1:
                    window[:, 0] = CUT  # as training windows that begin inside a piece
                held = model.new_cache(rows=rows, capacity=capacity)
                logits = model(window.to(device), cache=held)[:, -1]
                filled = kept
                if step is not None:
                    step.cache.load(held)
            elif step is not None:
                logits = step(ids)
            else:
                if held.length == capacity:
                    held.slide(max(1, capacity // SLIDE))
                logits = model(ids[:, None].to(device), cache=held)[:, -1]
    finally:
        model.train(training)


def read_prompt(
    model: MusicTransformer,
    prompt: Tensor | np.ndarray | Sequence[int],
    *,
    rows: int,
    seeds: Sequence[int | Sequence[int]],
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
    if len(seeds) != rows:
        raise ValueError(f"seeds: expected one for each of {rows} rows, got {len(seeds)}")
    capacity = int(model.config["context"]) if context is None else context
    if capacity < 2:
        raise ValueError(f"context: expected at least 2 ids, got {capacity}")
    return read, capacity


def counts_positions(model: MusicTransformer) -> bool:
    """Whether the model's embeddings know how far from the start a token stands.

    Such a model has never met positions beyond its training windows. It reads the window again from
    position 0 instead of sliding on, at the cost of a prefill for each eighth of the context.
    """
    counted = type(model.position).embed is not PositionScheme.embed
    return counted or bool(model.config["position"].get("sinusoids"))


def forbid(logits: Tensor, constraint: Constraint | None, groups: Tensor | None = None) -> Tensor:
    """``-inf`` where the constraint forbids; ``pad``, ``bos`` and ``cut`` where there is none.

    logits  (B, V);  groups  (V,) int64 from 0, or ``None``

    What a forbidden id would have had goes to the allowed ids of its group, in proportion, as long
    as there are any. A model that knows *that* a note ends now, but not yet which, so does not end
    notes too rarely; where nothing likely is forbidden, nothing changes.
    """
    if constraint is None:
        logits = logits.clone()
        logits[:, [PAD, BOS, CUT]] = -torch.inf
        return logits
    allowed = constraint.allowed()
    masked = logits.masked_fill(~allowed, -torch.inf)
    if groups is None:
        return masked
    probabilities = logits.softmax(dim=-1)
    shape = (logits.shape[0], int(groups.max()) + 1)
    index = groups.expand_as(probabilities)
    whole = probabilities.new_zeros(shape).scatter_add_(1, index, probabilities)
    kept = probabilities.new_zeros(shape).scatter_add_(1, index, probabilities * allowed)
    # Where rounding leaves nothing of a group, it gets nothing more.
    raised = torch.where(kept > 0, whole / kept, 1.0).log()
    return masked + raised.gather(1, index)


def draw(logits: Tensor, generators: Sequence[np.random.Generator], ended: Tensor) -> Tensor:
    """One id a row, (B,) int64, drawn from softmax(logits) by inverting its distribution function.

    logits  (B, V) float64; ``-inf`` has probability 0 and is never drawn.
    ended   (B,) bool: rows that draw nothing (their generator stays where it is) and get ``pad``.
    """
    ids = torch.full((logits.shape[0],), PAD, dtype=torch.int64)
    sums = logits.softmax(dim=-1).cumsum(dim=-1).numpy()
    for row in np.flatnonzero(~ended.numpy()).tolist():
        total = sums[row, -1]
        if not total > 0:
            raise FloatingPointError("the model gives logits that are not numbers (NaN)")
        # The first id whose sum lies above the point: one of probability 0 adds nothing to the sum
        # before it, so it is never the first. The last sum can be met by rounding only.
        point = generators[row].random() * total
        found = int(np.searchsorted(sums[row], point, side="right"))
        if found == logits.shape[1]:
            found = int(np.searchsorted(sums[row], total, side="left"))
        ids[row] = found
    return ids
