"""A particle filter for chorales: compose the free notes around given notes.

The model writes soprano, alto, tenor, bass in turn and never looks ahead. If given notes were only
inserted, the free notes before them would not lead to them. So several pieces, the particles, are
written in parallel. Particles in which the given notes are likely, and which have few faults of
voice leading, replace others (Gordon, Salmond and Smith 1993; for language models Lew et al. 2023).
As the number of particles grows, their distribution approaches, up to a constant factor,

    p(free notes | given notes) x exp(-rules x faults),

a product of the model and the rules (:mod:`musictx.chorale.rules`). With a whole melody, deviations
from its key and form are faults, too (:class:`musictx.chorale.rules.Form`). A free note is drawn
from p(id) x exp(-rules x faults that the id completes), normalised over all ids, and the weight of
the particle is multiplied by the normalising sum. Top-p and other processors act on this product.

All voices are silent until the first given note.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from musictx.chorale import voice_leading
from musictx.chorale.constants import RESAMPLE_BELOW
from musictx.chorale.grid import SILENCE, VOICES, Grid, last_change
from musictx.chorale.rules import ChoraleIdiom, Form, PartialPieces, fault_costs
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig, TokenSampling
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer, evaluating
from musictx.sampling import engine, processors
from musictx.tokens.vocab import BOS, EOS

#: With models without absolute positions, pieces may be this many times as long as the context.
CONTEXT_FACTOR = 4


@dataclass(frozen=True)
class Particles:
    """The pieces that a run of the filter has composed.

    ids              (P, 4 T) int64
    weights          (P,) the logarithm of each particle's weight
    log_probability  (P,) ln p under the model of the ids from ``begin`` on and of ``eos``
    faults           (P,) the number of faults in each whole piece; 0 if ``sampling.rules`` is 0
    """

    ids: np.ndarray
    weights: np.ndarray
    log_probability: np.ndarray
    faults: np.ndarray


@torch.inference_mode()
def run_filter(
    model: MusicTransformer,
    tokenizer: ChoraleTokenizer,
    given: Grid,
    *,
    fixed: np.ndarray,
    particles: int,
    sampling: TokenSampling,
    seed: tuple[int, ...],
    form: Form | None = None,
    begin: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Particles:
    """Compose pieces in which the notes of ``given`` stay where ``fixed`` (T, 4) is true.

    All notes before the step ``begin`` must be fixed. The model reads them in a single pass, and
    neither ``weights`` nor ``log_probability`` includes them. ``progress`` is called with the
    number of finished steps. Other arguments: :func:`musictx.chorale.harmonise.compose_voices`.
    """
    steps, longest = len(given), model.config.context
    if not model.position.absolute:
        longest *= CONTEXT_FACTOR
    if not 0 < len(VOICES) * steps < longest:
        raise UserError(
            f"melody: {steps} sixteenths, expected 1 to {(longest - 1) // len(VOICES)} with a "
            f"model trained on windows of {model.config.context} tokens"
        )
    forced = tokenizer.encode_grid(given).reshape(steps, len(VOICES)).astype(np.int64)
    # The usual temperature of note-ons, for pitches around given voices. Free chorales would stand
    # still at it, so it is not the default of chorales.
    temperatures = {"pitch": SamplingConfig().temperatures["note_on"]}
    chain = processors.of_sampling(sampling, tokenizer.vocabulary, ChoraleIdiom.top_p, temperatures)
    rules = sampling.rules
    fixed_pitches = np.where(fixed, given.pitches, SILENCE)
    silent_steps = int((fixed_pitches >= 0).any(1).argmax())  # 0 if no note is given
    phrase_ends = form.phrase_ends if form else ()
    closing = _closing(steps, [*phrase_ends, (last_change(fixed_pitches), steps)])
    random = np.random.default_rng(seed)
    weights, log_probability = np.zeros(particles), np.zeros(particles)
    total_costs = np.zeros(particles)
    costs = np.zeros((particles, tokenizer.vocabulary.size))
    length = len(VOICES) * steps + 1
    with evaluating(model):
        prompt = torch.tensor([[BOS, *forced[:begin].reshape(-1).tolist()]])
        decoder = engine.Decoder(model, prompt, rows=particles, capacity=length, longest=length)
        for position in range(len(VOICES) * begin, length - 1):
            step, voice = divmod(position, len(VOICES))
            logits, past = decoder.logits, decoder.past[:, 1:].numpy()
            log_p = logits.log_softmax(dim=-1).numpy()
            pieces = PartialPieces.of(tokenizer, past)
            if rules:
                costs = fault_costs(pieces, closing=closing[step])
                if form is not None:
                    costs += form.costs(pieces.table, pieces.choices, step, voice)
            if fixed[step, voice] or step < silent_steps:
                ids = np.full(particles, forced[step, voice])
                weights += log_p[:, ids[0]] - rules * costs[:, ids[0]]
            else:
                allowed = pieces.choices >= 0
                allowed[:, tokenizer.silence] = True
                ids, log_mass = _draw(logits, rules * costs, allowed, past, chain, random)
                weights += log_mass
            total_costs += costs[np.arange(particles), ids]
            log_probability += log_p[np.arange(particles), ids]
            decoder.append(torch.from_numpy(ids))
            shares = np.exp(weights - weights.max())
            effective_number = shares.sum() ** 2 / (shares**2).sum()
            if effective_number < RESAMPLE_BELOW * particles:
                chosen = _resample(shares, random)
                decoder.select(torch.from_numpy(chosen))
                log_probability, total_costs = log_probability[chosen], total_costs[chosen]
                weights = np.zeros(particles)
            decoder.step()
            if progress is not None and voice == len(VOICES) - 1:
                progress(step + 1)
        log_probability += decoder.logits.log_softmax(dim=-1).numpy()[:, EOS]
    past = decoder.past[:, 1:].numpy()
    faults = np.zeros(particles)
    if rules:
        grids = [decode_piece(tokenizer, ids, given, fixed) for ids in past]
        faults += [_count_faults(grid, stuck=form is None) for grid in grids]
        if form is not None:
            faults += form.faults(np.stack([grid.pitches for grid in grids]))
    # While composing, faults were counted in the key of the notes so far. Now the faults of the
    # whole piece replace them.
    return Particles(past, weights - rules * (faults - total_costs), log_probability, faults)


def decode_piece(
    tokenizer: ChoraleTokenizer, ids: np.ndarray, given: Grid, fixed: np.ndarray
) -> Grid:
    """Decode a piece. Fixed notes are tied only where they are in ``given``, since tokens without
    ties would join repeated notes."""
    grid = tokenizer.decode_grid(ids)
    return Grid(grid.pitches, grid.tied & (given.tied | ~fixed))


def _closing(steps: int, ends: Sequence[tuple[int, int]]) -> list[bool | None]:
    """The argument ``closing`` of :func:`musictx.chorale.rules.fault_costs` for each step, given
    (first step, step after the last one) of the last chord of each phrase."""
    flags: list[bool | None] = [None] * steps
    for start, stop in ends:
        flags[start:stop] = [step > start for step in range(start, stop)]
    return flags


def _count_faults(grid: Grid, *, stuck: bool) -> int:
    """Count the faults of a whole piece, including a missing final cadence. Stuck voices count only
    with ``stuck``."""
    count = sum(stuck or f.kind != "stuck voice" for f in voice_leading.faults(grid))
    return count if voice_leading.ends_with_cadence(grid.pitches) else count + 1


def _draw(
    logits: Tensor,
    costs: np.ndarray,
    allowed: np.ndarray,
    past: np.ndarray,
    chain: list[processors.Processor],
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw an id for each particle from p(id) x exp(-costs), over the ids ``allowed`` (P, V).

    Return the ids (P,), and (P,) ln (sum of p x exp(-costs) / sum of p) over the allowed ids. The
    processors ``chain`` change only what is drawn.
    """
    logits = logits.masked_fill(~torch.from_numpy(allowed), -torch.inf)
    biased = logits - torch.from_numpy(costs)
    log_mass = (biased.logsumexp(dim=-1) - logits.logsumexp(dim=-1)).numpy()
    for process in chain:
        biased = process(torch.from_numpy(past), biased)
    generators = [random] * len(allowed)
    ids = engine.draw(biased, generators, torch.zeros(len(allowed), dtype=torch.bool))
    return ids.numpy(), log_mass


def _resample(shares: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(P,) int64: indices drawn in proportion to ``shares`` (P,) by systematic resampling (Kitagawa
    1996)."""
    points = (random.random() + np.arange(len(shares))) / len(shares)
    sums = np.cumsum(shares / shares.sum())  # the last one may be 1 - 1e-16
    return np.searchsorted(sums, points, side="right").clip(max=len(shares) - 1)
