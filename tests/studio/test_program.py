"""``musictx studio`` as a process: its address, its sentences, killed and stopped."""

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

#: The program without torch: what composes is the tests' own.
SERVER = """
import sys, types
from tests.studio.studios import FakeComposer
composer = types.ModuleType("musictx.studio.composer")
composer.Composer = FakeComposer
sys.modules["musictx.studio.composer"] = composer
from musictx.studio.config import StudioConfig
from musictx.studio.program import run
run(StudioConfig(folder=sys.argv[1].removeprefix("folder="), port=0, browser=False))
"""


def ask(address, path, body=None):
    data = None if body is None else json.dumps(body).encode() if body else b""
    request = urllib.request.Request(address + path, data, {"X-Musictx": "1"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_killed_among_operations_nothing_acknowledged_is_lost_and_it_stops_when_told(tmp_path):
    acknowledged = [6]
    served = Served(tmp_path, program=("-c", SERVER))
    try:
        address = served.start().url + "/"
        path = "api/sessions/" + ask(address, "api/sessions?example=ode_to_joy", "")["id"]
        for revision in range(5):
            change = {"revision": revision, "remove": [revision], "lock": [40 + revision]}
            ask(address, f"{path}/ops", change)
        ask(address, f"{path}/undo", {"revision": 5})
        before = ask(address, path)

        def work():
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                for revision in range(6, 10**6):
                    note = [56 + revision, 0, 1, 60, 80, before["tracks"][0]["id"]]
                    ask(address, f"{path}/ops", {"revision": revision, "add": [note]})
                    acknowledged.append(revision + 1)

        person = threading.Thread(target=work)
        person.start()
        wait_for(lambda: len(acknowledged) >= 20)
        served.kill()
        person.join(20)
        served.url = ""  # any port
        address = served.start().url + "/"
        after = ask(address, path)
        assert after["revision"] - acknowledged[-1] in (0, 1)  # killed before it could tell
        new = [note[0] for note in after["notes"] if note[0] >= 62]
        assert new == [*range(62, 56 + after["revision"])]
        for revision in range(after["revision"], after["revision"] + len(new)):
            undone = ask(address, f"{path}/undo", {"revision": revision})
        assert (undone["notes"], undone["locked"]) == (before["notes"], before["locked"])
        with urllib.request.urlopen(address + f"{path}/events", timeout=10) as stream:
            assert stream.readline() == b"event: takes\n"
            with pytest.raises(UserError, match="is a studio with this folder"):
                program.run(StudioConfig(folder=str(tmp_path), port=0, browser=False))
            assert served.stop() == 0
        told = r"the studio is at http://127\.0\.0\.1:\d+/ \(Ctrl-C ends\)"
        assert re.fullmatch(told, served.lines[-1])  # nothing is said at the end
    finally:
        served.stop()
    assert not (tmp_path / ".lock").exists()


def test_a_port_that_is_taken_and_an_address_that_is_none_are_said(tmp_path):
    def run(**options):
        program.run(StudioConfig(folder=str(tmp_path / "s"), browser=False, **options))

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port={port}: another program listens there"):
            run(port=port)
    with pytest.raises(UserError, match=r"host=192\.0\.2\.1: this machine has no such address"):
        run(host="192.0.2.1", port=0)
    assert list(tmp_path.iterdir()) == []
