"""``musictx.harmonise``: four voices to a melody, from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from musictx.api import EXCLUDED, checked_function, model_of, music_of, seed_of
from musictx.options import make_config

if TYPE_CHECKING:
    from musictx.api import Music
    from musictx.bundle import Bundle
    from musictx.sampling.sample import Sample


def harmonise(
    melody: Music,
    model: Bundle | str | Path | None = None,
    *,
    seed: int | None = 0,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> list[Sample]:
    """Compose four-part chorales with ``melody`` as one of their voices.

    melody     a file, an example by name ("ode_to_joy"), or anything that :func:`musictx.read`
               takes; its highest notes are the melody
    model      as in :func:`generate`; it must write chorales. None: your newest model of chorales,
               or the included model
    progress   called after each step with the share of the work that is done; an exception that it
               raises stops the work
    options    those of ``musictx harmonise``: samples, particles, voices, phrase_ends, sampling

    Raises :class:`UserError` for wrong arguments and for a model that does not write chorales. ::

        (piece,) = musictx.harmonise("ode_to_joy", seed=1)
    """
    from musictx.chorale.app import pieces, tune_of

    config = make_config("harmonise", options, without=EXCLUDED)
    bundle = model_of(model, tokenizer=config.tokenizer)
    tune = tune_of(music_of(melody, "melody"), config)
    share = checked_function("progress", progress)
    return [sample for _, sample in pieces(bundle, tune, config, seed_of(seed), share)]
