"""Playing together over mido's sockets, by a clock that runs faster than the real one."""

import time as real
from threading import Thread

import mido
import numpy as np
import pytest

from musictx.live import ports
from musictx.live.jam import Listener, jam
from musictx.sampling.primer import encode_primer
from musictx.sampling.stream import Stream
from musictx.tokens.build import build
from tests.live.test_player import Composer, Recorder, Time, scale
from tests.sampling.pieces import make


class Fast:
    """Ten seconds of music in one."""

    @staticmethod
    def now():
        return 10 * real.monotonic()

    @staticmethod
    def sleep(seconds):
        real.sleep(seconds / 10)


def port_pair():
    """A port and the other end of it."""
    server = mido.sockets.PortServer("127.0.0.1", 0)
    port = ports.open_input(f"socket:127.0.0.1:{server._socket.getsockname()[1]}")
    there = server.accept()
    server.close()
    return port, there


def hang_up(port):
    """As a program that ends does; mido's own ``close`` leaves the line open."""
    port._rfile.close()
    port._wfile.close()
    port.close()


@pytest.fixture
def room():
    """A person's keyboard, what they hear, what was composed from, and the thread that jams."""
    piano = build(name="performance", low=48, high=84, velocity_bins=4)
    model = make(piano, context=64)
    source, keyboard = port_pair()
    output, loudspeaker = port_pair()
    heard, said = [], []

    def compose(score, number):
        heard.append(score)
        return Stream(model, piano, encode_primer(piano, score), seed=[0, number], seconds=30.0)

    def go():
        options = {"clock": Fast, "pause": 1.0, "control": 64, "say": said.append}
        said.append(jam(source, output, compose, **options))

    thread = Thread(target=go)
    thread.start()
    yield keyboard, loudspeaker, heard, said
    hang_up(keyboard)
    thread.join(20)
    assert not thread.is_alive()
    source.close()
    output.close()
    hang_up(loudspeaker)


def strike(keyboard, *pitches):
    for pitch in pitches:
        keyboard.send(mido.Message("note_on", note=pitch, velocity=70))
        Fast.sleep(0.3)
        keyboard.send(mido.Message("note_off", note=pitch))


def received(loudspeaker, seconds, until=1):
    """Messages that come in so many seconds, or until so many notes have come."""
    found, end = [], real.monotonic() + seconds
    while real.monotonic() < end:
        found += list(loudspeaker.iter_pending())
        if sum(m.type == "note_on" for m in found) >= until:
            break
        real.sleep(0.01)
    return found


def test_it_answers_a_pause_and_stops_when_one_plays_again(room):
    keyboard, loudspeaker, heard, _ = room
    strike(keyboard, 60, 64, 67)
    assert [m for m in received(loudspeaker, 10, until=3) if m.type == "note_on"]
    assert heard[-1].notes["pitch"].tolist() == [60, 64, 67]
    keyboard.send(mido.Message("note_on", note=72, velocity=70))
    rest, deadline = [], real.monotonic() + 10
    while not any(m.type == "control_change" for m in rest) and real.monotonic() < deadline:
        rest += list(loudspeaker.iter_pending())
        real.sleep(0.01)
    assert any(m.type == "control_change" for m in rest)  # silence
    keyboard.send(mido.Message("note_off", note=72))
    received(loudspeaker, 10)
    answered = heard[-1].notes["pitch"].tolist()
    assert answered[:3] == [60, 64, 67]
    assert len(answered) > 4  # the first answer is remembered too
    assert 72 in answered


def test_a_controller_calls_for_the_answer_at_once(room):
    keyboard, loudspeaker, heard, _ = room
    strike(keyboard, 62)
    keyboard.send(mido.Message("control_change", control=64, value=127))
    assert received(loudspeaker, 10)
    assert len(heard) == 1


def test_the_listener_tells_times_from_0_and_forgets():
    listener = Listener(memory=10.0)
    listener.note(100.0, True, 60, 70)
    assert listener.playing
    listener.note(101.0, True, 60, 0)
    listener.note(101.5, False, 64, 50)
    assert not listener.playing
    listener.hush(102.0)
    score = listener.score()
    assert score.notes["start"].tolist() == [0.0, 1.5]
    assert np.allclose(score.notes["end"], [1.0, 2.0])
    listener.note(111.5, True, 67, 70)
    listener.note(112.5, True, 67, 0)
    assert listener.score().notes["pitch"].tolist() == [67]
    assert listener.count == 2


class Person:
    """A port at which messages arrive at their moments, and which closes after the last."""

    def __init__(self, time, *moments):
        self._time, self._moments = time, list(moments)

    @property
    def closed(self):
        return not self._moments

    def iter_pending(self):
        while self._moments and self._moments[0][0] <= self._time.now():
            yield self._moments.pop(0)[1]


class Slow(Composer):
    """An answer of one note that takes a second to compose."""

    def __init__(self, time, score, played):
        super().__init__(time, scale(1))
        self._score, self._played = score, played

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def prepare(self):
        self._time.sleep(1.0)

    def __next__(self):
        self._played.append(self._score.notes["pitch"].tolist())
        return super().__next__()


def test_a_call_for_an_answer_to_nothing_is_forgotten():
    time, played = Time(), []
    begin, port = time.at, Recorder(time)
    call = mido.Message("control_change", control=64, value=127)
    person = Person(
        time,
        (begin, call),
        (begin + 1.0, mido.Message("note_on", note=60)),
        (begin + 1.1, mido.Message("note_off", note=60)),
        (begin + 30.0, mido.Message("clock")),
    )
    composed = lambda score, _: Slow(time, score, played)  # noqa: E731
    assert jam(person, port, composed, clock=time, pause=1.5, control=64, say=str) == 1
    assert port.sent[0][0] >= begin + 1.1 + 1.5


def test_what_is_played_while_an_answer_is_composed_is_heard_before_it():
    """However short: a note that began and ended meanwhile puts the answer off too."""
    time, played = Time(), []

    def at(seconds, kind, note):
        return time.at + seconds, mido.Message(kind, note=note)

    person = Person(
        time,
        at(0.0, "note_on", 60),
        at(0.1, "note_off", 60),
        at(0.6, "note_on", 62),
        at(0.7, "note_off", 62),
        (time.at + 30.0, mido.Message("clock")),
    )
    answers = jam(
        person, Recorder(time), lambda score, _: Slow(time, score, played), clock=time, say=str
    )
    assert answers == 1
    assert played[0] == [60, 62]
