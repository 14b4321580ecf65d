"""Fixtures of the tests of attention."""

from functools import cache

import pytest

from musictx.speed.native import library
from tests import compiler


@pytest.fixture(scope="module")
def one_cache(tmp_path_factory):
    """Nothing is built in the user's own cache; what is built serves all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSICTX_CACHE", str(tmp_path_factory.getbasetemp() / "native"))
        patch.setattr(library, "_outcome", cache(library._outcome.__wrapped__))
        yield


@pytest.fixture(scope="module")
def kernel(one_cache) -> library.Library:
    if not compiler.INSTALLED:
        pytest.skip("no C++ compiler on this machine")
    return library.load()
