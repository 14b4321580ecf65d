"""Words of ``musictx train`` -> a checked configuration, composed by Hydra. Hydra has no part in
other commands: :func:`musictx.options.request` makes their configurations.

words         converts the words to overrides of Hydra; refuses wrong ones in one sentence
finetuning    the included model that training starts from by default
run           composes a configuration and trains with it, once or as a sweep
sweep         the table of the runs of a sweep

:func:`compose` only returns a configuration.
"""

from __future__ import annotations

from collections.abc import Sequence

from musictx.commands import conf_dir
from musictx.compose import finetuning
from musictx.compose.run import as_config, register, translated
from musictx.compose.words import normalise
from musictx.config import TrainConfig


def compose(words: Sequence[str] = ()) -> TrainConfig:
    """The checked options of ``musictx train`` with ``words`` such as ``model=tiny`` or ``seed=1``.

    Raises :class:`~musictx.errors.ConfigError` in one sentence for an unknown option, an unknown
    choice or an invalid value.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    words, _ = finetuning.train_words(normalise(words))
    register()
    GlobalHydra.instance().clear()
    try:
        with translated(), initialize_config_dir(str(conf_dir()), version_base="1.3"):
            return as_config(hydra_compose("train", words))
    finally:
        GlobalHydra.instance().clear()
