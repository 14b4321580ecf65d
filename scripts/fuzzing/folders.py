"""Folders that a command goes on with or takes options from: runs, samples, own configuration."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import torch
import yaml

from musictx import cli, midi
from musictx.apps import train
from musictx.errors import UserError
from musictx.evaluate.sets import LIST, read_samples
from musictx.sampling.folder import SampleFolder
from musictx.train.runs import SETTINGS, STATUS
from scripts.fuzzing import mutate
from scripts.fuzzing.kinds import KINDS, Kind
from tests.apps.train_driver import config, tune, write_corpus

SETTINGS_OF_SAMPLES = {"model": "x", "seconds": 3.0, "seed": 0}
OWN = {
    "sampling": "temperature: 0.9\ntop_k: 5\ntemperatures: {velocity: 0.8}\nrestrike: true\n",
    "optim": "defaults: [adamw]\nlr: 0.001\nbetas: [0.9, 0.99]\nschedule: rsqrt\n",
    "experiment": "# @package _global_\ndefaults:\n  - override /model: tiny\n"
    "trainer: {max_steps: 5, devices: 1}\nseed: 3\n",
}


def _quietly(run: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run()


def _training(examples: Path, folder: Path, steps: int) -> Any:
    options = {"max_steps": steps, "val_check_interval": 2, "accumulate_grad_batches": 1}
    options |= {"validation_windows": 2, "enable_progress_bar": False}
    return config(examples, str(folder), **options)


def _write_run(folder: Path) -> None:
    write_corpus(folder / "midi", 2)
    _quietly(lambda: train.run(_training(folder, folder / "run", 2)))


def _make_run(rng: Random, examples: Path, folder: Path) -> Path:
    out = folder / "run"
    shutil.copytree(examples / "run", out)
    (folder / "examples").symlink_to(examples)
    path = out / rng.choice(("last.ckpt",) * 4 + ("best.ckpt", SETTINGS, STATUS))
    if path.suffix == ".ckpt" and rng.random() < 0.9:
        torch.save(mutate.tree(rng, torch.load(path, weights_only=True)), path)
    elif path.suffix == ".ckpt":
        path.write_bytes(mutate.bytes_(rng, path.read_bytes()))
    elif rng.random() < 0.7:
        value = mutate.tree(rng, yaml.safe_load(path.read_text()))  # JSON is YAML too
        path.write_text(json.dumps(value))
    else:
        path.write_bytes(mutate.text(rng, path.read_text()).encode("utf-8", "replace"))
    return out


def _go_on(path: Path) -> object:
    asked = _training(Path(os.readlink(path.parent / "examples")), path, 3)
    return _quietly(lambda: train.run(asked))


def _write_samples(folder: Path) -> None:
    out = SampleFolder(folder / "samples", SETTINGS_OF_SAMPLES)
    for number in range(2):
        out.add(number, tune(number, 12), source="x", seam=1.0, ended="seconds")
    out.write_list()


def _make_samples(rng: Random, examples: Path, folder: Path) -> Path:
    out = folder / "samples"
    shutil.copytree(examples / "samples", out)
    path = out / LIST
    if rng.random() < 0.7:
        path.write_text(json.dumps(mutate.tree(rng, json.loads(path.read_text()))))
    else:
        path.write_bytes(mutate.text(rng, path.read_text()).encode("utf-8", "replace"))
    return out


def _take_up_samples(path: Path) -> object:
    found = SampleFolder(path, SETTINGS_OF_SAMPLES)
    for number in found.missing(3):
        midi.to_bytes(tune(number, 4))
    return read_samples(path, 0.0, 2.0)


def _make_options(rng: Random, examples: Path, folder: Path) -> Path:
    group = rng.choice(list(OWN))
    text = OWN[group]
    if rng.random() < 0.5 and group != "experiment":
        text = json.dumps(mutate.tree(rng, yaml.safe_load(text)))
    else:
        text = mutate.text(rng, text)
    path = folder / "conf" / group / "mine.yaml"
    path.parent.mkdir(parents=True)
    data = text.encode("utf-8", "replace")
    path.write_bytes(mutate.bytes_(rng, data) if rng.random() < 0.2 else data)
    return path


def _compose(path: Path) -> object:
    group = path.parent.name
    words = ["--config-dir", str(path.parents[1]), f"{group}=mine", "--cfg", "job"]
    status = _quietly(lambda: cli.main(["train", *words]))
    if status not in (0, 2):
        raise RuntimeError(f"status {status}")
    if status:
        raise UserError("refused")
    return status


KINDS |= {
    "runs": Kind(_write_run, _make_run, _go_on),
    "samples": Kind(_write_samples, _make_samples, _take_up_samples),
    "options": Kind(lambda folder: None, _make_options, _compose),
}
