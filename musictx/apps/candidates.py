"""The best of several versions of a piece: the one that keeps to its subject.

Samples differ in how far they take up the music before, which the probabilities of the network
measure: the mutual information of the music before and after (:func:`.mutual_information`). A note
of short or sparse music has more of it. How readers judged the result stands in scripts/LOG.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    """Yield the best of the numbered ``pieces`` that are candidates for each sample, as soon as
    they are composed; after Ctrl-C the best of the finished ones, or of the unfinished ones if none
    is finished."""
    waiting: dict[int, list[tuple[int, Sample]]] = {}

    def choose(number: int) -> tuple[int, Sample]:
        of_sample, primer = waiting.pop(number), primers[number // request.samples]
        finished = [piece for piece in of_sample if piece[1].ended != "interrupted"]
        return max(finished or of_sample, key=lambda piece: coherence(bundle, primer, piece[1]))

    try:
        for piece in pieces:
            number = piece[0] // request.candidates
            waiting.setdefault(number, []).append(piece)
            if len(waiting[number]) == request.candidates:
                yield choose(number)
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
