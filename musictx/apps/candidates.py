"""Choose the best of several candidates for a sample: the one most closely related to the music
before it.

The measure is the pointwise mutual information of earlier and new music under the model
(:func:`.pointwise_mutual_information`), in nats per note. It favours short or sparse music.
scripts/LOG.md has judgements of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.likelihood import pointwise_mutual_information
from musictx.sampling.primer import Primer
from musictx.sampling.sample import Sample


def choose_best(
    bundle: Bundle,
    pieces: Iterator[tuple[int, Sample]],
    primers: Sequence[Primer],
    request: GenerateConfig,
) -> Iterator[tuple[int, Sample]]:
    """Yield the best (number, candidate) for each sample as soon as its ``request.candidates``
    candidates, which have successive numbers in ``pieces``, are composed. After Ctrl-C yield the
    best finished candidate of each remaining sample or, if there is none, an unfinished one."""
    candidates: dict[int, list[tuple[int, Sample]]] = {}  # sample -> its candidates so far

    def choose(sample: int) -> tuple[int, Sample]:
        composed, primer = candidates.pop(sample), primers[sample // request.samples]
        finished = [piece for piece in composed if piece[1].ended != "interrupted"]
        return max(finished or composed, key=lambda piece: coherence(bundle, primer, piece[1]))

    try:
        for number, candidate in pieces:
            sample = number // request.candidates
            candidates.setdefault(sample, []).append((number, candidate))
            if len(candidates[sample]) == request.candidates:
                yield choose(sample)
    except KeyboardInterrupt:
        for sample in [*candidates]:
            yield choose(sample)
        raise


def coherence(bundle: Bundle, primer: Primer, sample: Sample) -> float:
    """Return the mutual information of the primer and the new music, in nats per new note; of a new
    piece, or one with a form, that of its two halves. -inf without notes, 0 for a single bar."""
    if not sample.notes:
        return -np.inf
    first_ids, last_ids = primer.ids, sample.ids
    if not (len(first_ids) and len(last_ids)):
        tokenizer, ids = bundle.tokenizer, bundle.tokenizer.encode(sample.score)
        middle = len(ids) // 2 // tokenizer.align * tokenizer.align
        first_ids, last_ids = np.split(ids, [tokenizer.window_start(ids, middle)])
    if not len(first_ids):  # one bar has no halves
        return 0.0
    return pointwise_mutual_information(bundle, first_ids, last_ids) / sample.notes
