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
    max_length: float = 3.0,
    grid: float | None = 0.001,
    pitches: tuple[int, int] = (0, 127),
    velocities: tuple[int, int] = (1, 127),
    tracks: int = 3,
    drums: bool = True,
    zero_lengths: bool = True,
    overlaps: bool = True,
) -> np.ndarray:
    """Draw a structured array of dtype NOTE in start order.

    Tracks are numbered 0, 1, ... without gaps, each with one program and one drum flag (False if
    ``drums`` is). ``overlaps=False`` leaves at most one note of a pitch sounding at a time on a
    track (and no two of them starting together).
    """
    moment = times(max_seconds, grid)
    # Few moments and few pitches: chords, repetitions and overlaps of one pitch come up often.
    moments = draw(st.lists(moment, min_size=1, max_size=8))
    palette = draw(st.lists(st.integers(*pitches), min_size=1, max_size=5))
    shortest = grid or 0.001
    lengths = times(max_length, grid).map(lambda seconds: max(seconds, shortest))
    if zero_lengths:
        lengths = st.one_of(st.just(0.0), lengths)
    row = st.tuples(
        st.one_of(st.sampled_from(moments), moment),
        lengths,
        st.one_of(st.sampled_from(palette), st.integers(*pitches)),
        st.integers(*velocities),
        st.integers(0, tracks - 1),
    )
    rows = draw(st.lists(row, min_size=min_notes, max_size=max_notes))
    kind = st.tuples(st.integers(0, 127), st.booleans() if drums else st.just(False))
    kinds = draw(st.lists(kind, min_size=tracks, max_size=tracks))
    numbers = {track: n for n, track in enumerate(sorted({r[4] for r in rows}))}
    table = np.zeros(len(rows), NOTE)
    for i, (start, length, pitch, velocity, track) in enumerate(rows):
        end = start + length
        if grid is not None:  # the float nearest to a multiple, not the sum of two of them
            end = round(end / grid) / round(1 / grid)
        program, drum = kinds[track]
        table[i] = (start, end, pitch, velocity, program, drum, numbers[track])
    table = table[np.argsort(table["start"], kind="stable")]
    if not overlaps:
        table = _without_overlaps(table)
    return table


def _without_overlaps(table: np.ndarray) -> np.ndarray:
    """Cut or leave out notes so that no pitch of a track sounds twice at a time."""
    kept: list[np.void] = []
    last: dict[tuple[int, int], np.void] = {}
    for note in table.copy():
        key = (int(note["track"]), int(note["pitch"]))
        before = last.get(key)
        if before is not None:
            if before["start"] == note["start"]:
                continue
            before["end"] = min(before["end"], note["start"])
        last[key] = note
        kept.append(note)
    out = np.array([tuple(n) for n in kept], NOTE)
    present = np.unique(out["track"])
    out["track"] = np.searchsorted(present, out["track"])
    return out


@st.composite
def scores(
    draw: st.DrawFn, *, pedals: bool = True, meters: bool = True, **note_options: object
) -> Score:
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
    meter_rows: list[tuple[float, int, int]] = []
    if meters:
        meter = st.tuples(moment, st.integers(1, 255), st.sampled_from([1, 2, 4, 8, 16, 32]))
        meter_rows = draw(st.lists(meter, max_size=3))
    return Score(
        notes=table,
        pedals=np.array(pedal_rows, PEDAL),
        tempos=np.array(tempo_rows, TEMPO),
        meters=np.array(meter_rows, METER),
    )
