"""Controllers of the parts of a file, as mido plays them."""

from __future__ import annotations

import mido
import pytest

from musictx import midi
from musictx.studio.controllers import beginning, controllers
from tests.midi.midi_bytes import saved


def moving_controllers() -> bytes:
    """Two parts: the second's volume stands in a track without notes, at first and later."""
    cc = lambda **more: mido.Message("control_change", **more)  # noqa: E731
    note = lambda kind, **more: mido.Message(kind, note=60, **more)  # noqa: E731
    volumes = [(0, cc(channel=1, control=7, value=90)), (960, cc(channel=1, control=7, value=50))]
    first = [
        (10, cc(channel=0, control=7, value=70)),
        (10, cc(channel=0, control=1, value=5)),
        (480, note("note_on", channel=0)),
        (960, note("note_off", channel=0)),
        (960, cc(channel=0, control=7, value=99)),
    ]
    return saved(
        volumes, first, [(0, note("note_on", channel=1)), (480, note("note_off", channel=1))]
    )


def test_controllers_are_those_of_the_parts_that_they_move_and_the_first_can_be_set():
    """Volume of the second part stands in another track; seconds at 120 quarters a minute."""
    data = moving_controllers()
    expected = {
        (0, 7): [(pytest.approx(10 / 960), 70), (1.0, 99)],
        (0, 1): [(pytest.approx(10 / 960), 5)],
        (1, 7): [(0.0, 90), (1.0, 50)],
    }
    assert controllers(data) == expected
    again = beginning(data, {0: {7: 33, 91: 60}})
    set_anew = {(0, 7): [(0.0, 33), (1.0, 99)], (0, 91): [(0.0, 60)]}
    assert controllers(again) == expected | set_anew  # what comes later stays
    assert midi.read(again) == midi.read(data)
    assert beginning(data, {}) == data
