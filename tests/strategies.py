"""Hypothesis strategies for Scores, shared by all tests.

``scores()`` has what occurs in real files and breaks naive code: overlapping notes of one pitch,
zero lengths, chords, repeated notes, drums, several tracks with a program each, pedals, tempo and
meter marks. Times lie on a grid (1 ms by default) so that laws can ask for equality; ``grid=None``
gives any float.
"""

import numpy as np
from hypothesis import strategies as st

from musictx.notes import METER, NOTE, PEDAL, TEMPO, Score


def times(max_seconds: float = 8.0, grid: float | None = 0.001) -> st.SearchStrategy[float]:
    """Seconds from 0 to ``max_seconds``: whole multiples of ``grid``, or any float for None."""
    if grid is None:
        return st.floats(0.0, max_seconds, allow_nan=False, allow_subnormal=False)
    per_second = round(1 / grid)
    return st.integers(0, int(max_seconds * per_second)).map(lambda n: n / per_second)


#: (time, quarters a minute) of up to four tempos, in any order.
tempo_marks = st.lists(
    st.tuples(st.floats(0, 20), st.floats(30, 240)), max_size=4, unique_by=lambda mark: mark[0]
)


@st.composite
def notes(
    draw: st.DrawFn,
    *,
    max_notes: int = 30,
    min_notes: int = 0,
    max_seconds: float = 8.0,
    grid: float | None = 0.001,
    pitches: tuple[int, int] = (0, 127),
    tracks: int = 3,
) -> np.ndarray:
    """Draw a structured array of dtype NOTE in start order.

    Tracks are numbered 0, 1, ... without gaps, each with one program and one drum flag.
    """
    moment = times(max_seconds, grid)
    # Few moments and few pitches: chords, repetitions and overlaps of one pitch come up often.
    moments = draw(st.lists(moment, min_size=1, max_size=8))
    palette = draw(st.lists(st.integers(*pitches), min_size=1, max_size=5))
    shortest = grid or 0.001
    lengths = times(3.0, grid).map(lambda seconds: max(seconds, shortest))
    row = st.tuples(
        st.one_of(st.sampled_from(moments), moment),
        st.one_of(st.just(0.0), lengths),
        st.one_of(st.sampled_from(palette), st.integers(*pitches)),
        st.integers(1, 127),
        st.integers(0, tracks - 1),
    )
    rows = draw(st.lists(row, min_size=min_notes, max_size=max_notes))
    kind = st.tuples(st.integers(0, 127), st.booleans())
    kinds = draw(st.lists(kind, min_size=tracks, max_size=tracks))
    numbers = {track: n for n, track in enumerate(sorted({r[4] for r in rows}))}
    table = np.zeros(len(rows), NOTE)
    for i, (start, length, pitch, velocity, track) in enumerate(rows):
        end = start + length
        if grid is not None:  # the float nearest to a multiple, not the sum of two of them
            end = round(end / grid) / round(1 / grid)
        program, drum = kinds[track]
        table[i] = (start, end, pitch, velocity, program, drum, numbers[track])
    return table[np.argsort(table["start"], kind="stable")]


@st.composite
def scores(draw: st.DrawFn, *, pedals: bool = True, **note_options: object) -> Score:
    """Draw a Score; ``note_options`` are those of :func:`notes`.

    Pedals lie on tracks that have notes, values 0..127 (both sides of 64), sometimes several at
    one time. Tempo and meter marks are such as MIDI can hold.
    """
    table = draw(notes(**note_options))  # type: ignore[arg-type]
    moment = times(
        note_options.get("max_seconds", 8.0),  # type: ignore[arg-type]
        note_options.get("grid", 0.001),  # type: ignore[arg-type]
    )
    pedal_rows: list[tuple[float, int, int]] = []
    present = sorted({int(t) for t in table["track"]})
    if pedals and present:
        value = st.one_of(st.sampled_from([0, 63, 64, 127]), st.integers(0, 127))
        near = [float(t) for t in np.concatenate([table["start"], table["end"]])]
        when = st.one_of(moment, st.sampled_from(near))
        pedal_rows = draw(st.lists(st.tuples(when, value, st.sampled_from(present)), max_size=8))
    tempo_rows = draw(st.lists(st.tuples(moment, st.integers(10, 400).map(float)), max_size=3))
    meter = st.tuples(moment, st.integers(1, 255), st.sampled_from([1, 2, 4, 8, 16, 32]))
    meter_rows = draw(st.lists(meter, max_size=3))
    return Score(
        notes=table,
        pedals=np.array(pedal_rows, PEDAL),
        tempos=np.array(tempo_rows, TEMPO),
        meters=np.array(meter_rows, METER),
    )
