"""Models that travel: ``hf:USER/NAME@REVISION``, to and from the Hugging Face hub (extra ``hub``).

Only the files of a model folder are fetched, and none that is larger than a model is: no code, no
pickle. What a folder says is then read with the distrust of any other (``bundle.load``). The hub's
settings hold: ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HOME`` for the copies kept, ``HF_HUB_OFFLINE`` to
use those alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from musictx.errors import UserError, shown
from musictx.files import write_text

PREFIX = "hf:"
_NAME = re.compile(r"hf:(\w[\w.-]*/\w[\w.-]*)(?:@(\w[\w./-]*))?", re.ASCII)
#: What the hub shows beside the files of a model folder.
PAGES = ("README.md", "config.json")
#: Most that the files of a model may hold together, MB.
MOST_MB = 4000


def fetched(name: str, files: Sequence[str], required: Sequence[str]) -> Path:
    """The folder with ``files`` of the model ``name``, fetched now unless a copy is kept.

    ``UserError`` for another form of name, where huggingface_hub is missing, and for what the hub
    does not have, such as one of the files ``required``, or is too large.
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
        else:
            sizes = dict.fromkeys(files, 0)
        missing = [file for file in required if file not in sizes]
        if missing:
            raise UserError(f"{name}: no model of musictx: {' and '.join(missing)} missing")
        total = sum(sizes.get(file, 0) for file in files)
        if total > MOST_MB * 10**6:
            raise UserError(f"{name}: {total / 10**6:,.0f} MB, more than the {MOST_MB:,} allowed")
        wanted = [file for file in files if file in sizes]
        more = {"revision": revision, "endpoint": endpoint}
        places = [Path(hub.hf_hub_download(repository, file, **more)) for file in wanted]
    except UserError:
        raise
    except Exception as error:  # of the hub's many classes, or of the network
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{name}: cannot be had from the hub ({reason[0]})") from error
    return places[0].parent


def write_pages(folder: Path) -> None:
    """README.md and config.json of the hub, beside the files of the model folder ``folder``."""
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    page = yaml.safe_dump(front_matter(config["card"]), sort_keys=False, allow_unicode=True)
    card = (folder / "CARD.md").read_text(encoding="utf-8")
    card = card.replace("model.path=THIS_FOLDER", "model=hf:USER/NAME")
    write_text(folder / "README.md", f"---\n{page}---\n{card}")
    shown = {"library_name": "musictx", **{key: config[key] for key in ("format", "model")}}
    write_text(folder / "config.json", json.dumps(shown, indent=1) + "\n")


def front_matter(card: Mapping[str, Any]) -> dict[str, Any]:
    """What the hub reads of a card: licence, library, tags, data, nats a token."""
    licence = str(card.get("licence", ""))
    known = {"CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0", "MIT": "mit", "Apache": "apache-2.0"}
    found: dict[str, Any] = {
        "license": next((name for word, name in known.items() if word in licence), "other"),
        "library_name": "musictx",
        "tags": ["music", "midi", "music-transformer", "music-generation"],
    }
    corpus = card.get("corpus")
    if isinstance(corpus, dict) and (label := corpus.get("label") or corpus.get("name")):
        found["datasets"] = [str(label)]
    if (nats := _nats(card.get("numbers"))) is not None:
        metric = {"type": "nats-per-token", "value": nats, "name": "nats a token, held out"}
        task = {"type": "other", "name": "likelihood of held-out music"}
        data = {"type": "midi", "name": ", ".join(found.get("datasets", ["MIDI"]))}
        result = {"task": task, "dataset": data, "metrics": [metric]}
        name = str(card.get("title", "A Music Transformer"))
        found["model-index"] = [{"name": name, "results": [result]}]
    return found


def _nats(numbers: Any) -> float | None:
    """The first number of nats a token in a card."""
    if not isinstance(numbers, dict):
        return None
    for key, value in numbers.items():
        if re.search(r"nats (a|per) token|validation loss", str(key)) and _number(value):
            return float(value)
        if (inner := _nats(value)) is not None:
            return inner
    return None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def push(folder: Path, repository: str, files: Sequence[str], private: bool) -> str:
    """Upload ``files`` of a folder as the model ``repository``, made if need be; its address."""
    if _NAME.fullmatch(PREFIX + repository) is None or "@" in repository:
        raise UserError(f"{shown(repository)}: expected USER/NAME")
    api = _hub(repository).HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        made = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=list(files))
    except Exception as error:  # as above
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{repository}: cannot be uploaded ({reason[0]})") from error
    return str(made)


def _hub(name: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UserError(
            f"{name}: models of the hub need huggingface_hub: pip install 'musictx[hub]'"
        ) from None
    return huggingface_hub
