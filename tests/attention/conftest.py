"""Fixtures of the tests of attention."""

import pytest

from musictx.speed.native import library
from tests import compiler


@pytest.fixture(scope="module")
def kernel() -> library.Library:
    if not compiler.INSTALLED:
        pytest.skip("no C++ compiler on this machine")
    return library.load()
