"""An exception of Hydra or OmegaConf as one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from musictx.errors import ConfigError, UserError, shown


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
