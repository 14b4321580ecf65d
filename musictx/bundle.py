"""A model folder: everything that is needed to use a trained model, and nothing that can run.

::

    model.safetensors   the weights, each tensor once (tied ones are tied again when loading)
    config.yaml         format and musictx version, the model's arguments, the card as data
    tokenizer.json      the tokenizer's config and the fingerprint of its vocabulary
    CARD.md             the card for people

No pickle and no class names from files: the only class made from a folder is
:class:`~musictx.model.transformer.MusicTransformer`, and the tokenizer comes from the registry of
``tokens/build.py``. Loading is strict: a missing, foreign or wrongly shaped tensor is refused, and
so is a vocabulary other than the one the model was trained with.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from musictx import __version__, shipped
from musictx.config.position import SCHEMES
from musictx.errors import UserError
from musictx.files import swap
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.vocab import Tokenizer

#: Raised by one whenever an older musictx could no longer read a new folder.
FORMAT = 1
FILES = ("model.safetensors", "config.yaml", "tokenizer.json", "CARD.md")
_REQUIRED = FILES[:3]  # the card for people may be lost or rewritten without harm
_WHAT = "a model folder holds " + ", ".join(FILES) + " and is written by musictx train"
#: The tokenizer that a model which harmonises has.
FOUR_VOICES = "chorale"
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass
class Bundle:
    """A loaded model folder: the model in evaluation mode, its tokenizer and card, where it was."""

    model: MusicTransformer
    tokenizer: Tokenizer
    card: dict[str, Any]
    folder: Path


# ------------------------------------------------------------------------------------------ write


def save(
    folder: str | Path,
    model: MusicTransformer,
    tokenizer: Tokenizer,
    card: Mapping[str, Any],
    *,
    dtype: str = "float32",
) -> Path:
    """Write a model folder, whole or not at all, and return its path.

    card   plain values (numbers, text, lists, dicts; paths, numpy scalars and dataclasses become
           such). Well-known keys, all optional: ``title``, ``summary``, ``command``, ``corpus``
           (with ``path`` and ``shards``), ``training``, ``numbers``, ``licence``; others are kept
           and shown as well.
    dtype  of the weights in the file: float32, or float16 / bfloat16 for shipping (half the size).

    The files are written to a temporary folder beside and then renamed. An existing model folder is
    replaced; any other folder that is not empty is refused. Raises ``UserError`` for that, for a
    place that cannot be written and for a tokenizer that is not the model's.
    """
    folder = Path(folder)
    if dtype not in _DTYPES:
        raise UserError(f"dtype={dtype}: expected one of {', '.join(_DTYPES)}")
    if model.config["vocab_size"] != tokenizer.size:
        raise UserError(
            f"tokenizer: it has {tokenizer.size} ids but the model was built for "
            f"{model.config['vocab_size']}; save the tokenizer the model was trained with"
        )
    if _holds_something(folder) and not (folder / "config.yaml").is_file():
        raise UserError(
            f"{folder}: there is something else in this folder; give an empty or new one ({_WHAT})"
        )
    data = _plain(card)
    config = {
        "format": FORMAT,
        "musictx": __version__,
        "dtype": dtype,
        "model": _plain(model.config),
        "vocabulary": {"size": tokenizer.size, "fingerprint": tokenizer.fingerprint},
        "card": data,
    }
    described = {
        "fingerprint": tokenizer.fingerprint,
        "size": tokenizer.size,
        "config": _plain(tokenizer.to_config()),
    }
    beside = folder.parent / f".{folder.name}.writing-{uuid.uuid4().hex[:8]}"
    try:
        beside.mkdir(parents=True)
        weights = beside / "model.safetensors"
        save_file(_weights(model, _DTYPES[dtype]), weights, metadata={"format": "pt"})
        _write(beside / "config.yaml", yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        _write(beside / "tokenizer.json", json.dumps(described, indent=1) + "\n")
        weights.chmod(
            (beside / "config.yaml").stat().st_mode
        )  # safetensors writes for the owner only
        _write(beside / "CARD.md", card_text(config, described, model))
        swap(beside, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the model folder: {error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _holds_something(folder: Path) -> bool:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: this is a file; give the name of a folder")
    return folder.is_dir() and any(folder.iterdir())


def _canonical(model: nn.Module) -> dict[str, str]:
    """Every name of the state dict -> the first name that shares its memory (itself as a rule).

    Tied weights are one tensor under several names; safetensors refuses shared memory, and two
    copies would come apart.
    """
    first: dict[tuple, str] = {}
    names = {}
    for name, tensor in model.state_dict().items():
        where = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        names[name] = first.setdefault(where, name) if tensor.numel() else name
    return names


def _weights(model: nn.Module, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    names = _canonical(model)
    return {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).cpu().contiguous()
        for name, tensor in model.state_dict().items()
        if names[name] == name
    }


def _plain(value: Any) -> Any:
    """``value`` as numbers, text, lists and dicts, which YAML and JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


# ------------------------------------------------------------------------------------------- card


def card_text(config: Mapping[str, Any], described: Mapping[str, Any], model: nn.Module) -> str:
    """CARD.md: what the model is, what it heard, how it was made, how to use it."""
    card = dict(config["card"])
    parameters = sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())
    lines = [f"# {card.pop('title', 'A Music Transformer')}", ""]
    summary = card.pop("summary", None)
    if summary:
        lines += [str(summary), ""]
    lines += [
        f"Made with musictx {config['musictx']}: a decoder-only Music Transformer for MIDI with "
        f"{parameters:,} parameters, stored as {config['dtype']}.",
        "",
        "## Use",
        "",
        "    musictx generate model.path=THIS_FOLDER",
        "    musictx generate model.path=THIS_FOLDER primer=SONG.mid render=true",
        "",
    ]
    command = card.pop("command", None)
    if command:
        lines += ["## Command it was made by", "", f"    {command}", ""]
    known = {
        "corpus": "What it was trained on",
        "training": "Training",
        "numbers": "Numbers",
        "licence": "Licence and remarks",
    }
    for key in [k for k in known if k in card] + [k for k in card if k not in known]:
        heading = known.get(key, key.replace("_", " ").capitalize())
        lines += [f"## {heading}", "", *_listed(card[key]), ""]
    lines += ["## Model", "", *_listed(config["model"]), ""]
    lines += ["## Tokenizer", "", *_listed(described), ""]
    return "\n".join(lines)


def _listed(value: Any, indent: str = "") -> list[str]:
    """A value as markdown: dicts and lists as bullets, the rest as it is."""
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            if isinstance(item, dict) and item:
                lines += [f"{indent}- {key}:", *_listed(item, indent + "  ")]
            else:
                lines.append(f"{indent}- {key}: {_short(item)}")
        return lines or [f"{indent}none"]
    if isinstance(value, list) and not indent:
        return [f"- {_short(item)}" for item in value] or ["none"]
    return [indent + _short(value)]


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return "-" if value is None else str(value)


# ------------------------------------------------------------------------------------------- read


def load(folder: str | Path, device: str = "cpu", *, dtype: torch.dtype = torch.float32) -> Bundle:
    """Read a model folder (or a run folder that holds one as ``model/``).

    The model comes in evaluation mode on ``device`` (auto, cpu, cuda, mps, ...), its weights as
    ``dtype`` whatever the file holds. Raises ``UserError`` for a folder that is missing, half
    complete, of a newer format, of another vocabulary or whose weights do not fit the model.
    """
    target = choose_device(device)
    folder = locate(folder)
    config = _read_config(folder)
    tokenizer = _read_tokenizer(folder, config)
    arguments = config["model"]
    if not isinstance(arguments, dict) or arguments.get("vocab_size") != tokenizer.size:
        size = arguments.get("vocab_size") if isinstance(arguments, dict) else None
        raise UserError(
            f"{folder}: the model is built for {size} ids but tokenizer.json has {tokenizer.size}; "
            "the two files are not of one model"
        )
    try:
        model = MusicTransformer(**_renamed(arguments))
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(
            f"{folder / 'config.yaml'}: no model can be built from it: {error}"
        ) from None
    _fill(model, folder / "model.safetensors")
    model = model.to(device=target, dtype=dtype).eval().requires_grad_(False)
    return Bundle(model=model, tokenizer=tokenizer, card=config.get("card") or {}, folder=folder)


def locate(folder: str | Path) -> Path:
    """The model folder meant by ``folder``: itself, ``folder/model``, or the model of that name
    that comes along with musictx; else ``UserError``."""
    name, folder = str(folder), Path(folder).expanduser()
    if not folder.is_dir():
        ours = shipped.models()
        if name not in ours:
            raise UserError(
                f"{folder}: no such model folder ({_WHAT}), nor a model that comes with musictx "
                f"({', '.join(ours) or 'none'})"
            )
        folder = ours[name]
    if not (folder / "config.yaml").is_file() and (folder / "model" / "config.yaml").is_file():
        folder = folder / "model"
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder}: {' and '.join(missing)} missing; {_WHAT}")
    return folder


def find_latest(root: str | Path = "runs", *, melody: bool = False) -> Path:
    """The model folder under ``root`` (``root/*/model``) that was written last; without any, the
    model that comes along with musictx. For a ``melody``, only models of four voices count."""
    found = [
        path
        for path in Path(root).glob("*/model")
        if all((path / name).is_file() for name in _REQUIRED)
        and (not melody or _tokens(path) == FOUR_VOICES)
    ]
    if found:
        return max(found, key=lambda path: ((path / "config.yaml").stat().st_mtime_ns, str(path)))
    ours = shipped.default(melody=melody)
    if ours is None:
        kind, option = ("model of four voices", " tokenizer=chorale") if melody else ("model", "")
        raise UserError(
            f"model.path: no trained {kind} under {root}/; train one with "
            f"'musictx train corpus.path=DIR{option}' or give model.path=FOLDER"
        )
    return ours


def _tokens(folder: Path) -> str | None:
    """The name of a model folder's tokenizer; None if it cannot be read."""
    try:
        return str(json.loads((folder / "tokenizer.json").read_text())["config"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def choose_device(name: str) -> torch.device:
    """``auto`` -> the best device of this machine; any other name is checked to be usable."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        mps = getattr(torch.backends, "mps", None)
        return torch.device("mps" if mps is not None and mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"device={name}: not usable on this machine ({reason}); try device=auto or device=cpu"
        ) from None
    return device


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: cannot be read as YAML: {reason}") from None
    if not isinstance(config, dict) or not isinstance(config.get("format"), int):
        raise UserError(f"{path}: this is not the configuration of a model; {_WHAT}")
    if config["format"] > FORMAT:
        raise UserError(
            f"{path}: format {config['format']}, written by musictx {config.get('musictx')}; this "
            f"musictx reads formats up to {FORMAT}: install a newer one"
        )
    for key in ("model", "vocabulary"):
        if not isinstance(config.get(key), dict):
            raise UserError(f"{path}: the entry {key!r} is missing; the file is damaged")
    return config


#: Names that options of ``position`` had before, and what they are called now.
_RENAMED = {"cycles": "periods", "sinusoids": "concat_sinusoids"}


def _renamed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an older model folder under today's names."""
    position = dict(arguments.get("position") or {})
    position = {_RENAMED.get(key, key): value for key, value in position.items()}
    known = getattr(SCHEMES.get(position.get("name", "huang")), "__dataclass_fields__", {})
    for key, unset in (("max_distance", None), ("shared", False)):  # once written for all schemes
        if known and key not in known and position.get(key) is unset:
            position.pop(key, None)
    return {**arguments, "position": position}


def _read_tokenizer(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    path = folder / "tokenizer.json"
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        fingerprint, arguments = described["fingerprint"], dict(described["config"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{path}: expected JSON with 'fingerprint' and 'config'; the file is damaged"
        ) from None
    trained = config["vocabulary"].get("fingerprint")
    if fingerprint != trained:
        raise UserError(
            f"{path}: it describes the vocabulary {fingerprint} but the model was trained with "
            f"{trained}; use the tokenizer.json that belongs to this model"
        )
    try:
        tokenizer = build_tokenizer(**arguments)
    except UserError:
        raise
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(f"{path}: no tokenizer can be built from it: {error}") from None
    if tokenizer.fingerprint != fingerprint:
        raise UserError(
            f"{path}: its config now gives the vocabulary {tokenizer.fingerprint} but the model "
            f"was trained with {fingerprint}; the file was changed, or install musictx "
            f"{config.get('musictx')}"
        )
    return tokenizer


def _fill(model: nn.Module, path: Path) -> None:
    """Copy the file's weights into ``model``: every tensor, none too many, all of equal shape."""
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read as safetensors: {error}") from None
    names = _canonical(model)
    wanted = set(names.values())
    problem = ""
    if absent := sorted(wanted - stored.keys()):
        problem = f"{len(absent)} tensors are missing, such as {absent[0]}"
    elif foreign := sorted(stored.keys() - wanted):
        problem = f"{len(foreign)} tensors are foreign to the model, such as {foreign[0]}"
    else:
        for name, tensor in model.state_dict().items():
            if stored[names[name]].shape != tensor.shape:
                came, right = tuple(stored[names[name]].shape), tuple(tensor.shape)
                problem = f"{name} has shape {came} where the model has {right}"
                break
    if problem:
        raise UserError(f"{path}: the weights do not fit config.yaml: {problem}")
    model.load_state_dict({name: stored[first] for name, first in names.items()}, strict=True)
