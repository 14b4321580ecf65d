"""Pieces on a grid for tests; the times of their notes are ticks of their tempo map."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from musictx.beats import Beats
from musictx.notes import METER, TEMPO, Score
from musictx.songs.bars import GRID_STEPS

TICKS = 480


def on_ticks(notes, tempos=((0, 120.0),), meters=((0, 4, 4),)) -> Score:
    """Return a piece whose notes, tempos and meters have times in ticks."""
    marks = []
    for n, (tick, bpm) in enumerate(tempos):
        before = marks[-1] if n else (0.0, bpm)
        passed = (tick - tempos[n - 1][0]) / TICKS * 60.0 / before[1] if n else 0.0
        marks.append((before[0] + passed, bpm))
    clock = Beats(Score(tempos=np.array(marks, TEMPO)))
    time = lambda tick: float(clock.seconds(tick / TICKS))  # noqa: E731
    return Score(
        notes=[(time(n[0]), time(n[1]), *n[2:]) for n in notes],
        tempos=np.array(marks, TEMPO),
        meters=np.array([(time(tick), n, d) for tick, n, d in meters], METER),
        ticks_per_quarter=TICKS,
    )


def ticks(score: Score, seconds: np.ndarray) -> list[int]:
    exact = Beats(score).quarters(seconds) * TICKS
    assert np.abs(exact - np.round(exact)).max(initial=0) < 1e-3
    return np.round(exact).astype(int).tolist()


@st.composite
def gridded(draw: st.DrawFn) -> Score:
    """Draw a piece on ticks: bars of several meters, some cut short, changes of tempo anywhere, and
    notes on sixteenths, thirty-seconds and triplets of their bars."""
    lines, meters = [0], []
    for _ in range(draw(st.integers(1, 4))):
        meter = draw(st.sampled_from([(4, 4), (3, 4), (6, 8), (7, 8), (5, 16), (2, 2), (3, 32)]))
        meters.append((lines[-1], *meter))
        whole = TICKS * 4 * meter[0] // meter[1]
        for _ in range(draw(st.integers(1, 3))):
            lines.append(lines[-1] + whole)
        if draw(st.booleans()) and whole > TICKS:
            lines[-1] += TICKS - whole  # a bar of one quarter
    places = []
    for begin, stop in pairwise(lines):
        of_bar = (q + int(p) * 20 for q in range(0, stop - begin, TICKS) for p in GRID_STEPS[:-1])
        places += [begin + place for place in of_bar if begin + place < stop]
    places.append(lines[-1])
    index = st.integers(0, len(places) - 2)
    notes = []
    tracks = [(0, False), (40, False), (0, True)]
    for _ in range(draw(st.integers(1, 20))):
        start, pitch, track = draw(index), draw(st.integers(40, 50)), draw(st.integers(0, 2))
        stop = draw(st.integers(start + 1, min(start + 60, len(places) - 1)))
        notes.append((places[start], places[stop], pitch, 64, *tracks[track], track))
    tempo = st.tuples(st.integers(1, lines[-1]), st.sampled_from([33.0, 90.0, 127.5, 240.0]))
    tempos = [(0, 100.0), *sorted(draw(st.lists(tempo, max_size=3, unique_by=lambda t: t[0])))]
    return on_ticks(notes, tempos, meters)
