"""Playing together, by a clock that moves when somebody sleeps or works."""

import mido
import pytest

from musictx.live.jam import jam
from tests.live.test_player import Composer, Recorder, Time, scale


class Person:
    """A port at which messages arrive at their moments, and which closes after the last."""

    def __init__(self, time, *moments):
        begin = time.at
        self._time, self._moments = time, [(begin + at, message) for at, message in moments]

    @property
    def closed(self):
        return not self._moments

    def iter_pending(self):
        while self._moments and self._moments[0][0] <= self._time.now():
            yield self._moments.pop(0)[1]


class Answer(Composer):
    """An answer of so many notes, a quarter of a second each, that takes a second to compose."""

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


def control(at):
    return at, mido.Message("control_change", control=64, value=127)


END = (30.0, mido.Message("clock"))


def jammed(*moments, notes=1, pause=1.5):
    """Answers, the primers they were composed from, and (seconds since the start, message)."""
    time, primers = Time(), []
    begin, port = time.at, Recorder(time)
    compose = lambda score, _: Answer(time, score, primers, notes)  # noqa: E731
    person = Person(time, *moments, END)
    count = jam(person, port, compose, clock=time, pause=pause, control=64, say=str)
    assert port.left_on() == set()
    return count, primers, [(at - begin, message) for at, message in port.sent]


def test_it_answers_a_pause_and_stops_when_one_plays_again():
    count, primers, sent = jammed(on(0, 60), off(0.3, 60), on(3.0, 72), off(3.2, 72), notes=40)
    assert count == 2
    begins = [at for at, message in sent if message.type == "note_on"]
    assert begins[0] == pytest.approx(0.3 + 1.5, abs=0.3)
    assert not any(3.1 < at < 4.5 for at in begins), "silent while the person plays"
    assert primers[0] == [60]
    assert primers[1][0] == 60
    assert 72 in primers[1]
    assert len(primers[1]) > 3, "the first answer is remembered too"


def test_a_controller_calls_for_an_answer_at_once_but_not_to_nothing():
    note = on(1.0, 60), off(1.1, 60)
    count, _, sent = jammed(control(0.0), *note, pause=10)
    assert count == 1
    assert sent[0][0] >= 1.1 + 10
    count, _, sent = jammed(*note, control(1.2), pause=10)
    assert count == 1
    assert sent[0][0] < 3


def test_what_is_played_while_an_answer_is_composed_comes_before_it():
    count, primers, _ = jammed(on(0.0, 60), off(0.1, 60), on(0.6, 62), off(0.7, 62))
    assert count == 1
    assert primers[0] == [60, 62]
