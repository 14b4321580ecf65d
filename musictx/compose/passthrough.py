"""Groups that take more than our own options: flags of Lightning's Trainer, arguments of an
optimizer of one's own. In YAML and on the command line they stand beside our options
(``trainer.profiler=simple``), in the dataclass together in one of its options (``trainer.flags``).
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

#: Group -> the option of its dataclass that holds the rest.
BESIDE = {"trainer": "flags", "optim": "params"}


def typed(words: Sequence[str]) -> list[str]:
    """The options beside our own that ``words`` may set; a group stands for all below it."""
    own = any(re.match(r"\+*optim\.(name=.*:|_target_=)", word) for word in words)
    return [*(f"trainer.{flag}" for flag in PASSED_ON), *(["optim"] if own else [])]


def gather(composed: Any) -> None:
    """Move what stands beside our options in the composed groups to the option that holds it.

    ``_target_: module.Class`` is the ``name`` of an optimizer, ``module:Class``. Raises
    :class:`ConfigError` for what is none of these.
    """
    from omegaconf import OmegaConf

    for group, option in BESIDE.items():
        node = composed.get(group)
        if node is None:
            continue
        ours = {name for name, _ in checks.options(OmegaConf.get_type(node))}  # type: ignore[arg-type]
        beside = {name: node.pop(name) for name in list(node) if name not in ours}
        if group == "optim" and "_target_" in beside:
            node.name = ":".join(str(beside.pop("_target_")).rsplit(".", 1))
        free = PASSED_ON if group == "trainer" else beside if ":" in node.name else ()
        for name in beside:
            if name not in free:
                names = [*free_form("train"), *typed([])]
                raise ConfigError(unknown_option("train", f"{group}.{name}", names))
        held = node.get(option, {})
        if not hasattr(held, "keys"):
            raise ConfigError(f"{group}.{option}={held}: expected options by name")
        node[option] = {**held, **beside}
