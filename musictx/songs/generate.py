"""New pieces in bars by a plan of sections, and as loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from musictx.apps import generate, infill, tasks
from musictx.bundle import Bundle
from musictx.config import GenerateConfig, InfillConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling import idiom
from musictx.sampling.primer import Primer
from musictx.sampling.sample import Sample
from musictx.songs import form, loops


def pieces(
    bundle: Bundle,
    primers: Sequence[Primer],
    files: Sequence[Score | None],
    request: GenerateConfig,
    *,
    seeds: Sequence[int],
    **more: Any,
) -> Iterator[tuple[int, Sample]]:
    """Yield (number, sample) of a ``request`` for a form or a loop as soon as each is done; see
    :func:`musictx.apps.generate.compose_pieces`."""
    if request.form is not None:
        constraints, processors = more.pop("constraints", ()), more.pop("processors", ())
        if constraints or processors:
            raise UserError(f"form={request.form}: expected no constraints and processors with it")
        yield from form.pieces(bundle, files, request, seeds=seeds, **more)
        return
    open_ended = replace(request, loop=False)
    for number, sample in generate.compose_pieces(
        bundle, primers, files, open_ended, seeds=seeds, **more
    ):
        yield number, closed(bundle, sample, request, seeds[number // request.samples] + number)


def closed(bundle: Bundle, sample: Sample, request: GenerateConfig, seed: int) -> Sample:
    """Close a new piece to a loop: its last bar is composed anew so that it leads to the beginning,
    and a marker is added at its end."""
    clock, bars = idiom.of(bundle.tokenizer).plan(bundle, request.plan).score.beats, request.bars
    assert bars is not None
    last, end = (float(clock.seconds(clock.bar_line(0.0, n))) for n in (bars - 1, bars))
    score = sample.score
    score = replace(score, markers=(*score.markers, (end, loops.LOOP_END)))
    if score.duration > last:
        tracks = ",".join(map(str, range(1, len(np.unique(score.notes["track"])) + 1)))
        gap = InfillConfig(
            begin=f"{last:.6f}s",
            end=f"{end:.6f}s",
            tracks=tracks,
            sampling=request.sampling,
            loop=True,
        )
        (made,) = infill.compose_versions(bundle, tasks.gap_task(score, gap), gap, seed=seed)
        score = made.score
    return replace(sample, score=score, notes=len(score))
