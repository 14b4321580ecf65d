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


def test_controllers_are_those_of_the_parts_that_they_move():
    """Volume of the second part stands in another track; seconds at 120 quarters a minute."""
    assert controllers(moving_controllers()) == {
        (0, 7): [(pytest.approx(10 / 960), 70), (1.0, 99)],
        (0, 1): [(pytest.approx(10 / 960), 5)],
        (1, 7): [(0.0, 90), (1.0, 50)],
    }


def test_controllers_at_the_beginning_take_the_place_of_what_stood_there():
    data = moving_controllers()
    score = midi.read(data)
    again = beginning(data, {0: {7: 33, 91: 60}})
    found = controllers(again)
    assert [value for _, value in found[0, 7]] == [33, 99]  # what comes later stays
    assert found[0, 7][0][0] == 0
    assert found[0, 91] == [(0.0, 60)]
    assert found[0, 1] == controllers(data)[0, 1]
    assert found[1, 7] == controllers(data)[1, 7]
    assert midi.read(again) == score
    assert beginning(data, {}) == data
