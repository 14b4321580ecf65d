"""Harmonise a melody, realise a bass, or fill a gap: compose the free notes of a chorale.

A particle filter writes several harmonisations in parallel (:mod:`musictx.chorale.particles`), and
the one with the highest score, ln p - rules x faults, is chosen. It may still have faults, since
the filter works from left to right and does not see later given notes. So the beats around a fault
are composed again with all other notes given, and the new version is used if its score is higher.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from musictx.chorale import voice_leading
from musictx.chorale.constants import MARGIN_BEATS, MAX_TRIES, MAX_TRIES_PER_BEAT
from musictx.chorale.grid import PER_QUARTER, VOICES, Grid
from musictx.chorale.particles import decode_piece, run_filter
from musictx.chorale.rules import Form
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import TokenSampling
from musictx.likelihood import predictions_and_losses
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.tokens.vocab import BOS, EOS

#: The progress, 0 to 1, that is reported at the end of the first run of the filter.
FIRST_RUN_SHARE = 0.6


@dataclass(frozen=True)
class Harmonisation:
    """A chorale in four voices.

    grid            all four voices
    nats_per_token  mean of -ln p under the model over all tokens, given and free. A token is a
                    sixteenth of a voice
    ids             (4 T,) uint16
    """

    grid: Grid
    nats_per_token: float
    ids: np.ndarray


def compose_voices(
    model: MusicTransformer,
    tokenizer: ChoraleTokenizer,
    given: Grid,
    *,
    fixed: np.ndarray | None = None,
    particles: int,
    sampling: TokenSampling,
    form: Form | None = None,
    seed: tuple[int, ...],
    progress: Callable[[float], None] = lambda share: None,
) -> Harmonisation:
    """Compose ``particles`` harmonisations and return the best by ln p - rules x faults.

    given      the given notes and rests
    fixed      (T, 4) bool: where ``given`` is used; default: the whole soprano
    sampling   how free notes are drawn, and ``rules``, the nats subtracted for each fault
    form       constraints from the whole melody, which count as faults if broken; ``None`` for none
    seed       the same integers give the same harmonisation
    progress   called after each step with the share of the work that is done, 0 to 1

    ln p includes ``eos`` after the last note, which favours cadences. Raises ``UserError`` for a
    piece that is longer than the model's context.
    """
    if fixed is None:
        fixed = np.tile(np.arange(len(VOICES)) == 0, (len(given), 1))

    def run(
        given: Grid, fixed: np.ndarray, number: int, begin: int
    ) -> tuple[float, float, np.ndarray]:
        """Run the filter. Return the score (ln p - rules x faults), ln p and ids of the best piece.
        ``number`` is 0 for the first run, then 1, 2, ..."""

        def report(step: int) -> None:
            runs = number + step / len(given)
            progress(float(np.interp(runs, (0, 1, 1 + MAX_TRIES), (0, FIRST_RUN_SHARE, 1))))

        pieces = run_filter(
            model,
            tokenizer,
            given,
            fixed=fixed,
            particles=particles,
            sampling=sampling,
            form=form,
            seed=(*seed, number) if number else seed,
            begin=begin,
            progress=report,
        )
        log_p = pieces.log_probability if begin == 0 else _log_probability(model, pieces.ids)
        score = log_p - sampling.rules * pieces.faults
        best = int(score.argmax())
        return float(score[best]), float(log_p[best]), pieces.ids[best]

    score, log_p, ids = run(given, fixed, 0, int((~fixed).any(1).argmax()))
    tries: Counter[int] = Counter()
    for number in range(1, MAX_TRIES + 1) if sampling.rules else ():
        grid = decode_piece(tokenizer, ids, given, fixed)
        beats = _beats_with_faults(grid, form)
        beat = next((b for b in beats if tries[b] < MAX_TRIES_PER_BEAT), None)
        if beat is None:
            break
        tries[beat] += 1
        begin = max(beat - MARGIN_BEATS, 0) * PER_QUARTER
        retry_fixed = fixed.copy()
        retry_fixed[:begin] = True
        retry_fixed[(beat + MARGIN_BEATS) * PER_QUARTER :] = True
        if not retry_fixed.all():
            new = run(grid, retry_fixed, number, begin)
            if new[0] > score:
                score, log_p, ids = new
    grid = decode_piece(tokenizer, ids, given, fixed)
    return Harmonisation(grid, -log_p / len(ids), ids.astype(np.uint16))


def _beats_with_faults(grid: Grid, form: Form | None) -> list[int]:
    """The beats in which faults begin, in order."""
    bar = voice_leading.STEPS_PER_BAR if form is None else form.bar
    steps = [fault.step for fault in voice_leading.faults(grid, bar=bar)]
    if form is not None:
        steps += form.unclosed_steps(grid.pitches)
    elif not voice_leading.ends_with_cadence(grid.pitches):
        steps.append(len(grid) - 1)
    return sorted({step // PER_QUARTER for step in steps})


@torch.inference_mode()
def _log_probability(model: MusicTransformer, ids: np.ndarray) -> np.ndarray:
    """ln p of whole pieces (P, 4 T), each with its ``eos``: float64 (P,)."""
    distinct, index = np.unique(ids, axis=0, return_inverse=True)
    edge = np.ones((len(distinct), 1), np.int64)
    rows = torch.from_numpy(np.hstack([edge * BOS, distinct, edge * EOS]))
    with evaluating(model):
        _, nats = predictions_and_losses(model, rows[:, :-1], rows[:, 1:])
    return -nats.sum(1).numpy()[index.reshape(-1)]
