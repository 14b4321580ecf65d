"""Tests that need a C++ compiler. Only its absence skips them: code that it does not take, and a
step that is not native where it could be, fail."""

import pytest

from musictx.errors import UserError
from musictx.speed.native import build


def _there() -> bool:
    try:
        build.compiler()
    except UserError:
        return False
    return True


THERE = _there()
needed = pytest.mark.skipif(not THERE, reason="no C++ compiler on this machine")
