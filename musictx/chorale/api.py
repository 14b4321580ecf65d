"""``musictx.harmonise``: four voices to a melody, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musictx.arguments import (
    as_list,
    bundle_of,
    music_of,
    optional_function,
    request_of,
    sampling_of,
    seed_of,
)
from musictx.chorale.config import HarmoniseConfig
from musictx.config import TokenSampling

if TYPE_CHECKING:
    from musictx.api import Music
    from musictx.bundle import Bundle
    from musictx.sampling.music import Sample


def harmonise(
    melody: Music,
    model: Bundle | str | Path | None = None,
    *,
    samples: int = 1,
    particles: int = 24,
    sampling: TokenSampling | Mapping[str, Any] | str | None = None,
    seed: int | None = 0,
    voices: Sequence[str] = ("soprano",),
    phrase_ends: Sequence[int] = (),
    progress: Callable[[float], None] | None = None,
) -> list[Sample]:
    """``samples`` four-part chorales with ``melody`` as one of their voices.

    melody     a file, an example by name ("ode_to_joy"), or what :func:`musictx.read` takes; its
               highest notes count
    model      as in :func:`generate`, of four voices; None: the newest such, or the one that comes
               with musictx
    particles  harmonisations written side by side, of which the likeliest survive: more, better

    voices     what stays: the voice that the melody is, or several of a file with a track for each
    phrase_ends  bars in which phrases end; default: under fermatas, or at long notes
    progress   called after each step with the share that is done; what it raises stops it at once

    Raises :class:`UserError` for wrong arguments and for a model that does not write chorales.
    """
    from musictx.chorale.app import harmonisations

    request = request_of(
        HarmoniseConfig,
        sampling=sampling_of(sampling, TokenSampling),
        samples=samples,
        particles=particles,
        voices=as_list("voices", voices),
        phrase_ends=as_list("phrase_ends", phrase_ends),
    )
    harmonies = harmonisations(
        bundle_of(model, tokenizer=request.tokenizer),
        music_of(melody, "melody"),
        request,
        seed=seed_of(seed),
        progress=optional_function("progress", progress),
    )
    return [sample for _, sample in harmonies]
