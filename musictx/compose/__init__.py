"""Words of the command line -> a checked configuration. Hydra composes and runs ``train`` alone;
all other commands are composed by ``musictx.options``.

words         words of train -> overrides that Hydra takes, or one sentence
finetuning    the included model that training starts from by default
passthrough   options that Lightning's Trainer or an optimizer takes, not musictx itself
run           runs a command; train by Hydra, once or as a sweep
sweep         the table of the runs of a sweep
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from musictx.commands import conf_dir
from musictx.compose import finetuning
from musictx.compose.run import as_config, composed, register, run, translated
from musictx.compose.words import normalise

__all__ = ["compose", "run"]


def compose(command: str, overrides: Sequence[str] = ()) -> Any:
    """The checked dataclass of ``command`` with ``overrides`` such as ``model=tiny`` or ``seed=1``.

    Raises :class:`~musictx.errors.ConfigError` in one sentence for an unknown option, a choice that
    does not exist or a value that cannot be.
    """
    if command != "train":
        return composed(command, overrides)
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    words, _ = finetuning.train_words(normalise(overrides))
    register()
    GlobalHydra.instance().clear()
    try:
        with (
            translated(),
            initialize_config_dir(str(conf_dir()), version_base="1.3"),
        ):
            return as_config(hydra_compose("train", words))
    finally:
        GlobalHydra.instance().clear()
