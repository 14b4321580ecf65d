"""Fixtures of the tests of sampling."""

import pytest

from musictx.tokens.build import build


@pytest.fixture(scope="module")
def piano():
    return build(name="performance", low=48, high=84, max_shift_ms=500, velocity_bins=4)
