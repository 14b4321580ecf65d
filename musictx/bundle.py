"""A model folder: everything that is needed to use a trained model, and nothing that can run.

::

    model.safetensors   the weights, each tensor once (tied ones are tied again when loading)
    config.yaml         format and musictx version, the model's arguments, the card as data
    tokenizer.json      the tokenizer's config and the fingerprint of its vocabulary
    CARD.md             the card for people

No pickle, and no import by what a file says (but of modules named in MUSICTX_TRUST): the classes
made from a folder are those of musictx. Loading is strict: numbers that do not belong to
the stored weights are refused before anything is made of them, and so are a missing, foreign,
wrongly shaped or broken tensor and a vocabulary other than the one the model was trained with.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
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

from musictx import __version__, hub
from musictx.card import card_text
from musictx.device import choose_device
from musictx.errors import UserError, WriteError, shown
from musictx.files import atomic_folder, read_bytes, write_text
from musictx.model import rounding
from musictx.model.transformer import MusicTransformer
from musictx.notes import DRUMS
from musictx.shipped import FILES, WHAT, locate
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.vocab import Tokenizer
from musictx.untrusted import (
    LARGEST_OPTION,
    PlainYaml,
    check_arguments,
    check_import,
    stored_shapes,
    total,
    whole,
)

__all__ = ["FILES", "FORMAT", "Bundle", "load", "locate", "save"]

#: Raised by one whenever an older musictx could no longer read a new folder.
FORMAT = 2
#: Most that tokenizer.json may hold, MB.
_TEXT_MB = 4
#: Most bytes of config.yaml, of which real ones have 5,000: reading YAML takes 25 s a megabyte.
_CONFIG_BYTES = 64_000
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
#: What tensors of a file may hold: weights as they are written, or as older versions did.
_STORED = (*_DTYPES.values(), torch.float64, torch.int64, torch.int32, torch.bool)


@dataclass(repr=False)
class Bundle:
    """A loaded model folder: the model in evaluation mode, its tokenizer and card, where it was."""

    model: MusicTransformer
    tokenizer: Tokenizer
    card: dict[str, Any]
    folder: Path

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.model.parameters())
        return f"Bundle({str(self.folder)!r}, {self.tokenizer.name} tokens, {count:,} parameters)"

    @property
    def corpus(self) -> dict[str, Any]:
        """What the card says of the corpus, by names; nothing if it is a text or missing."""
        told = self.card.get("corpus")
        return told if isinstance(told, dict) else {}

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write a model folder with the pages of the hub: README.md, config.json. As :func:`save`;
        the weights are written in float32."""
        written = save(folder, self.model, self.tokenizer, self.card)
        hub.write_pages(written)
        return written

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model as USER/NAME to the Hugging Face hub and return its address."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = self.save_pretrained(Path(scratch) / "model")
            return hub.push(folder, repository, (*FILES, *hub.PAGES), private)


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
    dtype  of the weights in the file: float32, or for shipping float16, bfloat16 (half the size),
           int8 (a quarter: matrices as bytes, a number for each row, the rest in float16).

    The folder appears whole or not at all. An existing model folder is replaced; any other folder
    that is not empty is refused. Raises ``UserError`` for that and for a tokenizer that is not the
    model's, ``WriteError`` for a place that cannot be written.
    """
    folder = Path(folder)
    if dtype not in (*_DTYPES, "int8"):
        raise UserError(f"dtype={dtype}: expected one of {', '.join(_DTYPES)}, int8")
    if model.config.vocab_size != tokenizer.size:
        raise UserError(
            f"tokenizer: it has {tokenizer.size} ids but the model was built for "
            f"{model.config.vocab_size}; save the tokenizer the model was trained with"
        )
    if _holds_something(folder) and not (folder / "config.yaml").is_file():
        raise UserError(
            f"{folder}: there is something else in this folder; give an empty or new one ({WHAT})"
        )
    data = _plain(card)
    config = {
        "format": FORMAT,
        "musictx": __version__,
        "dtype": dtype,
        "model": _plain(model.config.plain()),
        "vocabulary": {"size": tokenizer.size, "fingerprint": tokenizer.fingerprint},
        "card": data,
    }
    described = {
        "fingerprint": tokenizer.fingerprint,
        "size": tokenizer.size,
        "config": _plain(tokenizer.to_config()),
    }
    with atomic_folder(folder) as beside:
        weights = beside / "model.safetensors"
        try:
            save_file(_weights(model, dtype), weights, metadata={"format": "pt"})
        except SafetensorError as error:  # a full disk comes as one of these
            raise WriteError(f"{folder}: cannot be written: {error}") from None
        write_text(
            beside / "config.yaml", yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
        )
        write_text(beside / "tokenizer.json", json.dumps(described, indent=1) + "\n")
        write_text(beside / "CARD.md", card_text(config, described, model))
        # safetensors writes for the owner only
        weights.chmod((beside / "config.yaml").stat().st_mode)
    return folder


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


def _weights(model: nn.Module, dtype: str) -> dict[str, torch.Tensor]:
    names, kind = _canonical(model), _DTYPES.get(dtype, torch.float16)
    weights = {n: t.cpu() for n, t in model.state_dict().items() if names[n] == n}
    found = rounding.as_bytes(weights) if dtype == "int8" else {}
    found |= {
        name: (tensor.to(kind) if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in weights.items()
        if name not in found
    }
    return found


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


# ------------------------------------------------------------------------------------------- read


def load(
    folder: str | Path,
    device: str = "cpu",
) -> Bundle:
    """Read a model folder (or a run folder that holds one as ``model/``), or a model that comes
    with musictx by its name.

    The model comes in evaluation mode on ``device`` (auto, cpu, cuda, mps, ...), its weights in
    float32 whatever the file holds. Raises ``UserError`` for a folder that is missing,
    half complete, of a newer format, of another vocabulary or whose weights do not fit the model.
    """
    if not isinstance(folder, (str, os.PathLike)) or "\0" in os.fspath(folder):
        raise UserError(f"model: {type(folder).__name__} is no model; expected a folder or a name")
    target = choose_device(device)
    folder = locate(folder)
    config = _read_config(folder / "config.yaml")
    arguments = dict(config["model"])
    shapes = stored_shapes(folder / "model.safetensors")
    check_arguments(arguments, shapes, folder / "config.yaml")
    tokenizer = _read_tokenizer(folder / "tokenizer.json", config)
    if arguments.get("vocab_size") != tokenizer.size:
        raise UserError(
            f"{folder}: the model is built for {arguments.get('vocab_size')} ids but "
            f"tokenizer.json has {tokenizer.size}; the two files are not of one model"
        )
    try:
        model = MusicTransformer(**arguments)
    except (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{folder / 'config.yaml'}: no model can be built from it: {reason}"
        ) from None
    _fill(model, folder / "model.safetensors")
    model = model.to(device=target, dtype=torch.float32).eval().requires_grad_(False)
    return Bundle(model=model, tokenizer=tokenizer, card=config["card"], folder=folder)


def _read_config(path: Path) -> dict[str, Any]:
    text = read_bytes(path, _TEXT_MB, "the size of a configuration")
    if len(text) > _CONFIG_BYTES:
        raise UserError(f"{path}: larger than {_CONFIG_BYTES} bytes, so it is no configuration")
    try:
        config = yaml.load(text.decode("utf-8"), PlainYaml)
    except (ValueError, yaml.YAMLError, RecursionError, OverflowError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UserError(f"{path}: cannot be read as YAML: {reason.splitlines()[0]}") from None
    if not isinstance(config, dict) or whole(config.get("format")) < 1:
        raise UserError(f"{path}: this is not the configuration of a model; {WHAT}")
    if config["format"] != FORMAT:
        way = "install a newer one" if config["format"] > FORMAT else "train the model again"
        raise UserError(
            f"{path}: format {str(config['format'])[:20]}, written by musictx "
            f"{str(config.get('musictx'))[:20]}; this musictx reads format {FORMAT}: {way}"
        )
    for key in ("model", "vocabulary"):
        if not isinstance(config.get(key), dict):
            raise UserError(f"{path}: the entry {key!r} is missing; the file is damaged")
    config["card"] = config.get("card") or {}
    if not isinstance(config["card"], dict):
        raise UserError(f"{path}: card={str(config['card'])[:40]}: expected entries by name")
    if isinstance(corpus := config["card"].get("corpus"), dict):
        _check_corpus(corpus, f"{path}: card.corpus")
    _check_note_limits(config["card"].get("note_limits") or {}, f"{path}: card.note_limits")
    _check_drummers(config["card"].get("drummers") or {}, f"{path}: card.drummers")
    return config


def _check_corpus(corpus: Mapping[str, Any], where: str) -> None:
    """``UserError`` unless what composing looks up in ``corpus`` is of its kind."""
    check_import(corpus.get("name"), f"{where}.name")
    programs, tasks = corpus.get("programs") or {}, corpus.get("tasks") or {}
    named = isinstance(programs, dict) and all(
        isinstance(name, str) and type(program) is int and 0 <= program <= DRUMS
        for name, program in programs.items()
    )
    if not named:
        raise UserError(f"{where}.programs={shown(programs)}: expected name -> program, 0 to 128")
    melody = str(tasks.get("melody", "skyline")) if isinstance(tasks, dict) else ""
    if not re.fullmatch("skyline|[0-9]{1,2}|1[01][0-9]|12[0-7]", melody):
        told = shown(tasks)
        raise UserError(f"{where}.tasks={told}: expected a melody, skyline or a program up to 127")


def _check_note_limits(limits: Any, where: str) -> None:
    """``UserError`` unless ``limits`` are numbers by name; three of them may be lists."""
    numbers: list[Any] = [None]
    if isinstance(limits, dict):
        lists = ("longest_note", "instruments", "parts")
        numbers = [value for key, value in limits.items() if key not in lists]
        instruments = limits.get("instruments", [])
        numbers += instruments if isinstance(instruments, list) else [None]
        for name, size in (("longest_note", 2), ("parts", 5)):
            rows = limits.get(name, [])
            for row in rows if isinstance(rows, list) else [None]:
                numbers += row if isinstance(row, list) and len(row) == size else [None]
    if not all(isinstance(n, (int, float)) and 0 <= n < 1e9 for n in numbers):
        raise UserError(
            f"{where}={str(limits)[:40]}: expected numbers by name, longest_note as a list of "
            "[lowest pitch, seconds], instruments as a list, parts as a list of [program, notes "
            "at once, lowest pitch, highest pitch, notes a second]"
        )


def _check_drummers(styles: Any, where: str) -> None:
    """``UserError`` unless ``styles`` are drummers by style (:mod:`musictx.sampling.drummers`)."""
    lists = [*styles.values()] if isinstance(styles, dict) else [None]
    rows = [row for one in lists for row in (one if isinstance(one, list) and one else [None])]
    words = re.compile(r"[0-9]{24}( [0-9]{24}){3}")
    if not all(isinstance(row, str) and words.fullmatch(row) for row in rows):
        raise UserError(
            f"{where}={str(styles)[:40]}: expected a list of drummers for each style, each four "
            "words of 24 digits"
        )


def _read_tokenizer(path: Path, config: Mapping[str, Any]) -> Tokenizer:
    try:
        described = json.loads(read_bytes(path, _TEXT_MB, "the size of a tokenizer"))
        fingerprint, arguments = described["fingerprint"], dict(described["config"])
    except RecursionError:
        raise UserError(f"{path}: it is nested too deeply; the file is damaged") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{path}: expected JSON with 'fingerprint' and 'config'; the file is damaged"
        ) from None
    trained = config["vocabulary"].get("fingerprint")
    if fingerprint != trained:
        raise UserError(
            f"{path}: it describes the vocabulary {str(fingerprint)[:40]} but the model was "
            f"trained with {str(trained)[:40]}; use the tokenizer.json that belongs to this model"
        )
    if not total(arguments) <= LARGEST_OPTION:
        raise UserError(f"{path}: its options are too large; the file is damaged")
    check_import(arguments.get("name", ""), f"{path}: tokenizer.name")
    try:
        tokenizer = build_tokenizer(**arguments)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
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
    stored = rounding.of_bytes(stored)
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
            elif stored[names[name]].dtype not in _STORED:
                kind = str(stored[names[name]].dtype).removeprefix("torch.")
                problem = f"{name} holds {kind}, expected {', '.join(_DTYPES)}"
            elif not torch.isfinite(stored[names[name]]).all():
                problem = f"{name} holds numbers that are not finite (NaN or infinity)"
            if problem:
                break
    if problem:
        raise UserError(f"{path}: the weights do not fit config.yaml: {problem}")
    model.load_state_dict({name: stored[first] for name, first in names.items()}, strict=True)
