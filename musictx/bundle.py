"""Model folders: save and load a trained model.

::

    model.safetensors   the weights, each tensor once (tied ones are tied again when loading)
    config.json         format and musictx version, the options of the model, the card as data
    tokenizer.json      the tokenizer's config and the fingerprint of its vocabulary
    CARD.md             the card as text

A model folder contains no pickle, and it can only name classes of musictx and of the modules in
MUSICTX_TRUST. Loading is strict (:mod:`musictx.untrusted`): it refuses tensors that are missing,
unknown, not finite or of a wrong shape, and a vocabulary other than that of training.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from musictx import __version__, untrusted
from musictx.card import card_text, check_card
from musictx.data.statistics import CorpusStats
from musictx.errors import UserError, WriteError, reason, shown
from musictx.files import atomic_folder, read_json, write_text
from musictx.model import rounding
from musictx.model.config import NetworkConfig, complete_arguments
from musictx.model.transformer import MusicTransformer
from musictx.shipped import is_model, locate
from musictx.tokens.build import build as build_tokenizer
from musictx.tokens.build import read_options
from musictx.tokens.tokenizer import Tokenizer

#: Incremented whenever older versions of musictx cannot read new folders.
FORMAT = 4
#: Format 3 also stores the arguments of the network that follow from the tokenizer.
_READABLE = (3, FORMAT)
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(repr=False)
class Bundle:
    """A loaded model folder, as :func:`load` returns it.

    model      in evaluation mode, without gradients; ``model.train().requires_grad_()`` to train it
    tokenizer  encodes music as the ids of the model
    card       the contents of ``CARD.md`` as data: title, licence, corpus, training, numbers
    folder     path of the model folder
    """

    model: MusicTransformer
    tokenizer: Tokenizer
    card: dict[str, Any]
    folder: Path

    def __repr__(self) -> str:
        tokens, count = self.tokenizer.name, self.parameters
        return f"Bundle({str(self.folder)!r}, {tokens} tokens, {count:,} parameters)"

    @property
    def parameters(self) -> int:
        """The number of parameters of the model."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def corpus(self) -> dict[str, Any]:
        """The card's entry about the corpus; an empty dict if it is missing or a string."""
        corpus = self.card.get("corpus")
        return corpus if isinstance(corpus, dict) else {}

    @cached_property
    def stats(self) -> CorpusStats:
        """The statistics of the corpus, from the entry ``note_limits`` of the card."""
        return CorpusStats.of(self.card.get("note_limits"))

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write a model folder in float32 (:func:`save`) with a README.md, its page on the Hugging
        Face hub. Return the path."""
        from musictx import hub

        folder = save(folder, self.model, self.tokenizer, self.card)
        hub.write_page(folder, self.card)
        return folder

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model to ``repository``, USER/NAME on the Hugging Face hub; return its URL."""
        from musictx import hub

        with tempfile.TemporaryDirectory() as scratch:
            folder = self.save_pretrained(Path(scratch) / "model")
            return hub.push(folder, repository, private=private)


def save(
    folder: str | Path,
    model: MusicTransformer,
    tokenizer: Tokenizer,
    card: Mapping[str, Any],
    *,
    dtype: str = "float32",
) -> Path:
    """Write a model folder atomically and return its path. An existing model folder is replaced.

    card   numbers, strings, lists and dicts; paths, numpy scalars and dataclasses are converted.
           Well-known keys, all optional: ``title``, ``summary``, ``command``, ``corpus`` (with
           ``path`` and ``shards``), ``training``, ``numbers``, ``licence``. Other keys are allowed.
    dtype  of the weights in the file: float32, float16 or bfloat16 (half the size), or int8 (a
           quarter of the size: int8 matrices with a scale for each row, other tensors in float16)

    Raises ``UserError`` if ``folder`` holds anything but a model, and ``WriteError`` if it cannot
    be written.
    """
    folder = Path(folder)
    vocabulary = {"fingerprint": tokenizer.fingerprint, "size": tokenizer.vocabulary.size}
    config = untrusted.to_json_types(
        {
            "format": FORMAT,
            "musictx": __version__,
            "dtype": dtype,
            "model": model.config.user_options(),
            "vocabulary": vocabulary,
            "card": card,
        }
    )
    tokenizer_entries = untrusted.to_json_types(vocabulary | {"config": tokenizer.to_config()})
    with atomic_folder(folder, is_model) as temporary:
        weights = temporary / "model.safetensors"
        try:
            save_file(_stored_tensors(model, dtype), weights, metadata={"format": "pt"})
        except SafetensorError as error:  # safetensors raises it for a full disk
            raise WriteError(f"{folder}: cannot be written: {error}") from None
        config_text = json.dumps(config, indent=1, ensure_ascii=False)
        write_text(temporary / "config.json", config_text + "\n")
        write_text(temporary / "tokenizer.json", json.dumps(tokenizer_entries, indent=1) + "\n")
        write_text(temporary / "CARD.md", card_text(config, tokenizer_entries, model))
        # safetensors lets only the owner read its files.
        weights.chmod((temporary / "config.json").stat().st_mode)
    return folder


def _stored_tensors(model: nn.Module, dtype: str) -> dict[str, torch.Tensor]:
    """Return the tensors of ``model`` by name, converted to ``dtype``; tied tensors only once."""
    float_dtype = torch.float16 if dtype == "int8" else _DTYPES[dtype]
    tensors = untrusted.unique_tensors(model)
    weights = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    stored = rounding.quantise_matrices(weights) if dtype == "int8" else {}
    for name, tensor in weights.items():
        if name not in stored:
            is_float = tensor.is_floating_point()
            stored[name] = (tensor.to(float_dtype) if is_float else tensor).contiguous()
    return stored


def load(folder: str | Path, device: str = "cpu") -> Bundle:
    """Load a model folder.

    folder  path of a model folder or run folder, name of an included model, or
            ``hf:USER/NAME@REVISION`` on the Hugging Face hub
    device  auto (the fastest), cpu, cuda, mps, ...

    Weights are float32. Raises ``UserError`` if the folder is missing, incomplete or of another
    format, if its vocabulary or weights do not fit the model, or if the device is not usable. ::

        bundle = musictx.load("piano")
        logits = bundle.model(torch.tensor([[1]]))
    """
    torch_device = choose_device(device)
    folder = locate(folder)
    config = read_config(folder)
    tokenizer = _read_tokenizer(folder / "tokenizer.json", config)
    weights = folder / "model.safetensors"
    shapes = untrusted.read_shapes(weights)
    arguments = config["model"]
    with untrusted.errors_about(folder / "config.json"):
        untrusted.check_arguments(arguments, tokenizer)
        options = NetworkConfig(**arguments).user_options()
        if options["attention"] != "reference":  # others may be unavailable on this machine
            options["attention"] = "auto"
        model = untrusted.build(complete_arguments(options, tokenizer), shapes)
    _load_weights(model, weights)
    model = model.to(device=torch_device, dtype=torch.float32).eval().requires_grad_(False)
    return Bundle(model=model, tokenizer=tokenizer, card=config["card"], folder=folder)


def choose_device(name: str) -> torch.device:
    """Return the device ``name``, or for ``auto`` the fastest device of this machine. Raises
    ``UserError`` if the device cannot be used."""
    if str(name) == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(shown(name))
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"device={shown(name)}: not usable on this machine ({reason(error)}); "
            "try device=auto or device=cpu"
        ) from None
    return device


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json of a model folder. Raises ``UserError`` if it is damaged or of another
    format."""
    path = folder / "config.json"
    config = read_json(path)
    if config.get("format") not in _READABLE:
        raise UserError(
            f"{path}: format {shown(config.get('format'))}, written by musictx "
            f"{shown(config.get('musictx'))}; expected format {FORMAT}: install that version"
        )
    for key in ("model", "vocabulary"):
        if not isinstance(config.get(key), dict):
            raise UserError(f"{path}: the entry {key!r} is missing; the file is damaged")
    config["card"] = config.get("card") or {}
    check_card(config["card"], f"{path}: card")
    return config


def _read_tokenizer(path: Path, config: Mapping[str, Any]) -> Tokenizer:
    """Read the tokenizer of a model folder. Raises ``UserError`` if the model was trained with
    another vocabulary."""
    arguments = read_options(path)
    untrusted.check_import(arguments.get("name", ""), f"{path}: tokenizer.name")
    with untrusted.errors_about(path):
        tokenizer = build_tokenizer(**arguments)
    if tokenizer.fingerprint != (expected := config["vocabulary"].get("fingerprint")):
        raise UserError(
            f"{path}: its vocabulary is {tokenizer.fingerprint} but the model was trained with "
            f"{shown(expected)}; use the tokenizer.json that belongs to this model, and musictx "
            f"{shown(config.get('musictx'))}"
        )
    return tokenizer


def _load_weights(model: nn.Module, path: Path) -> None:
    """Copy the weights of a file into ``model``. Raises ``UserError`` unless they have the names,
    shapes and kinds of numbers of the model's, and are finite."""
    with untrusted.errors_about(path):
        stored = rounding.dequantise_matrices(load_file(path))
    expected = untrusted.unique_tensors(model)
    for name in sorted(expected.keys() | stored.keys()):
        ours, theirs = (_description(tensors.get(name)) for tensors in (expected, stored))
        if ours != theirs:
            raise UserError(
                f"{path}: the weights do not fit the model: {name} is {theirs} where the model has "
                f"{ours}"
            )
        tensor = expected[name]
        if not torch.isfinite(stored[name].to(tensor.dtype)).all():
            raise UserError(f"{path}: {name} has numbers that are not finite (NaN or infinity)")
        with torch.no_grad():
            tensor.copy_(stored[name])


def _description(tensor: torch.Tensor | None) -> str:
    """Return what must be the same in a stored tensor: its shape, and whether it has floats."""
    if tensor is None:
        return "missing"
    return f"{tuple(tensor.shape)} {'floats' if tensor.is_floating_point() else 'integers'}"
