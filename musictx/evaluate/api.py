"""``musictx.evaluate`` and ``musictx.compare``, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from musictx.api import checked_words
from musictx.options import make_config, parse

if TYPE_CHECKING:
    from musictx.evaluate.comparison import Comparison
    from musictx.evaluate.nll import Evaluation


def evaluate(*words: str, **options: Any) -> Evaluation:
    """Return the likelihood of a corpus under a model, as ``musictx evaluate`` measures it: an
    :class:`~musictx.evaluate.nll.Evaluation`.

    Options are given as on the command line or by name. Raises :class:`UserError` for wrong ones.
    ::

        musictx.evaluate("model=piano", "corpus.path=~/midi", split="test").nats_per_token
    """
    from musictx.evaluate import app

    return app.run(
        make_config("evaluate", parse("evaluate", checked_words("evaluate", words)) | options)
    )


def compare(*words: str, **options: Any) -> Comparison:
    """Generated music compared with real music, as by ``musictx compare``: a
    :class:`~musictx.evaluate.comparison.Comparison`.

    Options are given as on the command line or by name. Raises :class:`UserError` for wrong ones.
    ::

        musictx.compare("samples=generated", against="~/midi")
    """
    from musictx.evaluate import compare as app

    return app.run(
        make_config("compare", parse("compare", checked_words("compare", words)) | options)
    )
