"""Messages are played at their times by a simulated clock, and errors leave no note on."""

import socket
import struct
from unittest.mock import Mock

import mido
import pytest

from musictx import cli, formats
from musictx.errors import UserError, WriteError
from musictx.live import ports
from musictx.live.player import ALL_NOTES_OFF, DRUM_CHANNEL, LATE_SECONDS, play
from musictx.notes import DRUMS
from musictx.sampling.stream import Event
from tests.browser.served import wait_for


class Composer:
    """Events that take ``cost`` seconds each to compose."""

    def __init__(self, time, events, cost=0.0):
        self._time, self._events, self._cost = time, iter(events), cost
        self.closed = False

    def __iter__(self):
        return self

    def __next__(self):
        self._time.at += self._cost
        return next(self._events)

    def close(self):
        self.closed = True


class Recorder:
    """A port that records (time, message) and raises ``error`` at message number ``fail_at``."""

    def __init__(self, time, fail_at=None, error=KeyboardInterrupt):
        self._time, self._fail_at, self._error = time, fail_at, error
        self.sent = []

    def send(self, message):
        self.sent.append((self._time.monotonic(), message))
        if len(self.sent) == self._fail_at:
            raise self._error

    def left_on(self):
        sounding = set()
        for _, message in self.sent:
            if message.type == "note_on":
                sounding.add((message.channel, message.note))
            elif message.type == "note_off":
                sounding.discard((message.channel, message.note))
        return sounding


def scale(count, every=0.25, begin=0.0):
    return [
        Event(begin + i * every + (0.0 if on else 0.2), on, 60 + i % 12, 80 * on)
        for i in range(count)
        for on in (True, False)
    ]


def notes(port):
    return [(at, m) for at, m in port.sent if m.type in ("note_on", "note_off")]


@pytest.mark.parametrize("begin", [0.0, 5.0])
def test_each_message_is_sent_at_its_time_from_the_first_note_on(time, begin):
    port, events = Recorder(time), scale(40, begin=begin)
    composer = Composer(time, events, cost=0.02)
    report = play(composer, port, look_ahead=1.0)
    sent = notes(port)
    start = sent[0][0] - begin
    for (at, message), event in zip(sent, events, strict=True):
        assert at - start == pytest.approx(event.seconds, abs=LATE_SECONDS)
        assert (message.type == "note_on", message.note) == (event.on, event.pitch)
    assert (report.notes, report.late) == (40, 0)
    assert composer.closed
    assert port.sent[-1][1].control == ALL_NOTES_OFF


def test_late_messages_are_counted_and_those_after_them_delayed(time):
    port, events = Recorder(time), scale(120)
    report = play(Composer(time, events, cost=0.25), port, look_ahead=2.0)  # twice too slow
    assert 0 < report.late < len(events)
    steps = [b - a for (a, _), (b, _) in zip(notes(port), notes(port)[1:])]
    assert max(steps) < 0.3, "no message waits for more than its own delay"


def test_every_note_has_its_program_although_many_programs_share_a_channel(time):
    events = []
    for i, program in enumerate([*range(17), *range(17), DRUMS]):
        events += [Event(i * 0.25, True, 60, 80, program), Event(i * 0.25, False, 60, 0, program)]
    port, current, played = Recorder(time), {}, []
    play(Composer(time, events), port, programs=True)
    for _, message in port.sent:
        if message.type == "program_change":
            current[message.channel] = message.program
        elif message.type == "note_on":
            played.append(DRUMS if message.channel == DRUM_CHANNEL else current[message.channel])
    changes = [message.program for _, message in port.sent if message.type == "program_change"]
    assert changes[:17] == list(range(17)), "once each while they last"
    assert played == [event.track for event in events if event.on]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, RuntimeError])
@pytest.mark.parametrize("fail_at", [1, 2, 7])
def test_no_note_is_left_on_after_an_error_even_if_its_end_was_not_sent(error, fail_at, time):
    port, composer = Recorder(time, fail_at, error), Composer(time, scale(10))
    with pytest.raises(error):
        play(composer, port, look_ahead=0.2)
    assert port.left_on() == set()
    failed = port.sent[fail_at - 1][1].note
    assert ("note_off", failed) in [(m.type, m.note) for _, m in notes(port)[fail_at:]]
    assert composer.closed


def test_a_socket_sends_and_receives_until_the_other_end_closes_or_is_reset():
    server = mido.sockets.PortServer("127.0.0.1", 0)
    name = f"socket:127.0.0.1:{server._socket.getsockname()[1]}"
    port = ports.open_port("output", name)
    receiver = server.accept()
    report = play(Composer(Mock(at=0.0), scale(3, every=0.01)), port, look_ahead=0.2)
    types = [message.type for message in receiver.iter_pending()]
    assert types.count("note_on") == types.count("note_off") == report.notes == 3
    source = ports.open_port("input", name)
    keyboard = server.accept()
    keyboard.send(mido.Message("note_on", note=60))
    assert wait_for(lambda: list(source.iter_pending()))[0].note == 60
    keyboard._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for end in (receiver, keyboard):
        for stream in (end._rfile, end._wfile, end):
            stream.close()
    server.close()
    assert wait_for(lambda: not [*source.iter_pending()] and source.closed)
    with pytest.raises(WriteError, match="output: the program at the other end has hung up"):
        play(Composer(Mock(at=0.0), scale(40, every=0.01)), port, look_ahead=0.1)
    port.close()


def test_a_file_has_the_times_of_the_clock(tmp_path, time):
    path = tmp_path / "take.mid"
    port = ports.open_port("output", str(path))
    play(Composer(time, scale(8)), port)
    port.close()
    starts = formats.read(path).notes["start"].tolist()
    assert starts == pytest.approx([0.25 * i for i in range(8)], abs=0.011)
    before = path.read_bytes()
    ports.open_port("output", str(path)).close()
    assert path.read_bytes() == before, "it is not replaced where nothing was played"


def test_errors_of_ports_name_a_remedy(monkeypatch):
    missing, broken = ModuleNotFoundError("rtmidi"), RuntimeError("error creating ALSA client")
    monkeypatch.setattr(mido, "get_output_names", Mock(side_effect=missing))
    with pytest.raises(UserError, match=r"pip install 'musictx\[live\]'"):
        ports.open_port("output", None)
    monkeypatch.setattr(mido, "get_input_names", Mock(side_effect=broken))
    with pytest.raises(UserError, match=r"^input: .*ALSA"):
        ports.open_port("input", None)
    monkeypatch.setattr(mido, "get_input_names", lambda: ["Keystation 49"])
    monkeypatch.setattr(mido, "open_input", lambda name: f"<{name}>")
    assert ports.open_port("input", "keystation") == "<Keystation 49>"
    wrong = {"Organ": "Keystation 49", "socket:127.0.0.1:1": "of a program that listens"}
    for address in ("9080", "localhost:99999", "localhost:\u0661"):
        wrong[f"socket:{address}"] = "expected socket:HOST:PORT"
    for name, words in wrong.items():
        with pytest.raises(UserError, match=words):
            ports.open_port("input", name)


def test_the_command_plays_into_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["play", "model=chorale", "seconds=1", "seed=3", "output=take.mid"]) == 0
    assert len(formats.read(tmp_path / "take.mid")) > 0
    assert "notes in" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["play", "jam"])
def test_an_unplayable_model_is_refused_and_another_named(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mido, "get_input_names", lambda: ["Keystation 49"])
    monkeypatch.setattr(mido, "open_input", lambda name: Mock(closed=True))
    assert cli.main([command, "model=song", "seed=3", "output=take.mid"]) == 2
    assert "model=piano" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
