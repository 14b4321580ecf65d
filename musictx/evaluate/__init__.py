"""Evaluation, an optional component: the likelihood of a corpus under a model (``evaluate``), and
the comparison of generated with real music (``compare``)."""

from musictx.lazy import make_callable

make_callable(__name__, "musictx.evaluate.app")
