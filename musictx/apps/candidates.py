"""The best of several versions of a piece: the one that keeps to its subject.

Samples differ in how far they take up what was given, and in how soon they lose the thread. The
probabilities of the network measure it: the mutual information of two parts of a piece
(:func:`.mutual_information`) is high where one could be guessed from the other. How readers judged
the result stands in scripts/LOG.md.
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
    after Ctrl-C the best of those that there are."""
    waiting: dict[int, list[Sample]] = {}

    def choose(number: int) -> tuple[int, Sample]:
        primer = primers[number // request.samples]
        return number, max(waiting.pop(number), key=partial(coherence, bundle, primer))

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
        ids = bundle.tokenizer.encode(sample.score)
        middle = bundle.tokenizer.window_start(ids, len(ids) // 2)
        before, after = ids[:middle], ids[middle:]
    return mutual_information(bundle, before, after) / sample.notes
