"""New pieces in bars: over drawn chords, or by a plan of sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

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
) -> Iterator[tuple[int, Sample]] | None:
    """Return an iterator of (number, sample), each as soon as it is done, or None for pieces that
    are composed as with any tokens; see :func:`musictx.apps.generate.compose_pieces`.

    Loops are composed to drawn chords (:func:`new_piece`), and so are other new pieces by models
    with control tokens whose corpus has ensembles, unless they have to end where the model ends
    them, or have a number of tokens, or further penalties or processors."""
    further = more.pop("penalties", ()), more.pop("processors", ())
    is_restricted = any(map(len, further))
    if is_restricted and (request.form is not None or request.loop):
        option = "loop=true" if request.form is None else f"form={request.form}"
        raise UserError(f"{option}: expected no penalties and processors with it")
    can_plan = has_controls(bundle.tokenizer) and bool(bundle.stats.ensembles)
    is_new = not any(len(primer.ids) for primer in primers)
    has_fixed_end = request.end in (None, "cut") and request.tokens is None
    if request.form is not None:
        plans = [primer.plan for primer in primers]
        return form.pieces(bundle, files, plans, request, seeds=seeds, **more)
    if request.loop or (can_plan and is_new and has_fixed_end and not is_restricted):
        return _new_pieces(bundle, primers, request, seeds, **more)
    return None


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
                progress,
                on_event and partial(on_event, number),
            )
            yield number, sample
