"""Fixtures of the tests of the fast forms: those of attention."""

from tests.attention.conftest import kernel

__all__ = ["kernel"]
