"""What is fed back in bars, against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.card import WINDOW_SECONDS
from musictx.sampling.strengths import (
    ASKED_GAIN,
    LOUDNESS_GAIN,
    REGISTER_GAIN,
)
from musictx.songs.bar_feedback import BarFeedback
from musictx.songs.strengths import CROWD_GAIN, LENGTH_GAIN
from musictx.tokens.stream import Velocities
from tests.sampling.engines import nats
from tests.sampling.pieces import BARS, DRUMS, line_ids, note_ids

TABLE = BARS.vocabulary
rows_of_a_bar = st.lists(
    st.tuples(st.integers(0, 31), st.sampled_from([0, DRUMS]), st.integers(60, 63)),
    max_size=6,
    unique=True,
)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(rows_of_a_bar, min_size=1, max_size=4),
    st.integers(1, 60),
    st.integers(0, 4),
    st.booleans(),
    st.tuples(st.floats(1, 9), st.floats(0.5, 8), st.floats(48, 72), st.floats(30, 90)),
)
def test_costs_in_bars_are_those_of_plain_loops(bars, length, count, given, asked):
    """Bars of two seconds, 48 steps each; the note that is being written is the last one again,
    whose first ``count`` ids stand."""
    targets = dict(zip(("density", "polyphony", "register", "loudness"), asked))
    density, polyphony, register, loudness = asked
    bars, ids, notes = [sorted(bar) for bar in bars], [], []
    for number, bar in enumerate(bars):
        ids += line_ids()
        for place, part, pitch in bar:
            ids += note_ids(3 * place, part, pitch, length)
            notes.append((96 * number + 3 * place, part, pitch))
    place, part, _ = bars[-1][-1] if bars[-1] else (0, 0, 0)
    last = 3 * place
    ids += note_ids(last, part, 63, length)[:count]
    now = 96 * (len(bars) - 1) + last
    span = min(max(now / 48, 1.0), WINDOW_SECONDS)
    recent = [note for note in notes if note[0] / 48 > now / 48 - span - 1e-6]
    pitched = [pitch for _, part, pitch in recent if part != DRUMS]
    at_once = len(pitched) * length / 48 / span
    crowd = 0.0 if given else CROWD_GAIN * np.log2(max(at_once, 0.5) / polyphony)
    dense = ASKED_GAIN * (len(recent) / span - density)
    wanted = np.zeros(BARS.size)
    if count == 0:
        for place in range(*TABLE.range("place")):
            wait = (TABLE.tokens[place][1] - last) / 48
            wanted[place] = (dense + crowd) * (1 - min(max(wait, 0), 1))
        wanted[TABLE.id("place", 0)] *= bool(bars[-1])  # where the chord of a bar stands
        wanted[TABLE.id("bar")] = -(dense + crowd) * min((96 - last) / 48, 1)
    elif count == 1:
        wanted[slice(*TABLE.range("program"))] = dense + crowd
        wanted[TABLE.id("drums")] = dense
    elif count == 2 and pitched:
        for pitch in range(60, 64):
            high = REGISTER_GAIN * (np.mean(pitched) - register) / 12
            wanted[TABLE.id("pitch", pitch)] = high * (pitch - register) / 12
    elif count == 3:
        for token in range(*TABLE.range("length")):
            octaves = np.log2(TABLE.tokens[token][1] / 24)
            wanted[token] = LENGTH_GAIN * (at_once - polyphony) * octaves
    elif count == 4 and recent:
        first, *_ = loud = Velocities(2).of_bin[1:]
        for number, velocity in enumerate(loud, 1):
            above = LOUDNESS_GAIN * (first - loudness) / 10 * (velocity - loudness) / 10
            wanted[TABLE.id("velocity", number)] = above
    feed = BarFeedback(BARS, targets, given=given)
    np.testing.assert_allclose(nats(feed, BARS.grammar(ids), BARS.size), wanted, atol=1e-9)
    assert not nats(BarFeedback(BARS, {}, given=given), BARS.grammar(ids), BARS.size).any()
