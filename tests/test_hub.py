"""Models to and from a hub; calls must fit the signatures of its real client."""

import shutil
import sys
from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest
import torch
import yaml

import musictx
from musictx import bundle, cli, hub
from musictx.errors import UserError
from musictx.folders import MODEL_FILES

client = pytest.importorskip("huggingface_hub")
SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Replace the hub with ``folder``. ``sizes`` are wrong sizes that it reports for files;
    ``queried`` and ``downloaded`` collect revisions."""
    hub = SimpleNamespace(folder=tmp_path / "hub", sizes={}, queried=[], downloaded=[])

    def model_info(_, name, *, revision, files_metadata):
        hub.queried.append(revision)
        sizes = {p.name: p.stat().st_size for p in (hub.folder / name).iterdir()} | hub.sizes
        files = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
        return SimpleNamespace(sha=SHA, siblings=files)

    def create_repo(_, name, *, private, exist_ok):
        (hub.folder / name).mkdir(parents=True, exist_ok=exist_ok)
        return f"https://huggingface.co/{name}"

    def upload_folder(_, *, repo_id, folder_path, allow_patterns):
        for name in allow_patterns:
            shutil.copy(folder_path / name, hub.folder / repo_id)

    def snapshot_download(name, *, revision, allow_patterns):
        hub.downloaded.append(revision)
        cache = tmp_path / "cache" / name
        cache.mkdir(parents=True, exist_ok=True)
        for file in allow_patterns:
            shutil.copy(hub.folder / name / file, cache)
        return str(cache)

    for fake in (model_info, create_repo, upload_folder, snapshot_download):
        owner = client if fake is snapshot_download else client.HfApi
        real = getattr(owner, fake.__name__)
        monkeypatch.setattr(owner, fake.__name__, create_autospec(real, side_effect=fake))
    return hub


def test_an_uploaded_model_is_downloaded_without_other_files(server, tiny, tmp_path, monkeypatch):
    model = musictx.load(tiny["plain"])
    model.card["licence"] = "MIT, as the code"
    model.push_to_hub("anna/waltz")
    stored = server.folder / "anna" / "waltz"
    assert {path.name for path in stored.iterdir()} == {*MODEL_FILES, hub.PAGE}
    _, front, text = (stored / hub.PAGE).read_text().split("---", 2)
    assert "model=hf:USER/NAME" in text
    assert yaml.safe_load(front)["license"] == "mit"
    (stored / "model.pkl").write_bytes(b"evil")
    back = musictx.load("hf:anna/waltz@v1")
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, back.model.state_dict()[name])
    assert {path.name for path in back.folder.iterdir()} == set(MODEL_FILES)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert musictx.load("hf:anna/waltz@v2").folder == back.folder
    assert (server.queried, server.downloaded) == (["v1"], [SHA, "v2"])
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["generate", "model=hf:anna/waltz", "tokens=5", "out=new", "seed=0"]) == 0


def test_a_model_that_cannot_be_downloaded_is_refused_in_a_sentence(server, tiny, monkeypatch):
    def refused(name: str, words: str) -> None:
        with pytest.raises(UserError, match=rf"^.*{words}.*$"):
            bundle.load(name)

    refused("hf:waltz", "expected hf:USER/NAME")
    refused("hf:../../etc@x", "expected hf:USER/NAME")
    refused("hf:anna/none", "cannot be downloaded from the hub")
    half, large = (server.folder / "anna" / name for name in ("half", "large"))
    half.mkdir(parents=True)
    shutil.copy(tiny["plain"] / "config.json", half)
    refused("hf:anna/half", "model.safetensors and tokenizer.json missing")
    shutil.copytree(tiny["plain"], large)
    server.sizes["model.safetensors"] = hub.MOST_MB * 10**6 + 1
    refused("hf:anna/large", "more than the 4,000 allowed")
    assert not server.downloaded
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    refused("hf:anna/large", r"pip install 'musictx\[hub\]'")
