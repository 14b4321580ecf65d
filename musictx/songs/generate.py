"""New pieces in bars: over drawn chords, or by a plan of sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from musictx.apps import generate
from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling.composer import Progress
from musictx.sampling.events import OnEvent
from musictx.sampling.primer import Primer
from musictx.sampling.sample import Sample
from musictx.sampling.steer import has_controls
from musictx.songs import form
from musictx.songs.new_pieces import new_piece


def pieces(
    bundle: Bundle,
    primers: Sequence[Primer],
    files: Sequence[Score | None],
    request: GenerateConfig,
    *,
    seeds: Sequence[int],
    **more: Any,
) -> Iterator[tuple[int, Sample]]:
    """Yield (number, sample) as soon as each is done; see
    :func:`musictx.apps.generate.compose_pieces`.

    Loops are composed to drawn chords (:func:`new_piece`), and so are other new pieces by models
    with control tokens whose corpus has ensembles, unless they have to end where the model ends
    them, or have a number of tokens, or further constraints or processors."""
    lists = {name: more.pop(name, ()) for name in ("constraints", "processors")}
    is_restricted = any(len(penalties) for penalties in lists.values())
    if is_restricted and (request.form is not None or request.loop):
        option = "loop=true" if request.form is None else f"form={request.form}"
        raise UserError(f"{option}: expected no constraints and processors with it")
    can_plan = has_controls(bundle.tokenizer) and bool(bundle.stats.ensembles)
    is_new = not any(len(primer.ids) for primer in primers)
    has_fixed_end = request.end in (None, "cut") and request.tokens is None
    if request.form is not None:
        plans = [primer.plan for primer in primers]
        yield from form.pieces(bundle, files, plans, request, seeds=seeds, **more)
    elif request.loop or (can_plan and is_new and has_fixed_end and not is_restricted):
        yield from _new_pieces(bundle, primers, request, seeds, **more)
    else:
        yield from generate.continue_primers(
            bundle, primers, files, request, seeds=seeds, **lists, **more
        )


def _new_pieces(
    bundle: Bundle,
    primers: Sequence[Primer],
    request: GenerateConfig,
    seeds: Sequence[int],
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[tuple[int, Sample]]:
    """Yield (number, sample) of ``request.samples`` new pieces for each of ``primers``."""
    for first, (primer, seed) in enumerate(zip(primers, seeds)):
        for version in range(request.samples):
            number = first * request.samples + version
            sample = new_piece(
                bundle,
                primer.plan,
                request,
                [seed, version],
                progress and partial(progress, number),
                on_event and partial(on_event, number),
            )
            yield number, sample
