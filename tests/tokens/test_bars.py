"""Bars in steps: which meters can be written."""

import numpy as np

from musictx.notes import METER, Score
from musictx.tokens.bars import Bars, Meter


def test_meters_that_cannot_be_written_are_reduced_or_common_time():
    def of(numerator, denominator):
        return Meter.of(np.array([(0.0, numerator, denominator)], METER)[0])

    assert of(48, 32) == (24, 4)
    assert of(12, 64) == (6, 5)
    assert of(255, 4) == of(3, 64) == of(0, 4) == (4, 2)


def test_a_meter_that_begins_where_the_music_ends_is_that_of_the_next_bar():
    """In every tempo, though both are times in seconds."""
    for bpm in range(40, 241):
        for bars in (1, 2, 5):
            end = bars * 3 * (60 / bpm)
            score = Score(tempos=[(0.0, bpm)], meters=[(0.0, 3, 4), (bars * 180 / bpm, 5, 4)])
            lines = Bars(score, end).lines.tolist()
            assert lines[bars : bars + 2] == [bars * 72, bars * 72 + 120]
