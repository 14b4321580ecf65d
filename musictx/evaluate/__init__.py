"""Evaluation, an optional component: the likelihood of a corpus under a model, and generated music
compared with real music."""

from musictx.lazy import callable_package

callable_package(__name__, "musictx.evaluate.app")
