"""Fixtures of the tests of songs."""

import pytest

import musictx
from tests.untrained import saved


@pytest.fixture(scope="session")
def song():
    return musictx.load("song")


@pytest.fixture(scope="session")
def counting(tmp_path_factory):
    """A model of notes in bars, by random weights."""
    tokens = {"name": "notes", "low": 21, "high": 108, "controls": True}
    where = tmp_path_factory.mktemp("counting") / "m"
    return musictx.load(saved(where, tokens=tokens, group=5, context=1500))
