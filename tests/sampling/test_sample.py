"""A piece that was written and what is said of it."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from musictx.notes import Score
from musictx.sampling import sample


@pytest.mark.parametrize("ended", get_args(sample.Ended))
def test_a_piece_without_new_notes_is_remarked_on_however_it_ended(ended):
    """``harmonise`` ends its pieces with their melody; without a new note that was a KeyError."""
    ids = np.zeros(3, np.uint16)
    piece = sample.Sample(Score(), seam=0.0, ids=ids, notes=0, seconds=2.0, ended=ended)
    assert piece.remark
    assert ended == "interrupted" or piece.remark.startswith("no new notes: ")
