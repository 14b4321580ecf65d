"""Composes the free notes of a chorale around given ones: a melody harmonised, a bass realised.

Several ways are written side by side (:mod:`musictx.chorale.particles`), and the one with the
highest ln p - rules x faults is taken. A place in it that still breaks a rule is then written anew,
with the notes before and after it given, and kept if the whole is better: the filter went through
the piece once, from left to right, without what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from musictx.chorale import voice_leading
from musictx.chorale.grid import PER_QUARTER, VOICES, Grid
from musictx.chorale.particles import filtered, read
from musictx.chorale.rules import Form
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import TokenSampling
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine
from musictx.tokens.vocab import BOS, EOS

#: Places that are tried again, each at most so often.
TRIES_IN_ALL = 6
TRIES_AT_ONE_PLACE = 2
#: Progress that is reported when all has been written once.
FIRST_WORK_SHARE = 0.6
#: Beats before and after a fault that are written anew.
BEATS_AROUND = 2


@dataclass(frozen=True)
class Harmonisation:
    """grid: all four voices; nats_per_note: nats a token (one for each voice and sixteenth), given
    and free, under the model;
    ids: (4 T,) uint16"""

    grid: Grid
    nats_per_note: float
    ids: np.ndarray


def harmonise(
    model: MusicTransformer,
    tokenizer: ChoraleTokenizer,
    given: Grid,
    *,
    fixed: np.ndarray | None = None,
    particles: int = 16,
    sampling: TokenSampling | None = None,
    form: Form | None = None,
    seed: int | tuple[int, ...] = 0,
    progress: Callable[[float], None] | None = None,
) -> Harmonisation:
    """The best of ``particles`` ways to write the free notes: the highest
    ln p - rules x faults.

    given, fixed   a Grid, and (T, 4) bool which of its notes stay; default the whole soprano
    sampling   how free notes are drawn, and ``rules``, the nats that a fault costs; default as the
               model has them, with the rules
    form       constraints of the whole melody, weighed like the rules
    progress   called after each step with the share that is done

    The end of the piece is given too: endings that close are likelier. Raises ``UserError`` for a
    piece longer than the model's context.
    """
    sampling = sampling or TokenSampling(top_p=1.0)
    if fixed is None:
        fixed = np.tile(np.arange(len(VOICES)) == 0, (len(given), 1))
    random = seed if isinstance(seed, tuple) else (seed,)

    def share(step: int, number: int) -> None:
        if progress is not None:
            again = (1 - FIRST_WORK_SHARE) * (number - 1 + step / len(given)) / TRIES_IN_ALL
            once = FIRST_WORK_SHARE * step / len(given)
            progress(FIRST_WORK_SHARE + again if number else once)

    def attempt(given: Grid, fixed: np.ndarray, number: int, begin: int = 0) -> _Piece:
        pieces = filtered(
            model,
            tokenizer,
            given,
            fixed=fixed,
            particles=particles,
            sampling=sampling,
            form=form,
            seed=(*random, number) if number else seed,
            begin=begin,
            progress=lambda step: share(step, number),
        )
        likely = pieces.likely if begin == 0 else _likely(model, pieces.ids)
        worth = likely - sampling.rules * pieces.faults
        best = int(worth.argmax())
        return _Piece(pieces.ids[best], float(likely[best]), float(worth[best]))

    best = attempt(given, fixed, 0, int((~fixed).any(1).argmax()))
    often: dict[int, int] = {}
    for number in range(1, TRIES_IN_ALL + 1):
        grid = read(tokenizer, best.ids, given, fixed)
        places = _faulty(grid, sampling.rules, form)
        place = next((p for p in places if often.get(p, 0) < TRIES_AT_ONE_PLACE), None)
        if place is None:
            break
        often[place] = often.get(place, 0) + 1
        begin = max(place - BEATS_AROUND, 0) * PER_QUARTER
        around = np.ones(fixed.shape, bool)
        around[begin : (place + BEATS_AROUND) * PER_QUARTER] = False
        if not (fixed | around).all():
            again = attempt(grid, fixed | around, number, begin)
            best = max(best, again, key=lambda one: one.worth)
    grid = read(tokenizer, best.ids, given, fixed)
    return Harmonisation(grid, -best.likely / len(best.ids), best.ids.astype(np.uint16))


@dataclass(frozen=True)
class _Piece:
    """ids (4 T,); ln p of them and the end; that less what their faults cost."""

    ids: np.ndarray
    likely: float
    worth: float


def _faulty(grid: Grid, rules: float, form: Form | None) -> list[int]:
    """The beats in which faults begin, in order; none without rules."""
    if not rules:
        return []
    bar = voice_leading.STEPS_PER_BAR if form is None else form.bar
    steps = [fault.step for fault in voice_leading.faults(grid.pitches, grid.tied, bar=bar)]
    if form is not None:
        steps += form.open_at(grid.pitches)
    elif not voice_leading.closes(grid.pitches):
        steps.append(len(grid) - 1)
    return sorted({step // PER_QUARTER for step in steps})


@torch.inference_mode()
def _likely(model: MusicTransformer, ids: np.ndarray) -> np.ndarray:
    """ln p of whole pieces (P, 4 T), ends included: float64 (P,)."""
    device = next(model.parameters()).device
    different, which = np.unique(ids, axis=0, return_inverse=True)
    edge = np.ones((len(different), 1), np.int64)
    rows = torch.from_numpy(np.hstack([edge * BOS, different, edge * EOS])).to(device)
    with engine.evaluating(model):
        logits = model(rows[:, :-1]).double()
    nats = F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")
    return -nats.sum(1).cpu().numpy()[which.reshape(-1)]
