"""Fixtures of the tests of songs."""

import pytest

import musictx
from tests.untrained import saved


@pytest.fixture(scope="session")
def song():
    return musictx.load("song")


#: Program or 128 for drums, most voices, lowest and highest pitch, notes in a second.
PARTS = [
    *([0, 4, 36, 84, 6.0], [33, 2, 30, 50, 2.0], [40, 2, 56, 91, 5.0], [48, 3, 50, 80, 2.0]),
    *([73, 1, 57, 81, 2.0], [80, 2, 40, 84, 2.0], [128, 4, 22, 60, 6.0]),
]
#: Styles of drums: nothing, a kick on every beat, a hi-hat on every beat, and a fill of toms on the
#: last two beats.
NONE = "0" * 24
DRUMMERS = {
    "usual": [" ".join([NONE] * 6)],
    "disco": [" ".join(["900000" * 4, *[NONE] * 5])],
    "hush": [" ".join([*[NONE] * 2, "900000" * 4, *[NONE] * 3])],
    "fills": [" ".join([*[NONE] * 3, "000000" * 2 + "900000" * 2, *[NONE] * 2])],
}


def random_model(folder, card=None):
    """Load a model of notes in bars with random weights."""
    tokens = {"name": "notes", "low": 21, "high": 108, "controls": True}
    return musictx.load(saved(folder / "m", card, tokens=tokens, group=5, context=1500))


@pytest.fixture(scope="session")
def counting(tmp_path_factory):
    return random_model(tmp_path_factory.mktemp("counting"))


@pytest.fixture(scope="session")
def songs(tmp_path_factory):
    """A random model whose card has parts, drummers and the program of melodies."""
    limits = {"instruments": [part for part, *_ in PARTS], "parts": PARTS}
    card = {"corpus": {"tasks": {"melody": "73"}}, "note_limits": limits, "drummers": DRUMMERS}
    return random_model(tmp_path_factory.mktemp("songs"), card)
