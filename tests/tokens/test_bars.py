"""Bars in steps: which meters can be written."""

import numpy as np

from musictx.notes import METER
from musictx.tokens.bars import Meter


def test_meters_that_cannot_be_written_are_reduced_or_common_time():
    def of(numerator, denominator):
        return Meter.of(np.array([(0.0, numerator, denominator)], METER)[0])

    assert of(48, 32) == (24, 4)
    assert of(12, 64) == (6, 5)
    assert of(255, 4) == of(3, 64) == of(0, 4) == (4, 2)
