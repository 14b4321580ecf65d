"""Fixtures of the tests of the fast forms: those of attention."""

from tests.attention.conftest import kernel, one_cache

__all__ = ["kernel", "one_cache"]
