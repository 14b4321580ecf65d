"""Measuring: likelihood, a set of pieces beside another, copies, limits of notes."""

from musictx.lazy import callable_package

callable_package(__name__)
