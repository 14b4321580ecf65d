"""Fixtures of the tests of songs."""

import pytest

import musictx


@pytest.fixture(scope="session")
def song():
    return musictx.load("song")
