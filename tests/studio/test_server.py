"""The routes, as a page uses them, over a real socket."""

import asyncio
import importlib
import io
import json
import re
from unittest.mock import patch
from urllib.parse import quote

import mido
import pytest
from yarl import URL

from musictx import formats, musicxml, shipped
from musictx.studio.config import StudioLimits
from musictx.studio.session import Session
from tests import pieces
from tests.midi.midi_bytes import messages, saved
from tests.studio.studios import ODE, new_piece, send, studio_client, take

pytestmark = pytest.mark.anyio


async def test_a_piece_is_imported_changed_undone_listed_and_deleted(tmp_path):
    async with studio_client(tmp_path) as client:
        first = await new_piece(client, ODE, name="C:\\songs\\Ode to Joy.MID")
        assert (first["name"], first["revision"], len(first["notes"])) == ("Ode to Joy", 0, 62)
        assert first["id"].split("-", 1)[1].startswith("ode-to-joy-")
        assert first["takes"] == []
        path = f"/api/sessions/{first['id']}"
        move = {"revision": 0, "label": "x", "remove": [0], "add": [[62, 40, 45, 60, 80, 0]]}
        answer = await send(client, "POST", f"{path}/ops", json=move)
        changed = await send(client, "GET", path)
        assert {name: changed[name] for name in answer} == answer
        assert (answer["revision"], answer["next_id"], answer["duration"]) == (1, 63, 45)
        assert [0.0, 0.6, 71, 80, 0] not in [note[1:] for note in changed["notes"]]
        conflict = await send(client, "POST", f"{path}/ops", 409, json=move)
        assert conflict["revision"] == 1
        for wrong in ({}, {"revision": "1"}):
            refused = await send(client, "POST", f"{path}/undo", 400, json=wrong)
            assert refused["error"].startswith("revision=")
        await send(client, "POST", f"{path}/undo", 409, json={"revision": 0})
        undone = await send(client, "POST", f"{path}/undo", json={"revision": 1})
        assert undone["notes"] == first["notes"]
        assert "takes" not in undone
        redone = await send(client, "POST", f"{path}/redo", json={"revision": 2})
        assert redone["notes"] == changed["notes"]
        await send(client, "POST", f"{path}/redo", 409, json={"revision": 3})  # nothing to redo
        await send(client, "POST", f"{path}/ops", json={"revision": 3, "name": "Ode, again"})

        second = await new_piece(client)
        assert (second["name"], second["notes"]) == ("untitled", [])
        third = await new_piece(client, example="mozart_k545")
        assert third["name"] == "mozart_k545"
        entries = await send(client, "GET", "/api/sessions")
        assert [entry["id"] for entry in entries] == [third["id"], second["id"], first["id"]]
        assert entries[2]["name"] == "Ode, again"
        assert (entries[2]["notes"], entries[2]["duration"]) == (62, 45)

        client.sessions.get(second["id"]).takes[1] = take(1, [], state="composing")
        await send(client, "DELETE", f"/api/sessions/{second['id']}", 204)
        (deleted, number), _ = client.composer.cancel.call_args
        assert (deleted.id, number) == (second["id"], 1)
        await send(client, "GET", f"/api/sessions/{second['id']}", 404)
        assert (tmp_path / "deleted" / second["id"] / "piece.sqlite").is_file()
        assert len(await send(client, "GET", "/api/sessions")) == 2
        await send(client, "POST", f"/api/sessions/{second['id']}/restore", 204)
        await send(client, "POST", f"/api/sessions/{second['id']}/restore", 404)
        await send(client, "GET", f"/api/sessions/{second['id']}")
        assert await send(client, "GET", "/api/examples") == list(shipped.examples())
        assert (await send(client, "GET", "/api/models"))[0]["name"] == "piano"
    async with studio_client(tmp_path) as client:
        piece = await send(client, "GET", path)
        assert (piece["revision"], piece["notes"]) == (4, redone["notes"])
        assert piece["can_undo"]


MANY_NOTES = formats.to_bytes(pieces.line(*[60] * 1001, every=0.1))
#: (bytes of an upload, status and sentence of the response)
REFUSED = [
    (b"hello", 400, "not a MIDI file"),
    (ODE[:10], 400, "ends inside its header"),
    (formats.to_bytes(pieces.of((7299, 7300))), 400, "7300 seconds, more than limits.seconds=7200"),
    (b"M" * 16_000_001, 413, "larger than 16 MB"),
    (MANY_NOTES, 400, "1001 notes, more than limits.notes=1000"),
]


@pytest.mark.parametrize("client", [{"limits": StudioLimits(notes=1000)}], indirect=True)
async def test_a_file_that_is_no_music_or_too_large_gets_a_sentence(client, tmp_path):
    async def chunks(data):
        for i in range(0, len(data), 1 << 20):
            yield data[i : i + (1 << 20)]

    for data, status, sentence in REFUSED:
        for body in (io.BytesIO(data), chunks(data)):  # with and without a Content-Length
            async with client.post("/api/sessions?name=x.mid", data=body) as answer:
                assert answer.status == status
                error = (await answer.json())["error"]
            assert re.search(sentence, error)
            assert status == 413 or error.startswith('"x": ')
            assert str(tmp_path) not in error
            assert "\n" not in error
    assert await send(client, "GET", "/api/sessions") == []
    assert [path.name for path in tmp_path.iterdir()] == []
    assert len((await new_piece(client, chunks(ODE)))["notes"]) == 62


async def test_a_body_must_arrive_in_time(client, monkeypatch):
    monkeypatch.setattr("musictx.studio.app.BODY_SECONDS", 0.1)

    async def slow_body():
        yield b"MThd"
        await asyncio.sleep(0.4)
        yield b""

    async with client.post("/api/sessions", data=slow_body()) as answer:
        assert answer.status == 408
        assert "within 0.1 seconds" in (await answer.json())["error"]


HOSTILE_NAMES = ["../../etc/passwd", "..\\..\\x.mid", "a\0b\r\nSet-Cookie: x=1", "Стол 🎹", ".mid"]
HOSTILE_NAMES += ["<script>alert(1)</script>", "\u202egnp.exe", 'a"; filename="b.exe']


async def test_hostile_names_change_neither_paths_nor_headers(client, tmp_path):
    for name in HOSTILE_NAMES:
        session = await new_piece(client, ODE, name=name)
        assert session["name"].isprintable()
        assert 0 < len(session["name"]) <= 80
        assert "/" not in session["name"] or "script" in name
        path = f"/api/sessions/{session['id']}/export/"
        url = URL(f"http://127.0.0.1:{client.port}{path}{quote(name, '')}.mid", encoded=True)
        async with client.session.get(url) as answer:
            assert answer.status == 200
            assert "Set-Cookie" not in answer.headers
            assert answer.headers["Content-Disposition"] == "attachment"
            assert formats.read(await answer.read()).notes["pitch"].tolist()
    folders = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert len(folders) == len(HOSTILE_NAMES)
    assert all(name.isascii() and len(name) < 50 for name in folders)


async def test_exports_contain_the_piece_a_part_of_it_or_a_proposal(client, tmp_path):
    session = await new_piece(client, ODE)
    path = f"/api/sessions/{session['id']}"

    async def file(name, status=200, headers=None, **query):
        url = f"{path}/export/{name}"
        async with client.get(url, params=query, headers=headers) as answer:
            assert answer.status == status, await answer.text()
            return await answer.read(), answer.headers

    data, headers = await file("my tune.mid")
    assert formats.read(data) == formats.read(ODE)
    assert headers["Content-Type"] == "audio/midi"
    assert headers["Content-Disposition"] == "attachment"  # named by the address
    part = formats.read((await file("x.mid", begin="2.4", end="4.8"))[0])
    assert part.notes["pitch"].tolist() == [74, 72, 71, 69]
    assert part.notes["start"][0] == 0
    notes = musicxml.read((await file("x.musicxml"))[0]).notes
    assert notes["pitch"].tolist() == formats.read(ODE).notes["pitch"].tolist()
    picture, _ = await file("x.png", end="2.4")
    assert picture.startswith(b"\x89PNG")
    assert [p.stem for p in tmp_path.glob(".exports/*/*.png")] == [session["name"]]  # its heading
    sound, headers = await file("x.wav", end="0.6")
    assert sound.startswith(b"RIFF")
    part, part_headers = await file("x.wav", 206, {"Range": "bytes=4-11"}, end="0.6")
    assert part == sound[4:12]
    assert part_headers["ETag"] == headers["ETag"]  # the cached file

    takes = client.sessions.get(session["id"]).takes
    takes[5] = take(5, [(0, 1, 30, 80, 0)], removes=range(60))
    with_take, _ = await file("x.mid", take="5", proposal="1")
    assert formats.read(with_take).notes["pitch"].tolist()[:1] == [30]
    assert len(formats.read(with_take)) == 3
    assert formats.read((await file("x.mid"))[0]) == formats.read(ODE)

    await send(client, "POST", "/api/sessions?nmae=B", 400)
    for query, sentence in (
        ({"begin": "5", "end": "4"}, "begin=5 end=4: expected end > begin"),
        ({"end": "nan"}, "end='nan': expected a finite number"),
        ({"take": "five"}, "take='five': expected a valid integer"),
        ({"from": "1"}, "from='1': Unexpected keyword argument"),
    ):
        error, _ = await file("x.mid", 400, **query)
        assert sentence in json.loads(error)["error"]
    await file("x.mid", 404, take="6")
    chart = await new_piece(client, b"C  Am  F  G", name="my blues.cho")
    path = f"/api/sessions/{chart['id']}"
    sheet = musicxml.read((await file("x.musicxml"))[0])
    names = [text for _, text in sheet.markers][:4]
    assert (chart["name"], *names) == ("my blues", "C:maj", "A:min", "F:maj", "G:maj")
    assert len((await file("x.wav"))[0]) > 8 * 44_100 * 4  # four bars of 16 bits, stereo
    await file("x.png")


def two_programs() -> bytes:
    """Return a MIDI track with controllers, bends, release velocities and notes of two programs."""
    rows = []
    for tick, program in ((0, 48), (972, 45)):
        rows.append((tick, mido.Message("program_change", program=program)))
        rows.append((tick, mido.Message("control_change", control=1, value=70)))
        rows.append((tick + 12, mido.Message("pitchwheel", pitch=500)))
        for start, pitch in ((tick + 12, 60), (tick + 492, 64)):
            rows.append((start, mido.Message("note_on", note=pitch)))
            rows.append((start + 480, mido.Message("note_off", note=pitch, velocity=99)))
    return saved(rows)


async def test_an_unchanged_file_is_exported_byte_for_byte_and_losses_are_listed(client):
    """A damaged file too, which is opened with a remark."""
    data = two_programs()
    piece = await new_piece(client, data)
    path = f"/api/sessions/{piece['id']}"
    assert piece["remark"] is None
    assert await send(client, "GET", f"{path}/losses") == {"losses": []}
    assert await (await client.get(f"{path}/export/x.mid")).read() == data
    assert await send(client, "GET", f"{path}/chord?text=Am7") == {"name": "A:min7"}
    lyric = {"revision": 0, "lyrics": [[0.5, "la"]]}
    await send(client, "POST", f"{path}/ops", json=lyric)
    changed = await (await client.get(f"{path}/export/x.mid")).read()
    (before,), (after,) = messages(data), messages(changed)
    assert [row for row in after if row[1].type != "lyrics"] == before
    assert len(after) == len(before) + 1
    (sentence,) = (await send(client, "GET", f"{path}/losses?begin=0&end=1"))["losses"]
    assert sentence.endswith("without its controllers, bends, release velocities")
    await send(client, "GET", f"{path}/losses?bar=1", 400)

    damaged = await new_piece(client, data[:-12])
    path = f"/api/sessions/{damaged['id']}"
    assert damaged["remark"] == '"untitled": damaged, read as far as possible: truncated track'
    assert await send(client, "GET", f"{path}/losses") == {"losses": []}
    assert await (await client.get(f"{path}/export/x.mid")).read() == data[:-12]
    await send(client, "POST", f"{path}/ops", json=lyric)
    (sentence,) = (await send(client, "GET", f"{path}/losses"))["losses"]
    assert "damaged" in sentence


async def test_an_export_ends_when_no_page_waits_for_it(client, monkeypatch):
    """Otherwise a long sound would delay the next one, and the end of the studio."""
    started = asyncio.Event()

    def endless(score, path, *, limits, on_block, mix):
        loop.call_soon_threadsafe(started.set)
        while True:
            on_block()

    loop = asyncio.get_running_loop()
    # By its name it would be looked for in the function musictx.render.
    monkeypatch.setattr(importlib.import_module("musictx.render.audio"), "write", endless)
    path = f"/api/sessions/{(await new_piece(client, ODE))['id']}/export/x"
    waiting = asyncio.ensure_future(client.get(f"{path}.wav"))
    await started.wait()
    waiting.cancel()
    async with asyncio.timeout(5), client.get(f"{path}.mid") as answer:
        assert answer.status == 200


async def test_a_proposal_is_accepted_and_undone(client, monkeypatch):
    session = await new_piece(client, ODE)
    path = f"/api/sessions/{session['id']}"
    request = {"task": "replace", "begin": 0, "end": 1, "revision": 0}
    waiting = await send(client, "POST", f"{path}/takes", 202, json=request)
    assert waiting["state"] == "waiting"
    await send(client, "DELETE", f"{path}/takes/1", 204)
    takes = client.sessions.get(session["id"]).takes
    takes[1] = take(1, [(0.0, 0.5, 50, 80, 0)], removes=[0, 1])
    choice = {"proposal": 1, "revision": 0}
    accept = f"{path}/takes/1/accept"
    for wrong, status in (({"proposal": 2}, 404), ({"proposal": {}}, 404), ({"revision": 7}, 409)):
        await send(client, "POST", accept, status, json=choice | wrong)
    piece = await send(client, "POST", accept, json=choice)
    assert [note[0] for note in piece["notes"]][:2] == [62, 2]
    for is_accepted, word in ((True, "undo"), (False, "redo")):
        piece = await send(client, "GET", path)
        assert ("1/1" in piece["brought"]) == is_accepted
        await send(client, "POST", f"{path}/{word}", json={"revision": piece["revision"]})
    get_json = Session.json  # in a lock, since no other change may come before the answer
    monkeypatch.setattr(Session, "json", lambda s: get_json(s) if s._lock._is_owned() else {})
    piece = await send(client, "POST", accept, json={"proposal": 1, "revision": 3})
    timing = piece["timings"][0] | {"revision": 4, "tempo": piece["timings"][0]["tempo"] / 2}
    with patch.object(client.studio.hub, "publish") as publish:
        assert await send(client, "POST", f"{path}/timing", json=timing)
    assert [call.args[1] for call in publish.call_args_list] == ["document", "takes"]
    piece = await send(client, "POST", accept, json={"proposal": 1, "revision": 5})
    assert piece["notes"][0][1:3] == pytest.approx([0, 1])  # the proposal keeps its beats, too


async def test_an_invalid_body_gets_a_sentence(client):
    path = f"/api/sessions/{(await new_piece(client, ODE))['id']}"
    for body in (b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"remove": 1}'):
        for word in ("ops", "undo", "redo", "takes/1/accept"):
            async with client.post(f"{path}/{word}", data=body) as answer:
                assert 400 <= answer.status < 500
                assert (await answer.json())["error"]
    assert (await send(client, "GET", path))["revision"] == 0


async def test_ten_clients_at_once_lose_nothing(client):
    """Each adds two notes to a shared piece, and tries again on a conflict."""
    path = f"/api/sessions/{(await new_piece(client, ODE))['id']}"

    async def add_note(pitch):
        status = 409
        while status == 409:
            piece = await send(client, "GET", path)
            note = [piece["next_id"], 0, 1, pitch, 80, piece["tracks"][0]["id"]]
            change = {"revision": piece["revision"], "add": [note]}
            async with client.post(f"{path}/ops", json=change) as answer:
                status = answer.status
        assert status == 200

    async def run_client(pitch):
        for _ in range(2):
            await add_note(pitch)

    await asyncio.gather(*map(run_client, range(10)))
    notes = (await send(client, "GET", path))["notes"]
    assert sorted(note[3] for note in notes if note[0] >= 62) == sorted([*range(10)] * 2)
