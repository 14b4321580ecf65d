"""Which requests the studio answers, by their headers, and the headers of every answer."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from yarl import URL

from musictx.errors import UserError, WriteError
from musictx.studio.guard import HEADERS, Guard
from tests.studio.studios import new_piece, send

#: Host headers ({}: the port) that name a studio that listens on 192.168.7.7, and others.
OWN = "127.0.0.1:{} localhost:{} [::1]:{} 192.168.7.7:{}"
OTHERS = """127.0.0.1 localhost:{}0 evil.example:{} localhost.evil.example:{}
evil.example:{}@localhost:{} 10.0.0.1:{} 0.0.0.0:{}"""
EVIL = "https://evil.example"
#: Headers of a POST ({}: the host of the studio), and whether it is allowed.
SENDERS = [
    ({"X-Musictx": "1"}, True),
    ({"Origin": "http://{}"}, True),
    ({"Sec-Fetch-Site": "same-origin"}, True),
    ({}, False),
    ({"Origin": EVIL}, False),
    ({"Origin": EVIL, "X-Musictx": "1"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": "http://{}.evil.example"}, False),
    ({"Sec-Fetch-Site": "cross-site"}, False),
    ({"Sec-Fetch-Site": "same-site", "X-Musictx": "1"}, False),
    ({"Origin": "http://{}", "Sec-Fetch-Site": "cross-site"}, False),
]

pytestmark = pytest.mark.anyio


async def with_headers(client, method, path, headers) -> int:
    """Return the status of a request with exactly these headers."""
    client.session.headers.clear()
    async with client.request(method, path, headers=headers, data=b"") as answer:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (method, path)
        assert "Access-Control-Allow-Origin" not in answer.headers
        if answer.status >= 400 and method != "HEAD":
            assert set(await answer.json()) == {"error"}
        return answer.status


@pytest.mark.parametrize("client", [{"host": "192.168.7.7"}], indirect=True)
async def test_only_requests_to_the_names_of_the_studio_are_answered(client):
    for host in (*OWN.split(), *OTHERS.split(), ""):
        allowed = host in OWN.split()
        headers = {"Host": host.format(*[client.port] * 2)}
        for path in ("/", "/page/index.html", "/api/sessions"):
            status = await with_headers(client, "GET", path, headers)
            assert (status == 200) == allowed, (host, path)
            assert allowed or status in (400, 421), host


async def test_only_the_page_of_the_studio_may_change_anything(client):
    session = (await new_piece(client))["id"]
    host = f"127.0.0.1:{client.port}"
    for headers, allowed in SENDERS:
        headers = {name: value.format(host) for name, value in headers.items()}
        for method, path in (
            ("POST", "/api/sessions"),
            ("POST", f"/api/sessions/{session}/takes/1/accept"),
            ("DELETE", f"/api/sessions/{session}/takes/1"),
            ("PUT", f"/api/sessions/{session}"),
            ("OPTIONS", "/api/sessions"),
        ):
            status = await with_headers(client, method, path, headers)
            assert (status != 403) == allowed, (headers, method)
        for site, path, expected in (
            ("cross-site", "/", 200),  # a link to the page
            ("cross-site", "/api/sessions", 403),
            ("same-site", f"/api/sessions/{session}/export/x.mid", 403),
            ("none", "/api/sessions", 200),  # typed into the browser
        ):
            assert await with_headers(client, "GET", path, {"Sec-Fetch-Site": site}) == expected
        for origin, expected in ((f"http://{host}", 200), (EVIL, 403)):  # without Sec-Fetch-Site
            status = await with_headers(client, "GET", "/api/sessions", {"Origin": origin})
            assert status == expected


def test_a_studio_on_all_addresses_answers_to_addresses_but_not_to_names():
    guard = Guard("0.0.0.0")
    assert guard.is_own_host("192.168.1.5:7870", 7870)
    assert guard.is_own_host("[fe80::1]:7870", 7870)
    assert not guard.is_own_host("studio.example:7870", 7870)
    assert Guard("localhost").is_own_host("localhost", 80)


MISSING_PATHS = """/page/%2e%2e/app.py /page/..%2f..%2fbundle.py /page//etc/passwd /page/
/page/../app.py /etc/passwd /api/sessions/..%2f..%2fetc /api/sessions/deleted /api/sessions/.lock
/api/sessions/x/export/x.py /api/none"""


async def test_no_other_file_of_the_machine_is_served(client, tmp_path):
    (tmp_path / "deleted").mkdir()
    for path in MISSING_PATHS.split():
        url = URL(f"http://127.0.0.1:{client.port}{path}", encoded=True)
        async with client.session.get(url) as answer:
            assert answer.status in (403, 404), path
            assert set(await answer.json()) == {"error"}


async def test_no_answer_names_a_folder_of_the_machine(client, tmp_path, monkeypatch, capsys):
    home = str(Path.home())
    errors = {
        WriteError(f"{tmp_path}/20261122-x/piece.sqlite: No space left on device"): 507,
        UserError(f"{home}/models/x: 4/4 of {tmp_path} missing, a model/folder"): 400,
        OSError(13, "Permission denied", f"{home}/secret"): 500,
    }
    for error, status in errors.items():
        monkeypatch.setattr(client.composer.models, "json", Mock(side_effect=error))
        sentence = (await send(client, "GET", "/api/models", status))["error"]
        assert str(tmp_path) not in sentence
        assert home not in sentence
        if status == 400:
            assert sentence == f"x: 4/4 of {tmp_path.name} missing, a model/folder"
        if status == 507:
            assert sentence == "piece.sqlite: No space left on device"
    assert "Permission denied" in capsys.readouterr().err  # the terminal shows the whole error
