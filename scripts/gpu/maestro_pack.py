"""What scripts/gpu/maestro.py carries to a machine without the corpus, and brings back in parts."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shutil
import tarfile
import uuid
from pathlib import Path
from typing import Any

from musictx.config import (
    AugmentConfig,
    CorpusConfig,
    ModelConfig,
    OptimConfig,
    PositionConfig,
    SamplingConfig,
    TokenizerConfig,
    TrainConfig,
    TrainerConfig,
)
from musictx.data.shards import Shards, Writer
from musictx.errors import ConfigError, UserError
from musictx.files import swap

TOKENS, RECIPES = "tokens.tar.bz2", "recipes.json"
MIB = 2**20
#: Most that may travel to the machine, and the largest file that may come back from it.
CARRIED, PART = 62 * MIB, 15 * MIB
#: Most parts that may come back, beside a table and a log.
PARTS = 4


def pack(shards: Shards, out: Path) -> Path:
    """``out/tokens.tar.bz2``: the train and validation pieces of ``shards``; returns the file.

    bzip2 takes 5 s for MAESTRO's 49 MiB of ids and leaves 18.5 MiB; xz takes 108 s for 17.9. It is
    unpacked again and compared: ``UserError`` if a single id differs.
    """
    out.mkdir(parents=True, exist_ok=True)
    beside = out / f".packing-{uuid.uuid4().hex[:8]}"
    kept = [p for p in shards.pieces() if p.split != "test"]
    try:
        with Writer(
            beside / "shards",
            fingerprint=shards.fingerprint,
            tokenizer_config=shards.tokenizer_config,
            corpus={"name": shards.corpus["name"]},
        ) as writer:
            for p in kept:
                more = {
                    k: v for k, v in p._asdict().items() if k not in ("number", "offset", "tokens")
                }
                writer.add(shards.tokens(p.number), **more)
        with tarfile.open(beside / TOKENS, "w:bz2") as archive:
            for file in sorted((beside / "shards").iterdir()):
                archive.add(file, file.name)
        again = unpack(beside / TOKENS, beside)
        for there, here in zip(kept, again.pieces(), strict=True):
            if (shards.tokens(there.number) != again.tokens(here.number)).any():
                raise UserError(f"{there.name}: unpacked ids differ from the packed ones")
        (beside / TOKENS).replace(out / TOKENS)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return out / TOKENS


def unpack(file: Path, under: Path) -> Shards:
    """The shards in ``file``, unpacked once into a folder of ``under`` named after its content."""
    if not file.is_file():
        raise UserError(f"pack={file.parent}: no {TOKENS} there; make one with the pack command")
    with file.open("rb") as stream:
        name = "shards-" + hashlib.file_digest(stream, "sha256").hexdigest()[:12]
    folder = under / name
    if not folder.is_dir():
        beside = under / f".{name}-{uuid.uuid4().hex[:8]}"
        with tarfile.open(file, "r:bz2") as archive:
            archive.extractall(beside, filter="data")
        swap(beside, folder)
    return Shards(folder)


# ------------------------------------------------------------------------------------------ recipes


def write_recipes(out: Path, family: str = "maestro") -> Path:
    """``out/recipes.json``: the settings of every conf/experiment/FAMILY/*.yaml, composed.

    Where they are read there need be no Hydra.
    """
    from musictx.compose import compose, groups

    names = [n for n in groups("train")["experiment"] if n.startswith(f"{family}/")]
    found = {
        name.partition("/")[2]: dataclasses.asdict(compose("train", [f"experiment={name}"]))
        for name in names
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / RECIPES
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def recipe(folder: Path, name: str, changes: dict[str, str]) -> TrainConfig:
    """The settings called ``name``, changed by dotted options such as ``model.width=640``.

    Values are written as in JSON, text without quotes. ``ConfigError`` for an unknown name or
    option, and for a value that cannot be.
    """
    path = folder / RECIPES
    if not path.is_file():
        raise UserError(f"pack={folder}: no {RECIPES} there; make it with the recipes command")
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if name not in known:
        raise ConfigError(f"row={name}: expected one of {', '.join(known)}")
    settings = known[name]
    for option, text in changes.items():
        *groups_, last = option.split(".")
        inside = settings
        for group in groups_:
            inside = inside.get(group, {}) if isinstance(inside, dict) else {}
        if not isinstance(inside, dict) or last not in inside:
            raise ConfigError(f"{option}: no such option; expected such as model.width or optim.lr")
        inside[last] = _value(text)
    return settings_of(settings)


def settings_of(settings: dict[str, Any]) -> TrainConfig:
    """A dict as ``dataclasses.asdict`` makes it -> checked settings."""
    corpus = dict(settings["corpus"])
    corpus["augment"] = AugmentConfig(**corpus["augment"])
    given = {
        "corpus": CorpusConfig(**corpus),
        "tokenizer": TokenizerConfig(**settings["tokenizer"]),
        "model": ModelConfig(**settings["model"]),
        "position": PositionConfig(**settings["position"]),
        "optim": OptimConfig(**settings["optim"]),
        "trainer": TrainerConfig(**settings["trainer"]),
        "sampling": SamplingConfig(**settings["sampling"]),
    }
    return TrainConfig(**{**settings, **given})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# ---------------------------------------------------------------------------------------- deliver


def deliver(files: dict[str, Path], out: Path) -> list[Path]:
    """``files`` (name in the archive -> file) as one tar, cut into out/run.tar.00, .01, ...

    ``cat run.tar.* | tar x`` puts them back. Raises ``UserError`` if more than :data:`PARTS` parts
    would be needed.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, path in files.items():
            archive.add(path, name)
    data = stream.getbuffer()
    if len(data) > PARTS * PART:
        raise UserError(
            f"{len(data) / MIB:.1f} MiB are to come back, expected at most "
            f"{PARTS * PART / MIB:.0f}: a smaller model"
        )
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("run.tar.*"):
        old.unlink()
    written = []
    for number, at in enumerate(range(0, len(data), PART)):
        path = out / f"run.tar.{number:02}"
        path.write_bytes(data[at : at + PART])
        written.append(path)
    return written
