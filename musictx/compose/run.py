"""Runs a command: Hydra does it once, as a sweep, or to show what it composed; those that are no
Hydra's are composed by ``plain`` and run once."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from musictx.compose import beside, own, plain, sweep
from musictx.compose.commands import COMMANDS, conf_dir, main_file, register
from musictx.compose.problems import translated
from musictx.compose.words import normalise
from musictx.errors import ConfigError, UserError


def run(
    command: str,
    typed: Sequence[str],
    task: Callable[[Any], Any],
    *,
    flags: Sequence[str] = (),
    folders: Sequence[Path] = (),
) -> None:
    """Compose ``command`` from the words ``typed`` and call ``task`` with its configuration.

    flags    checked, most of them Hydra's own: --multirun, --cfg job, --config-dir DIR, ...
    folders  that of --config-dir

    A sweep calls ``task`` for each of its runs and gives their ``validation_loss`` to the sweeper.
    Raises :class:`ConfigError` in one sentence for what cannot be composed, and whatever ``task``
    raises.
    """
    if main_file(command) is None:
        plain.check_flags(command, flags)
        composed = plain.compose(command, typed, folders)
        if "--cfg" in flags:
            plain.show(composed)
            return
        with translated(command):
            config = as_config(command, composed)
        task(config)
        return
    words = normalise(command, typed, sweep="--multirun" in flags, folders=folders)
    if "--config-name" not in flags:  # that file says how to begin
        words, line = own.added(command, words)
        if line is not None and "--cfg" not in flags and not os.environ.get("LOCAL_RANK"):
            print(line, flush=True)
    import hydra  # half a second, and a mistake is told before
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    register()

    failed: list[UserError] = []
    entered: list[str] = []

    @hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=command)
    def job(composed: Any) -> float | None:
        entered.append(command)
        settings = HydraConfig.get()
        in_sweep = settings.mode == RunMode.MULTIRUN
        options = list(settings.overrides.task)
        result: Any = None
        try:
            with translated(command):
                config = as_config(command, composed)
            its_words = list(typed)
            if command == "train":
                _run_folder(config, settings, in_sweep)
                if in_sweep:
                    its_words = options if config.out is None else [*options, f"out={config.out}"]
            # Lightning starts its other processes by the command line: that of this run alone.
            with _argv([command, *(f for f in flags if f != "--multirun"), *its_words]):
                result = task(config)
        except UserError as error:  # told here and not by Hydra, which would say more
            if not in_sweep:
                failed.append(error)
                return None
            result = error
        if in_sweep:
            return sweep.keep(settings, options, result)
        return None

    dirs = [Path(w.split("=", 1)[1].strip("'\"")) for w in words if w.startswith("hydra.run.dir=")]
    dirs = [folder for folder in dirs if not folder.exists()]  # Hydra makes it before the job
    try:
        composing = translated(command, lambda: bool(entered))
        with composing, _argv([*flags, *words]), _environment("HYDRA_FULL_ERROR", "1"):
            job()
    finally:
        for folder in dirs:
            with suppress(OSError):  # what is not empty stays
                folder.rmdir()
        sweep.finish()
    if failed:
        raise failed[0]


def as_config(command: str, composed: Any) -> Any:
    """The composed YAML as the checked dataclass of ``command``, ``~`` in paths expanded: of a name
    that nobody has here, such as that of a file ~song.mid, the path is made whole."""
    from omegaconf import OmegaConf

    beside.gather(command, composed)
    config = OmegaConf.to_object(composed)
    if not isinstance(config, COMMANDS[command].config):
        raise ConfigError(
            f"--config-name: expected a file with {command} among its defaults, so that it has all "
            f"options of musictx {command}"
        )
    return _expanded(config)


def _expanded(node: Any) -> Any:
    for f in dataclasses.fields(node):
        value = getattr(node, f.name)
        if dataclasses.is_dataclass(value):
            _expanded(value)
        elif f.metadata.get("path") and isinstance(value, str):
            setattr(node, f.name, _home(value))
        elif f.metadata.get("path") and isinstance(value, list):
            setattr(node, f.name, [_home(one) for one in value])
    return typing.cast(Any, node)


def _home(path: str) -> str:
    expanded = os.path.expanduser(path)
    return os.path.abspath(expanded) if expanded.startswith("~") else expanded


def _run_folder(config: Any, settings: Any, in_sweep: bool) -> None:
    """``hydra.run.dir`` and ``hydra.sweep.dir`` are names of the run folder where they are given
    (in ``conf/hydra/default.yaml`` they are . and multirun/DATE/TIME)."""
    if in_sweep:
        named = not re.fullmatch(r"multirun/[\d-]+/[\d-]+", str(settings.sweep.dir))
        folder = str(Path(settings.sweep.dir) / str(settings.sweep.subdir))
    else:
        named, folder = settings.run.dir != ".", str(settings.run.dir)
    if not named:
        return
    if config.out is not None and Path(config.out) != Path(folder):
        option = "hydra.sweep.dir" if in_sweep else "hydra.run.dir"
        raise ConfigError(f"{option}={folder} out={config.out}: both name the run folder; give one")
    config.out = folder


@contextmanager
def _argv(words: Sequence[str]) -> Iterator[None]:
    old = sys.argv
    sys.argv = [old[0], *words]
    try:
        yield
    finally:
        sys.argv = old


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Hydra raises its errors, instead of printing them, where HYDRA_FULL_ERROR is set."""
    old = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if old is None:
            del os.environ[name]
        else:
            os.environ[name] = old
