"""``musictx studio`` as a process: killed, stopped, and its sentences."""

import contextlib
import http.client
import json
import re
import socket
import threading
import urllib.request

import pytest

from musictx.errors import UserError
from musictx.studio import program
from musictx.studio.config import StudioConfig
from tests.browser.served import Served, wait_for

#: The program with a :class:`FakeComposer`; the page is there before torch is.
SERVER = """
import sys
from musictx.studio import app
from musictx.studio.config import StudioConfig
from musictx.studio.program import run
from tests.studio.studios import FakeComposer
app.Composer = FakeComposer
assert "torch" not in sys.modules, "the composer's thread imports it"
run(StudioConfig(folder=sys.argv[1].removeprefix("folder="), port=0, browser=False))
"""


def send(address, path, body=None):
    data = None if body is None else json.dumps(body).encode() if body else b""
    request = urllib.request.Request(address + path, data, {"X-Musictx": "1"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_a_killed_studio_loses_no_acknowledged_operation_and_a_stopped_one_ends_cleanly(tmp_path):
    acknowledged = [6]
    served = Served(tmp_path, program=("-c", SERVER))
    try:
        address = served.start().url + "/"
        path = "api/sessions/" + send(address, "api/sessions?example=ode_to_joy", "")["id"]
        for revision in range(5):
            change = {"revision": revision, "remove": [revision], "lock": [40 + revision]}
            send(address, f"{path}/ops", change)
        send(address, f"{path}/undo", {"revision": 5})
        before = send(address, path)

        def add_notes():
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                for revision in range(6, 10**6):
                    note = [56 + revision, 0, 1, 60, 80, before["tracks"][0]["id"]]
                    send(address, f"{path}/ops", {"revision": revision, "add": [note]})
                    acknowledged.append(revision + 1)

        client = threading.Thread(target=add_notes)
        client.start()
        wait_for(lambda: len(acknowledged) >= 20)
        served.kill()
        client.join(20)
        served.url = ""  # any port
        address = served.start().url + "/"
        after = send(address, path)
        assert after["revision"] - acknowledged[-1] in (0, 1)  # the last answer may be missing
        new = [note[0] for note in after["notes"] if note[0] >= 62]
        assert new == [*range(62, 56 + after["revision"])]
        for revision in range(after["revision"], after["revision"] + len(new)):
            undone = send(address, f"{path}/undo", {"revision": revision})
        assert (undone["notes"], undone["locked"]) == (before["notes"], before["locked"])
        with urllib.request.urlopen(address + f"{path}/events", timeout=10) as stream:
            assert stream.readline() == b"event: takes\n"
            with pytest.raises(UserError, match="is a studio with this folder"):
                program.run(StudioConfig(folder=str(tmp_path), port=0, browser=False))
            assert served.stop() == 0
        line = r"the studio is at http://127\.0\.0\.1:\d+/ \(Ctrl-C ends\)"
        assert re.fullmatch(line, served.lines[-1])  # nothing else is printed
    finally:
        served.stop()
    assert not (tmp_path / ".lock").exists()


def test_a_taken_port_and_a_foreign_address_get_a_sentence(tmp_path):
    def run(**options):
        program.run(StudioConfig(folder=str(tmp_path / "s"), browser=False, **options))

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port={port}: .*address already in use"):
            run(port=port)
    with pytest.raises(UserError, match=r"host=192\.0\.2\.1 port=0: .*(cannot assign|not bind)"):
        run(host="192.0.2.1", port=0)
    assert list(tmp_path.iterdir()) == []
