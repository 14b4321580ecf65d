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

    New pieces that have to end where the model ends them, and those with a number of tokens or with
    further constraints or processors, have no chords drawn in advance."""
    restricted = bool(more.get("constraints") or more.get("processors"))
    if restricted and (request.form is not None or request.loop):
        option = "loop=true" if request.form is None else f"form={request.form}"
        raise UserError(f"{option}: expected no constraints and processors with it")
    of_chords = request.end in (None, "cut") and request.tokens is None and not restricted
    if request.form is not None:
        yield from form.pieces(bundle, files, request, seeds=seeds, **_without_lists(more))
    elif of_chords and not any(len(primer.ids) for primer in primers):
        yield from _new_pieces(bundle, primers, request, seeds, **_without_lists(more))
    else:
        yield from generate.continue_primers(bundle, primers, files, request, seeds=seeds, **more)


def _without_lists(more: dict[str, Any]) -> dict[str, Any]:
    return {name: more[name] for name in more.keys() - {"constraints", "processors"}}


def _new_pieces(
    bundle: Bundle,
    primers: Sequence[Primer],
    request: GenerateConfig,
    seeds: Sequence[int],
    progress: Progress | None = None,
    on_event: OnEvent | None = None,
) -> Iterator[tuple[int, Sample]]:
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
