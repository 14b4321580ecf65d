"""Compose the configuration of ``train`` with Hydra and call a task with it: once, or for each run
of a sweep, or not at all if --cfg only prints the configuration."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from musictx import registry
from musictx.commands import conf_dir, options_of
from musictx.config import TrainConfig
from musictx.config.checks import default_of
from musictx.config.trainer import LIGHTNING_FLAGS
from musictx.errors import ConfigError, UserError, reason, shown
from musictx.hydra_config import finetuning
from musictx.hydra_config.overrides import normalise
from musictx.options import make_config


def train(
    arguments: Sequence[str],
    task: Callable[[TrainConfig], Any],
    *,
    flags: Mapping[str, str] = MappingProxyType({}),
    folders: Sequence[Path] = (),
) -> None:
    """Compose a configuration from the command-line ``arguments`` and call ``task`` with it.

    flags    Hydra's flags with their values, already checked: {"--cfg": "job", ...}
    folders  the folder of --config-dir, if any

    A sweep calls ``task`` for each of its runs and passes their ``validation_loss`` to the sweeper.
    Raises :class:`ConfigError` if Hydra cannot compose a configuration, and the errors of ``task``;
    in a sweep, after the other runs.
    """
    overrides = normalise(arguments, sweep="--multirun" in flags, folders=folders)
    if "--config-name" not in flags:  # otherwise the user's file chooses the initial model
        overrides, line = finetuning.train_overrides(overrides)
        if line is not None and "--cfg" not in flags and not os.environ.get("LOCAL_RANK"):
            print(line, flush=True)
    hydra_flags = [text for flag in flags.items() for text in flag if text]
    import hydra  # takes half a second; most mistakes have been reported by now
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from musictx.hydra_config import sweep

    register()
    hydra_of_caller = GlobalHydra.instance().hydra  # the calling program may use Hydra itself
    GlobalHydra.instance().clear()
    task_errors: list[Exception] = []  # from as_config and task, not from Hydra

    @hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")
    def job(composed: Any) -> float | None:
        settings = HydraConfig.get()
        in_sweep = settings.mode == RunMode.MULTIRUN
        try:
            config, run_arguments = as_config(composed, settings.overrides.task), list(arguments)
            if in_sweep:
                _set_run_folder(config, settings.sweep)
                out = [] if config.out is None else [f"out={config.out}"]
                run_arguments = [*settings.overrides.task, *out]
            # Lightning starts further processes with sys.argv, which must have the options of this
            # run, not those of the sweep.
            with _argv(["train", *(f for f in hydra_flags if f != "--multirun"), *run_arguments]):
                result = task(config)
        except UserError as error:
            # Raised below, since Hydra would print it in several lines and end a sweep.
            task_errors.append(error)
            result = error
        except Exception as error:
            task_errors.append(error)
            if not in_sweep:
                raise
            traceback.print_exc()  # perhaps of a user's own class; the sweep continues
            result = UserError(f"{type(error).__name__}: {reason(error)}")
        return sweep.write_result(settings, result) if in_sweep else None

    os.environ["HYDRA_FULL_ERROR"] = "1"  # lets Hydra raise errors instead of printing them
    try:
        with _argv([*hydra_flags, *overrides]):
            job()
    except Exception as error:
        raise error if error in task_errors else _in_one_line(error) from error
    finally:  # also after Ctrl-C
        failure = sweep.report()
        GlobalHydra.instance().hydra = hydra_of_caller
    if failure or task_errors:
        raise failure or task_errors[0]


def compose(arguments: Sequence[str] = ()) -> TrainConfig:
    """Return the checked options of ``musictx train`` with ``arguments``, such as ``model=tiny``.
    Raises :class:`~musictx.errors.ConfigError` for an unknown option or an invalid value."""
    configs: list[TrainConfig] = []
    train(arguments, configs.append)
    return configs[0]


def as_config(composed: Any, overrides: Sequence[str]) -> TrainConfig:
    """Return the configuration ``composed`` by Hydra as the checked dataclass of train.

    Flags of Lightning's Trainer are moved from ``trainer`` to ``trainer.flags``, and arguments of
    a custom optimizer from ``optim`` to ``optim.params``, which a YAML file may also set;
    ``betas``, which presets for AdamW set, only if it is in ``overrides``. ``optim._target_:
    module.Class`` becomes ``optim.name``, module:Class.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        options: Any = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise _in_one_line(error) from error
    trainer, optim = options.get("trainer"), options.get("optim")
    if not isinstance(trainer, dict) or not isinstance(optim, dict):
        raise ConfigError(
            "--config-name: expected a file with train among its defaults, so that it has all "
            "options of musictx train"
        )
    trainer["flags"] = {name: trainer.pop(name) for name in LIGHTNING_FLAGS if name in trainer}
    if "_target_" in optim:
        optim["name"] = ":".join(str(optim.pop("_target_")).rsplit(".", 1))
    if ":" in str(optim["name"]) and isinstance(params := optim.setdefault("params", {}), dict):
        extra = [name for name in optim if f"optim.{name}" not in options_of("train")]
        extra += ["betas"] * any(text.startswith("optim.betas=") for text in overrides)
        params |= {name: optim.pop(name) for name in extra}
    config: TrainConfig = make_config("train", options)
    return config


@cache
def register() -> None:
    """Register with Hydra the defaults of all options, as ``train_schema``, and the YAML folders of
    optional components."""
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
    node = OmegaConf.create()
    for name, field in options_of("train").items():
        OmegaConf.update(node, name, default_of(field))
    del node.position  # set by the YAML file of a scheme
    node.trainer.update(node.trainer.pop("flags"))
    del node.optim.params
    ConfigStore.instance().store(name="train_schema", node=node)


def _set_run_folder(config: TrainConfig, settings: Any) -> None:
    """Set ``config.out`` to the ``dir`` and ``subdir`` of ``settings`` (``hydra.sweep``), unless
    ``dir`` is the default of ``conf/hydra/default.yaml``, multirun/DATE/TIME."""
    if re.fullmatch(r"multirun/[\d-]+/[\d-]+", str(settings.dir)):
        return
    folder = str(Path(settings.dir) / str(settings.subdir))
    if config.out is not None and Path(config.out) != Path(folder):
        raise ConfigError(
            f"hydra.sweep.dir={folder} out={config.out}: both name the run folder; give one"
        )
    config.out = folder


@contextmanager
def _argv(arguments: Sequence[str]) -> Iterator[None]:
    old = sys.argv
    sys.argv = [old[0], *arguments]
    try:
        yield
    finally:
        sys.argv = old


def _in_one_line(error: Exception) -> UserError:
    """Return Hydra's ``error`` as a :class:`ConfigError` in one line that begins with the name of
    the wrong option or file; a ``UserError`` is returned unchanged."""
    if isinstance(error, UserError):
        return error
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = " ".join(str(cause).split()) or type(cause).__name__
    override = re.search(r"Error merging override \+*~?(\S+)", str(error))
    key = override or re.search(r"full_key: (\S+)", text)
    about = getattr(error, "override", None) or (key[1] if key else "options")
    text = re.sub(r" (full_key|object_type|reference_type)[:=].*", "", text)
    if text.endswith("is not in struct"):
        names = ", ".join(map(str, getattr(cause, "parent_node", None) or ["none"]))
        text = f"no such name; expected {names}"
    return ConfigError(f"{about}: {shown(text)}")
