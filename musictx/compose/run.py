"""Runs a command: Hydra does it for ``train``, once, as a sweep, or to show what it composed."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from musictx import registry
from musictx.commands import COMMANDS, conf_dir, options_of
from musictx.compose import finetuning, passthrough, sweep
from musictx.compose.words import normalise
from musictx.config import SCHEMES
from musictx.errors import ConfigError, UserError, shown
from musictx.options import home, parse, request

#: Flags of commands that Hydra has no part in, of all those of ``cli.FLAGS``.
FLAGS = ("--cfg", "--config-dir")


def composed(
    command: str,
    typed: Sequence[str],
    folders: Sequence[Path] = (),
    notice: Callable[[str], None] = lambda line: None,
) -> Any:
    """The checked dataclass of a command other than train, from the words of its command line."""
    options = parse(command, typed, folders)
    if command == "prepare":
        options, line = finetuning.prepare_options(options)
        if line is not None:
            notice(line)
    return request(command, options, folders=folders)


def run(
    command: str,
    typed: Sequence[str],
    task: Callable[[Any], Any],
    *,
    flags: Sequence[str] = (),
    folders: Sequence[Path] = (),
) -> None:
    """Compose ``command`` from the words ``typed`` and call ``task`` with its configuration.

    flags    checked, most of them Hydra's: --multirun, --cfg job, --config-dir DIR, ...
    folders  that of --config-dir

    A sweep calls ``task`` for each of its runs and gives their ``validation_loss`` to the sweeper.
    Raises :class:`ConfigError` in one sentence for what cannot be composed, and whatever ``task``
    raises.
    """
    if command == "train":
        _train(typed, task, flags, folders)
        return
    for flag in flags:
        if flag.startswith("-") and flag not in FLAGS:
            more = "; samples=N writes several pieces" if "samples" in options_of(command) else ""
            raise ConfigError(f"{flag}: a flag of musictx train, as Hydra composes it alone{more}")
    shows = "--cfg" in flags
    if shows and (part := flags[flags.index("--cfg") + 1]) != "job":
        raise ConfigError(f"--cfg={part}: expected job; Hydra has no part in musictx {command}")
    notice = (lambda line: None) if shows else partial(print, flush=True)
    config = composed(command, typed, folders, notice)
    if shows:
        import yaml

        print(yaml.safe_dump(dataclasses.asdict(config), sort_keys=False), end="")
        return
    task(config)


def _train(
    typed: Sequence[str],
    task: Callable[[Any], Any],
    flags: Sequence[str],
    folders: Sequence[Path],
) -> None:
    words = normalise(typed, sweep="--multirun" in flags, folders=folders)
    if "--config-name" not in flags:  # that file says how to begin
        words, line = finetuning.train_words(words)
        if line is not None and "--cfg" not in flags and not os.environ.get("LOCAL_RANK"):
            print(line, flush=True)
    import hydra  # half a second, and mistakes are reported before
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    register()

    failed: list[UserError] = []
    entered: list[bool] = []

    @hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")
    def job(composed: Any) -> float | None:
        entered.append(True)
        settings = HydraConfig.get()
        in_sweep = settings.mode == RunMode.MULTIRUN
        options = list(settings.overrides.task)
        result: Any = None
        try:
            with translated():
                config = as_config(composed)
            its_words = list(typed)
            _run_folder(config, settings, in_sweep)
            if in_sweep:
                its_words = options if config.out is None else [*options, f"out={config.out}"]
            # Lightning starts its other processes by the command line: that of this run alone.
            with _argv(["train", *(f for f in flags if f != "--multirun"), *its_words]):
                result = task(config)
        except UserError as error:  # reported here, since Hydra would print more
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
        composing = translated(lambda: bool(entered))
        with composing, _argv([*flags, *words]), _environment("HYDRA_FULL_ERROR", "1"):
            job()
    finally:
        for folder in dirs:
            with suppress(OSError):  # what is not empty stays
                folder.rmdir()
        sweep.finish()
    if failed:
        raise failed[0]


def as_config(composed: Any) -> Any:
    """The YAML that Hydra composed as the checked dataclass of train, ``~`` in paths expanded."""
    from omegaconf import OmegaConf

    passthrough.gather(composed)
    config = OmegaConf.to_object(composed)
    if not isinstance(config, COMMANDS["train"].config):
        raise ConfigError(
            "--config-name: expected a file with train among its defaults, so that it has all "
            "options of musictx train"
        )
    return _expanded(config)


def _expanded(node: Any) -> Any:
    for f in dataclasses.fields(node):
        value = getattr(node, f.name)
        if dataclasses.is_dataclass(value):
            _expanded(value)
        elif f.metadata.get("path") and isinstance(value, str):
            setattr(node, f.name, home(value))
        elif f.metadata.get("path") and isinstance(value, list):
            setattr(node, f.name, [home(one) for one in value])
    return typing.cast(Any, node)


@cache
def register() -> None:
    """Register the dataclasses with Hydra, train_schema and position/SCHEME_schema, and the folders
    of YAML files of optional components."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.config_store import ConfigStore
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf import OmegaConf

    class AddedFolders(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            for folder in registry.CONF:
                search_path.append("musictx.registry", f"file://{folder}")

    Plugins.instance().register(AddedFolders)
    store = ConfigStore.instance()
    node = OmegaConf.structured(COMMANDS["train"].config)
    node.position = {}  # each file of conf/position brings the dataclass of its scheme
    for group, option in passthrough.HOLDERS.items():
        OmegaConf.set_struct(node[group], False)
        del node[group][option]
    store.store(name="train_schema", node=node)
    for name, scheme in SCHEMES.items():
        store.store(group="position", name=f"{name}_schema", node=scheme)


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


@contextmanager
def translated(entered: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Exceptions of Hydra, OmegaConf and YAML in the block are raised as :class:`ConfigError`, and
    so is any other exception until ``entered`` is true, since a file of options caused it."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        from_hydra = type(error).__module__.partition(".")[0] in ("hydra", "omegaconf", "yaml")
        if entered() and not from_hydra:
            raise
        raise ConfigError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    """What Hydra says, in one line, and the option or file that it is about."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = " ".join(str(cause).split()) or type(cause).__name__
    override = re.search(r"Error merging override \+*~?(\S+)", str(error))
    key = override or re.search(r"full_key: (\S+)", text)
    about = getattr(error, "override", None) or (key[1] if key else "options")
    return f"{about}: {shown(re.sub(r' (full_key|object_type|reference_type)[:=].*', '', text))}"
