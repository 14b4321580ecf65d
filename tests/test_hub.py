"""Models to and from a hub: one on this machine, which answers as the Hugging Face hub does."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
import yaml

import musictx
from musictx import bundle, cli, hub
from musictx.errors import UserError
from musictx.shipped import FILES
from tests.untrained import saved

pytest.importorskip("huggingface_hub")
SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Repositories as {name: {file: content}} in ``server.repositories``."""

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def json(self, content: object, status: int = 200) -> None:
        self.answer(status, json.dumps(content).encode(), Content_Type="application/json")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].strip("/").split("/")
        self.server.asked.append(self.path)
        if path[:2] == ["api", "models"]:
            files = self.server.repositories.get("/".join(path[2:4]))
            if files is None or (len(path) > 4 and path[5] not in ("main", "v1", SHA)):
                return self.answer(404, X_Error_Code="RepoNotFound")
            sizes = {name: len(content) for name, content in files.items()} | self.server.sizes
            if path[4:5] == ["tree"]:
                listed = {"type": "file", "oid": SHA}
                rows = [{**listed, "path": name, "size": size} for name, size in sizes.items()]
                return self.json(rows)
            named = [{"rfilename": name, "size": size} for name, size in sizes.items()]
            return self.json({"id": "/".join(path[2:4]), "sha": SHA, "siblings": named})
        content = self.server.repositories["/".join(path[:2])][path[4]]
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self.answer(200, content, ETag=etag, X_Repo_Commit=SHA)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else self.chunks()
        if self.path == "/api/repos/create":
            made = json.loads(body)
            name = "/".join(filter(None, (made.get("organization"), made["name"])))
            self.server.repositories.setdefault(name, {})
            return self.json({"url": f"https://huggingface.co/{name}", "id": name})
        path = self.path.partition("?")[0].strip("/").split("/")
        self.server.asked.append(self.path)
        if path[-2:] == ["api", "validate-yaml"]:
            return self.json({"errors": [], "warnings": []})
        if path[4] == "preupload":
            files = json.loads(body)["files"]
            how = {"uploadMode": "regular", "shouldIgnore": False}
            return self.json({"files": [{"path": one["path"], **how} for one in files]})
        for line in body.splitlines():
            if (entry := json.loads(line))["key"] == "file":
                content = base64.b64decode(entry["value"]["content"])
                self.server.repositories["/".join(path[2:4])][entry["value"]["path"]] = content
        return self.json(
            {"commitUrl": "https://huggingface.co/anna/waltz/commit/0", "commitOid": SHA}
        )

    def chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        return found

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    import huggingface_hub.constants

    made = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    made.repositories, made.sizes, made.asked = {}, {}, []
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{made.server_port}")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "hf_nothing")
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def folder(tmp_path):
    return saved(tmp_path / "model")


def test_a_model_goes_there_and_back(server, folder, tmp_path, monkeypatch):
    model = musictx.load(folder)
    model.card["licence"] = "MIT, as the code"
    model.push_to_hub("anna/waltz")
    stored = server.repositories["anna/waltz"]
    assert set(stored) - {".gitattributes"} == {*FILES, hub.PAGE}
    page = stored["README.md"].decode()
    front = yaml.safe_load(page.split("---")[1])
    assert front["license"] == "mit"
    assert front["library_name"] == "musictx"
    assert "model=hf:USER/NAME" in page
    stored["evil.py"] = stored["model.pkl"] = b"import os"
    back = musictx.load("hf:anna/waltz@v1")
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, back.model.state_dict()[name])
    assert {path.name for path in back.folder.iterdir()} == set(FILES)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert musictx.load("hf:anna/waltz@" + SHA).folder == back.folder
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.chdir(tmp_path)
    words = ["generate", "model=hf:anna/waltz", "tokens=5", "out=new", "seed=0"]
    assert cli.main(words) == 0


def test_what_cannot_be_had_is_one_sentence(server, folder, monkeypatch):
    def refused(name: str) -> str:
        with pytest.raises(UserError) as error:
            bundle.load(name)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "expected hf:USER/NAME" in refused("hf:waltz")
    assert "expected hf:USER/NAME" in refused("hf:../../etc@x")
    assert "cannot be had from the hub" in refused("hf:anna/none")
    content = {name: (folder / name).read_bytes() for name in FILES}
    server.repositories["anna/half"] = {"config.json": content["config.json"]}
    assert "model.safetensors and tokenizer.json missing" in refused("hf:anna/half")
    server.repositories["anna/large"] = content
    server.sizes["model.safetensors"] = hub.MOST_MB * 10**6 + 1
    assert "more than the 4,000 allowed" in refused("hf:anna/large")
    assert not [path for path in server.asked if "/resolve/" in path]
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    assert "pip install 'musictx[hub]'" in refused("hf:anna/large")


def test_the_pages_of_cards_of_every_kind(folder):
    maestro = {"licence": "CC BY-NC-SA 4.0", "corpus": {"label": "maestro"}}
    for card, front in (
        ({}, ("other", None)),
        ({"licence": "MIT, as the code", "corpus": "a text"}, ("mit", None)),
        (maestro, ("cc-by-nc-sa-4.0", ["maestro"])),
    ):
        hub.write_page(folder, card)
        read = yaml.safe_load((folder / hub.PAGE).read_text().split("---")[1])
        assert (read["license"], read.get("datasets")) == front
