"""Models of the Hugging Face hub, ``hf:USER/NAME@REVISION``: down and up (extra ``hub``).

Only the files of a model folder are fetched, and none that is larger than a model is: no code, no
pickle. What a folder says is then checked like any other (``bundle.load``). The hub's settings
hold: ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME`` for the copies kept, ``HF_HUB_OFFLINE`` to use
those alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from musictx.errors import UserError, reason, shown
from musictx.files import write_text

PREFIX = "hf:"
_NAME = re.compile(r"hf:(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?", re.ASCII)
#: The page that the hub shows above the files of a model folder.
PAGE = "README.md"
#: Most that the files of a model may hold together, MB.
MOST_MB = 4000


def fetched(
    name: str, files: Sequence[str], missing: Callable[[Collection[str]], list[str]]
) -> Path:
    """The folder with those of ``files`` that the model ``name`` has, downloaded unless a copy is
    kept; ``missing`` says which files a model lacks, by the names of those it has.

    ``UserError`` for another form of name, where huggingface_hub is missing, and for what the hub
    does not have or is too large, before anything is downloaded.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise UserError(f"{shown(name)}: expected hf:USER/NAME, or hf:USER/NAME@REVISION")
    repository, revision = match.groups()
    hub, endpoint = _hub(name), os.environ.get("HF_ENDPOINT")
    try:
        if os.environ.get("HF_HUB_OFFLINE", "") in ("", "0"):
            api = hub.HfApi(endpoint=endpoint)
            about = api.model_info(repository, revision=revision, files_metadata=True)
            revision = about.sha
            sizes = {one.rfilename: one.size or 0 for one in about.siblings or ()}
            if absent := missing(sizes):
                raise UserError(f"{name}: no model of musictx: {' and '.join(absent)} missing")
            total = sum(size for file, size in sizes.items() if file in files)
            if total > MOST_MB * 10**6:
                size = f"{total / 10**6:,.0f} MB"
                raise UserError(f"{name}: {size}, more than the {MOST_MB:,} allowed")
        return Path(
            hub.snapshot_download(
                repository, revision=revision, endpoint=endpoint, allow_patterns=list(files)
            )
        )
    except UserError:
        raise
    except Exception as error:  # of the hub's many classes, or of the network
        raise UserError(f"{name}: cannot be had from the hub ({reason(error)})") from error


def write_page(folder: Path, card: Mapping[str, Any]) -> None:
    """Write README.md, the page of the hub, into the model folder ``folder``: what the hub reads of
    a ``card`` (licence, library, tags, data), then the card for people."""
    licence, corpus = str(card.get("licence", "")), card.get("corpus")
    names = {"CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0", "MIT": "mit", "Apache": "apache-2.0"}
    front = {
        "license": next((name for word, name in names.items() if word in licence), "other"),
        "library_name": "musictx",
        "tags": ["music", "midi", "music-transformer", "music-generation"],
    }
    if isinstance(corpus, dict) and (label := corpus.get("label") or corpus.get("name")):
        front["datasets"] = [str(label)]
    text = (folder / "CARD.md").read_text(encoding="utf-8")
    text = text.replace("model.path=THIS_FOLDER", "model=hf:USER/NAME")
    write_text(folder / PAGE, f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n{text}")


def push(folder: Path, repository: str, files: Sequence[str], private: bool) -> str:
    """Upload ``files`` of a folder as the model ``repository``, made if need be; its address."""
    if _NAME.fullmatch(PREFIX + repository) is None or "@" in repository:
        raise UserError(f"{shown(repository)}: expected USER/NAME")
    api = _hub(repository).HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        made = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=list(files))
    except Exception as error:  # as above
        raise UserError(f"{repository}: cannot be uploaded ({reason(error)})") from error
    return str(made)


def _hub(name: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UserError(
            f"{name}: models of the hub need huggingface_hub: pip install 'musictx[hub]'"
        ) from None
    return huggingface_hub
