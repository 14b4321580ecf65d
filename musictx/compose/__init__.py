"""Words of the command line -> a checked configuration; Hydra composes and runs train, prepare,
evaluate and compare.

core       the commands of the core: what each says of itself
commands   all commands, wings' included, their options and the files of conf/
words      words as typed -> overrides that Hydra takes, or one sentence
own        with what a training of your own music begins
beside     what groups take beside our own options: flags of Lightning's, an optimizer's arguments
plain      the commands that Hydra has no part in
problems   an exception of Hydra or OmegaConf -> one sentence
run        Hydra runs the command, once or as a sweep
sweep      what a sweep leaves: a table of its runs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from musictx.compose import own, plain
from musictx.compose.commands import COMMANDS, conf_dir, groups, main_file, register
from musictx.compose.problems import translated
from musictx.compose.run import as_config, run
from musictx.compose.words import normalise

__all__ = ["COMMANDS", "compose", "conf_dir", "groups", "run"]


def compose(command: str, overrides: Sequence[str] = ()) -> Any:
    """The checked dataclass of ``command`` with ``overrides`` such as ``model=tiny`` or ``seed=1``.

    Raises :class:`~musictx.errors.ConfigError` in one sentence for an unknown option, a choice that
    does not exist or a value that cannot be.
    """
    if main_file(command) is None:
        composed = plain.compose(command, overrides)
        with translated(command):
            return as_config(command, composed)
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    words = normalise(command, overrides)
    words, _ = own.added(command, words)
    register()
    GlobalHydra.instance().clear()
    try:
        with (
            translated(command),
            initialize_config_dir(str(conf_dir()), version_base="1.3"),
        ):
            return as_config(command, hydra_compose(command, words))
    finally:
        GlobalHydra.instance().clear()
