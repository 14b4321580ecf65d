"""Evaluation, an optional component: the likelihood of a corpus under a model (``evaluate``), and
the comparison of generated with real music (``compare``)."""

from musictx.lazy import callable_package

callable_package(__name__, "musictx.evaluate.app")
