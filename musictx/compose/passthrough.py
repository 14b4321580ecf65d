"""Pass-through options: flags of Lightning's Trainer and arguments of a custom optimizer.

In YAML and on the command line they look like options of musictx (``trainer.profiler=simple``); the
dataclass holds them together in one option (``trainer.flags``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from musictx.commands import free_form
from musictx.config import checks
from musictx.config.trainer import PASSED_ON
from musictx.errors import ConfigError
from musictx.options import unknown_option

#: Group -> the option of its dataclass that holds them.
HOLDERS = {"trainer": "flags", "optim": "params"}


def typed(words: Sequence[str]) -> list[str]:
    """The pass-through options that ``words`` may set; a group stands for all below it."""
    custom = any(re.match(r"\+*optim\.(name=.*:|_target_=)", word) for word in words)
    return [*(f"trainer.{flag}" for flag in PASSED_ON), *(["optim"] if custom else [])]


def gather(composed: Any) -> None:
    """Move the pass-through options in the composed groups to the option that holds them.

    ``_target_: module.Class`` is the ``name`` of an optimizer, ``module:Class``. Raises
    :class:`ConfigError` for what is none of these.
    """
    from omegaconf import OmegaConf

    for group, option in HOLDERS.items():
        node = composed.get(group)
        if node is None:
            continue
        declared = {name for name, _ in checks.options(OmegaConf.get_type(node))}  # type: ignore[arg-type]
        extra = {name: node.pop(name) for name in list(node) if name not in declared}
        if group == "optim" and "_target_" in extra:
            node.name = ":".join(str(extra.pop("_target_")).rsplit(".", 1))
        allowed = PASSED_ON if group == "trainer" else extra if ":" in node.name else ()
        for name in extra:
            if name not in allowed:
                names = [*free_form("train"), *typed([])]
                raise ConfigError(unknown_option("train", f"{group}.{name}", names))
        held = node.get(option, {})
        if not hasattr(held, "keys"):
            raise ConfigError(f"{group}.{option}={held}: expected options by name")
        node[option] = {**held, **extra}
