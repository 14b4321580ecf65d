"""Evaluation: likelihood, comparison of sets of pieces, copied spans, note limits."""

from musictx.lazy import callable_package

callable_package(__name__)
