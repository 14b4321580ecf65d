"""Words of the command line -> a checked configuration. Hydra composes and runs ``train`` alone;
all other commands are composed by ``musictx.options``.

words         converts the words of train to overrides of Hydra; refuses wrong ones in one sentence
finetuning    the included model that training starts from by default
run           composes train with Hydra and runs it, once or as a sweep
sweep         the table of the runs of a sweep

:func:`compose` only returns a configuration; :func:`train` composes one and runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from musictx import options
from musictx.commands import conf_dir
from musictx.compose import finetuning
from musictx.compose.run import as_config, register, train, translated
from musictx.compose.words import normalise

__all__ = ["compose", "train"]


def compose(
    command: str,
    words: Sequence[str] = (),
    folders: Sequence[Path] = (),
    notice: Callable[[str], None] = lambda line: None,
) -> Any:
    """The checked dataclass of ``command`` with ``words`` such as ``model=tiny`` or ``seed=1``.

    ``folders`` have YAML files of the user's; ``notice`` is called with a line about any default
    that was chosen for the user. Raises :class:`~musictx.errors.ConfigError` in one sentence for an
    unknown option, an unknown choice or an invalid value.
    """
    if command == "train":
        return _composed_by_hydra(words)
    given = options.parse(command, words)
    if command == "prepare":
        given, line = finetuning.prepare_options(given)
        if line is not None:
            notice(line)
    return options.request(command, given, folders=folders)


def _composed_by_hydra(words: Sequence[str]) -> Any:
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
