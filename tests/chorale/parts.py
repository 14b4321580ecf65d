"""Chorales for tests, by the names of notes or drawn at random, and models of chorales."""

import numpy as np
from hypothesis import strategies as st

from musictx.attention.positions.coordinates import token_coordinates
from musictx.chorale.grid import Grid
from musictx.config import scales
from musictx.model.transformer import MusicTransformer
from tests.untrained import network


def pitch(name: str) -> int:
    """Return the pitch of a name: ``C4`` is 60, ``-`` (silence) -1."""
    return -1 if name == "-" else scales.pitch(name, "name")


def chords(text: str, steps: int) -> np.ndarray:
    """Return (T, 4) pitches of ``C5 G4 E4 C3, B4 G4 D4 G3``; each chord lasts ``steps``."""
    table = [[pitch(name) for name in chord.split()] for chord in text.split(",")]
    return np.repeat(np.array(table), steps, axis=0)


@st.composite
def pieces(draw: st.DrawFn, low: int = 40, high: int = 72, longest: int = 24) -> np.ndarray:
    """Draw (T, 4) of few pitches, so that intervals repeat; with long notes and silences."""
    palette = [*draw(st.lists(st.integers(low, high), min_size=2, max_size=6)), -1]
    steps = draw(st.integers(1, longest))
    picks = st.lists(st.sampled_from(palette), min_size=4, max_size=4)
    rows = draw(st.lists(picks, min_size=steps, max_size=steps))
    holds = draw(st.lists(st.integers(1, 3), min_size=steps, max_size=steps))
    return np.repeat(np.array(rows), holds, axis=0)


@st.composite
def grids(draw: st.DrawFn, ties: bool = True, longest: int = 24) -> Grid:
    """Draw a grid of :func:`pieces`, without rests in its first step; with ``ties`` some held notes
    are struck again."""
    pitches = draw(pieces(longest=longest))
    pitches[0] = np.where(pitches[0] < 0, 60, pitches[0])
    joined = Grid.from_pitches(pitches)
    again = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).random(pitches.shape) < 0.2
    return Grid(pitches, joined.tied & ~again) if ties else joined


def small_model(tokenizer, seed=0, position="two_d", intervals=False) -> MusicTransformer:
    """Return a network of random weights, whose distributions are far from uniform."""
    place = {"name": position, "periods": [4]}
    if position == "two_d":
        place["coordinates"] = token_coordinates(tokenizer)
    pitches = token_coordinates(tokenizer)["pitches"]
    feature = {"name": "intervals", "inputs": [1, 4], "outputs": [1, 16], "pitches": pitches}
    shape = {"layers": 2, "width": 16, "context": 96, "position": place}
    features = [feature] if intervals else []
    size = tokenizer.vocabulary.size
    return network(size, seed=seed, std=0.4, features=features, **shape)


def voice_of(given: Grid, *voices: int) -> np.ndarray:
    """Return (T, 4) bool, true for all steps of ``voices``."""
    return np.tile(np.isin(np.arange(4), voices), (len(given), 1))
