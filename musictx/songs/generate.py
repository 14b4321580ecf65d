"""New pieces in bars: over drawn chords, or by a plan of sections."""

from __future__ import annotations

from collections.abc import Sequence

from musictx.apps.generate import Compose
from musictx.bundle import Bundle
from musictx.config import GenerateConfig
from musictx.errors import UserError
from musictx.sampling.primer import Primer
from musictx.sampling.steer import has_controls, unable
from musictx.songs import form
from musictx.songs.new_pieces import new_piece


def composer(
    bundle: Bundle, primers: Sequence[Primer], request: GenerateConfig, is_restricted: bool
) -> Compose | None:
    """The function that composes one piece, or ``None`` for pieces that are composed as with any
    tokens; see :func:`musictx.apps.generate.compose_pieces`.

    Loops are composed to drawn chords (:func:`new_piece`), and so are other new pieces by models
    with control tokens whose corpus has ensembles, unless they have to end where the model ends
    them, or have a number of tokens, or further penalties or processors (``is_restricted``)."""
    if is_restricted and (request.form is not None or request.loop):
        option = "loop=true" if request.form is None else f"form={request.form}"
        raise UserError(f"{option}: expected no penalties and processors with it")
    is_steered = has_controls(bundle.tokenizer)
    if request.form is not None:
        if not is_steered:
            raise UserError(f"form={request.form}: {unable(bundle.tokenizer)}")
        return lambda primer, score, *more: form.piece(bundle, score, primer.plan, request, *more)
    can_plan = is_steered and bool(bundle.stats.ensembles)
    is_new = not any(len(primer.ids) for primer in primers)
    has_fixed_end = request.end in (None, "cut") and request.tokens is None
    if request.loop or (can_plan and is_new and has_fixed_end and not is_restricted):
        return lambda primer, _, *more: new_piece(bundle, primer.plan, request, *more)
    return None
