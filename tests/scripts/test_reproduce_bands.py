"""Songs as bands: strokes on the song's lines, a bass of one line, nothing else moved."""

from __future__ import annotations

import numpy as np

from musictx.beats import Beats
from musictx.notes import METER, TEMPO, Score
from scripts.reproduce import bands


def drummer(bars=18, bpm=90.0, late=0.02):
    """Eighths on the hat with a kick on each bar line, all of it late and a bit uneven."""
    beat = 60 / bpm
    random = np.random.default_rng(0)
    rows = []
    for number in range(8 * bars):
        at = max(number * beat / 2 + late + random.normal(0, 0.005), 0.0)
        rows.append((at, at + 0.05, 22, 70 + number % 8, 0, True, 0))
        rows += [(at, at + 0.05, 36, 100, 0, True, 0)] * (number % 8 == 0)
    return Score(rows, tempos=np.array([(0.0, bpm)], TEMPO), meters=np.array([(0, 4, 4)], METER))


def song(bars=41, meter=(4, 4)):
    """From an upbeat on: chords on each quarter over a low note on each bar; the tempo changes."""
    clock = Score(tempos=np.array([(0.0, 100.0), (9.0, 110.0)], TEMPO),
                  meters=np.array([(0.0, *meter)], METER))  # fmt: skip
    at = Beats(clock).seconds(np.arange(4 * bars + 6))
    rows = []
    for n in range(3, 4 * bars):
        rows += [(at[n], at[n + 1], 60 + tone, 64, 0, False, 0) for tone in (0, 4, 7)]
        rows += [(at[n], at[n + 5], 40, 64, 0, False, 0)] * (n % 4 == 0)
    return clock.with_notes(rows)


def test_strokes_lie_on_the_bars_of_the_song():
    once, _ = bands.snapped(drummer())
    assert bands.snapped(once)[0] == once
    assert bands.performance("7_rock_90_beat_4-4", drummer(bars=12)) is None
    one = bands.performance("7_rock_90_beat_4-4", drummer())
    assert one is not None
    assert one.bars == 16
    given = song()
    made = bands.drummed("001", given, [one])
    kicks = made.notes[made.notes["pitch"] == 36]
    at = Beats(given).quarters(kicks["start"])
    assert np.allclose(at, 4 * np.arange(1, 41), atol=1e-6)
    assert np.array_equal(made.notes[~made.notes["drum"]], given.notes)
    assert made == bands.drummed("001", given, [one])


def test_the_bass_is_one_line_below_all():
    given = song()
    made = bands.with_bass(given, 0)
    bass = made.notes[made.notes["program"] == bands.BASS]
    assert set(bass["pitch"].tolist()) == {40}
    assert len(bass) == 40
    assert np.all(bass["end"][:-1] <= bass["start"][1:])
    rest = made.notes[made.notes["program"] == 0]
    assert np.array_equal(rest, given.notes[given.notes["pitch"] > 40])
