"""A duet of a person and a model, with a clock that moves only by sleeping and composing."""

import mido
import pytest

from musictx.live.config import JamConfig
from musictx.live.jam import jam
from tests.live.test_player import Composer, Recorder, scale


class Person:
    """An input port, at which messages arrive at their times; it closes after the last one."""

    def __init__(self, time, *moments):
        begin = time.at
        self._time, self._moments = time, [(begin + second, message) for second, message in moments]

    @property
    def closed(self):
        return not self._moments

    def iter_pending(self):
        while self._moments and self._moments[0][0] <= self._time.monotonic():
            yield self._moments.pop(0)[1]


class Answer(Composer):
    """An answer of ``notes`` notes of a quarter of a second each; preparing takes a second."""

    def __init__(self, time, score, primers, notes):
        super().__init__(time, scale(notes))
        self._primer, self._primers = score.notes["pitch"].tolist(), primers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def prepare(self):
        self._time.sleep(1.0)

    def __next__(self):
        if self._primers[-1:] != [self._primer]:
            self._primers.append(self._primer)
        return super().__next__()


def on(at, pitch):
    return at, mido.Message("note_on", note=pitch)


def off(at, pitch):
    return at, mido.Message("note_off", note=pitch)


CONTROL = mido.Message("control_change", control=64, value=127)
END = (30.0, mido.Message("clock"))


def jammed(time, *moments, notes=1, pause=1.5):
    """Return the number of answers, their primers and (seconds since the start, message)."""
    primers = []
    begin, port = time.at, Recorder(time)
    compose = lambda score, _: Answer(time, score, primers, notes)  # noqa: E731
    person = Person(time, *moments, END)
    count = jam(person, port, compose, JamConfig(pause=pause, control=64))
    assert port.left_on() == set()
    return count, primers, [(at - begin, message) for at, message in port.sent]


def test_an_answer_follows_a_pause_and_stops_when_the_person_plays(time):
    played = on(0, 60), off(0.3, 60), on(3.0, 72), off(3.2, 72)
    count, primers, sent = jammed(time, *played, notes=40)
    assert count == 2
    begins = [at for at, message in sent if message.type == "note_on"]
    assert begins[0] == pytest.approx(0.3 + 1.5, abs=0.3)
    assert not any(3.1 < at < 4.5 for at in begins), "silent while the person plays"
    assert primers[0] == [60]
    assert primers[1][0] == 60
    assert 72 in primers[1]
    assert len(primers[1]) > 3, "the first answer is remembered too"


def test_a_controller_requests_an_answer_at_once_if_there_are_notes(time):
    note = on(1.0, 60), off(1.1, 60)
    for moments, is_early in (([(0.0, CONTROL), *note], False), ([*note, (1.2, CONTROL)], True)):
        count, _, sent = jammed(time, *moments, pause=10)
        assert count == 1
        assert sent[0][0] < 3 if is_early else sent[0][0] >= 1.1 + 10


def test_notes_played_while_an_answer_is_composed_are_part_of_its_primer(time):
    count, primers, _ = jammed(time, on(0.0, 60), off(0.1, 60), on(0.6, 62), off(0.7, 62))
    assert count == 1
    assert primers[0] == [60, 62]
