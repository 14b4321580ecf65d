"""Download and upload models of the Hugging Face hub, ``hf:USER/NAME@REVISION`` (extra ``hub``).

Only the files of a model folder are downloaded, no code and no pickle, up to :data:`MOST_MB` in
total. ``bundle.load`` then checks the folder like any other. The hub's environment variables apply:
``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME`` (the cache), ``HF_HUB_OFFLINE`` (use only the cache).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from musictx.errors import UserError, reason, shown
from musictx.files import write_text
from musictx.folders import MODEL_FILES, missing_files

_NAME = re.compile(r"hf:(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?", re.ASCII)
#: The file that the hub shows as the page of a model.
PAGE = "README.md"
#: The maximal total size of the files of a model in MB.
MOST_MB = 4000


def fetch(name: str) -> Path:
    """Download the model ``name`` (``hf:USER/NAME@REVISION``) unless it is in the cache; return the
    folder.

    Raises ``UserError`` for a malformed name, if huggingface_hub is not installed, and, before the
    download, if the hub does not have the model or it is incomplete or too large.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise UserError(f"{shown(name)}: expected hf:USER/NAME, or hf:USER/NAME@REVISION")
    repository, revision = match.groups()
    hub = _hub(name)
    try:
        if os.environ.get("HF_HUB_OFFLINE", "") in ("", "0"):
            info = hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
            revision = info.sha
            sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
            if absent := missing_files(sizes):
                raise UserError(f"{name}: not a model of musictx: {' and '.join(absent)} missing")
            total = sum(size for file, size in sizes.items() if file in MODEL_FILES)
            if total > MOST_MB * 10**6:
                raise UserError(f"{name}: {total / 1e6:,.0f} MB, more than the {MOST_MB:,} allowed")
        return Path(
            hub.snapshot_download(repository, revision=revision, allow_patterns=list(MODEL_FILES))
        )
    except UserError:
        raise
    except Exception as error:  # huggingface_hub and its network libraries have many classes
        raise UserError(f"{name}: cannot be downloaded from the hub ({reason(error)})") from error


def write_page(folder: Path, card: Mapping[str, Any]) -> None:
    """Write README.md into a model folder: the hub's metadata (licence, library, tags, data set),
    then the text of CARD.md."""
    licence, corpus = str(card.get("licence", "")), card.get("corpus")
    identifiers = {"CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0", "MIT": "mit", "Apache": "apache-2.0"}
    metadata = {
        "license": next((key for name, key in identifiers.items() if name in licence), "other"),
        "library_name": "musictx",
        "tags": ["music", "midi", "music-transformer", "music-generation"],
    }
    if isinstance(corpus, dict) and (label := corpus.get("label") or corpus.get("name")):
        metadata["datasets"] = [str(label)]
    text = (folder / "CARD.md").read_text(encoding="utf-8")
    text = text.replace("model.path=THIS_FOLDER", "model=hf:USER/NAME")
    write_text(folder / PAGE, f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n{text}")


def push(folder: Path, repository: str, *, private: bool) -> str:
    """Upload a model folder and its page to the model ``repository`` (USER/NAME), which is created
    if necessary. Return its URL. Raises ``UserError`` if the upload fails."""
    api = _hub(repository).HfApi()
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=[*MODEL_FILES, PAGE]
        )
    except Exception as error:  # as in fetch
        raise UserError(f"{repository}: cannot be uploaded ({reason(error)})") from error
    return str(address)


def _hub(name: str) -> Any:
    """Return the module huggingface_hub."""
    try:
        import huggingface_hub
    except ImportError:
        raise UserError(
            f"{name}: models of the hub need huggingface_hub: pip install 'musictx[hub]'"
        ) from None
    return huggingface_hub
