"""The best of several versions of a piece: the one that keeps to its subject.

Samples differ in how far they take up the music before, which the probabilities of the network
measure: the mutual information of the music before and after (:func:`.mutual_information`). A note
of short or sparse music has more of it. How readers judged the result stands in scripts/LOG.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.likelihood import mutual_information
from musictx.sampling.primer import Primer
from musictx.sampling.sample import Sample


def best(
    bundle: Bundle,
    pieces: Iterator[tuple[int, Sample]],
    primers: Sequence[Primer],
    request: GenerateConfig,
) -> Iterator[tuple[int, Sample]]:
    """Yield (number, the best candidate) of each sample as soon as its candidates are composed;
    after Ctrl-C the best of the finished ones, or of the unfinished ones if none is finished."""
    waiting: dict[int, list[Sample]] = {}

    def choose(number: int) -> tuple[int, Sample]:
        of_sample, primer = waiting[number], primers[number // request.samples]
        finished = [sample for sample in of_sample if sample.ended != "interrupted"]
        best_one = max(finished or of_sample, key=partial(coherence, bundle, primer))
        del waiting[number]
        return number, best_one

    try:
        for number, piece in pieces:
            of_sample = waiting.setdefault(number // request.candidates, [])
            of_sample.append(piece)
            if len(of_sample) == request.candidates:
                yield choose(number // request.candidates)
    except KeyboardInterrupt:
        for number in [*waiting]:
            yield choose(number)
        raise


def coherence(bundle: Bundle, primer: Primer, sample: Sample) -> float:
    """The mutual information of the primer and the new music, nats a note; for a new piece, or one
    by a form, that of its two halves."""
    if not sample.notes:
        return -np.inf
    before, after = primer.ids, sample.ids
    if not (len(before) and len(after)):
        tokenizer, ids = bundle.tokenizer, bundle.tokenizer.encode(sample.score)
        middle = len(ids) // 2 // tokenizer.align * tokenizer.align
        before, after = np.split(ids, [tokenizer.window_start(ids, middle)])
    if not len(before):  # one bar has no halves
        return 0.0
    return mutual_information(bundle, before, after) / sample.notes
