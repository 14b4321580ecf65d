"""Composes the free notes of a chorale around given ones: harmonises a melody or realises a bass.

A particle filter writes several harmonisations at once (:mod:`musictx.chorale.particles`), and the
one with the highest score, ln p - rules x faults, is chosen. It may still break rules, since the
filter works from left to right and does not see the given notes ahead. So the beats around a fault
are then composed anew, with all notes before and after them given, and the new version is kept if
its score is higher.
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
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.tokens.vocab import BOS, EOS

#: How often beats with a fault are composed anew, in total and at one place.
TRIES_IN_ALL = 6
TRIES_AT_ONE_PLACE = 2
#: The share of the progress that is reported when the first harmonisation is finished.
FIRST_WORK_SHARE = 0.6
#: Beats before and after a fault that are composed anew.
BEATS_AROUND = 2


@dataclass(frozen=True)
class Harmonisation:
    """A chorale in four voices.

    grid           all four voices
    nats_per_note  -ln p under the model, the mean over all tokens, given and free; there is one
                   token for each voice and sixteenth
    ids            (4 T,) uint16
    """

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
    """The best of ``particles`` harmonisations: the one with the highest ln p - rules x faults.

    given      the notes, of which those in ``fixed`` stay
    fixed      (T, 4) bool; default the whole soprano
    sampling   how free notes are drawn, and ``rules``, the nats that a fault costs; by
               default from the whole distribution of the model, with the default ``rules``
    form       constraints from the whole melody; breaking one costs as much as a fault
    progress   called after each step with the share of the work that is done

    ln p includes ``eos`` after the last note, which favours cadences. Raises
    ``UserError`` for a piece longer than the model's context.
    """
    sampling = sampling or TokenSampling(top_p=1.0)
    if fixed is None:
        fixed = np.tile(np.arange(len(VOICES)) == 0, (len(given), 1))
    random = seed if isinstance(seed, tuple) else (seed,)

    def report(step: int, number: int) -> None:
        if progress is not None:
            written = step / len(given)
            if number == 0:
                done = FIRST_WORK_SHARE * written
            else:
                rest = 1 - FIRST_WORK_SHARE
                done = FIRST_WORK_SHARE + rest * (number - 1 + written) / TRIES_IN_ALL
            progress(done)

    def attempt(given: Grid, fixed: np.ndarray, number: int, begin: int = 0) -> _Piece:
        """The best harmonisation of one run of the filter; ``number`` 0 is the first run."""
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
            progress=lambda step: report(step, number),
        )
        likely = pieces.likely if begin == 0 else _likely(model, pieces.ids)
        score = likely - sampling.rules * pieces.faults
        best = int(score.argmax())
        return _Piece(pieces.ids[best], float(likely[best]), float(score[best]))

    best = attempt(given, fixed, 0, int((~fixed).any(1).argmax()))
    tries: dict[int, int] = {}
    for number in range(1, TRIES_IN_ALL + 1):
        grid = read(tokenizer, best.ids, given, fixed)
        places = _beats_with_faults(grid, sampling.rules, form)
        place = next((p for p in places if tries.get(p, 0) < TRIES_AT_ONE_PLACE), None)
        if place is None:
            break
        tries[place] = tries.get(place, 0) + 1
        begin = max(place - BEATS_AROUND, 0) * PER_QUARTER
        kept = fixed.copy()
        kept[:begin] = True
        kept[(place + BEATS_AROUND) * PER_QUARTER :] = True
        if not kept.all():
            again = attempt(grid, kept, number, begin)
            best = max(best, again, key=lambda piece: piece.score)
    grid = read(tokenizer, best.ids, given, fixed)
    return Harmonisation(grid, -best.likely / len(best.ids), best.ids.astype(np.uint16))


@dataclass(frozen=True)
class _Piece:
    """One harmonisation with its scores."""

    ids: np.ndarray  # (4 T,)
    likely: float  # ln p of the ids and of eos
    score: float  # ln p minus the nats that its faults cost


def _beats_with_faults(grid: Grid, rules: float, form: Form | None) -> list[int]:
    """The beats in which faults begin, in order; empty if faults cost nothing."""
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
    """ln p of whole pieces (P, 4 T), each with its ``eos``: float64 (P,)."""
    device = next(model.parameters()).device
    distinct, index = np.unique(ids, axis=0, return_inverse=True)
    edge = np.ones((len(distinct), 1), np.int64)
    rows = torch.from_numpy(np.hstack([edge * BOS, distinct, edge * EOS])).to(device)
    with evaluating(model):
        logits = model(rows[:, :-1]).double()
    nats = F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")
    return -nats.sum(1).cpu().numpy()[index.reshape(-1)]
