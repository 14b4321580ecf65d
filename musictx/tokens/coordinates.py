"""Where tokens stand in time and pitch, as tables over ids: what ``position=two_d`` measures."""

from __future__ import annotations

from typing import Any

import numpy as np

from musictx.errors import ConfigError
from musictx.tokens.vocab import Tokenizer, Vocabulary


def token_coordinates(tokenizer: Tokenizer) -> dict[str, Any]:
    """``position.coordinates`` for a model of these tokens, ready for YAML:

    steps_of  for each id how many steps of time it takes: 0 for all but time shifts
    pitch_of  for each id the pitch that it strikes or releases, -1 for ids without one. Drums have
              none: their numbers name instruments, not heights

    Raises ``ConfigError`` for tokens whose time is not a sum of shifts.
    """
    vocabulary = getattr(tokenizer, "vocabulary", None)
    if not isinstance(vocabulary, Vocabulary) or not {"note_on", "time_shift"} <= set(
        vocabulary.kinds
    ):
        raise ConfigError(
            f"position.name=two_d: expected tokenizer=performance, whose time shifts add up, not "
            f"{tokenizer.name}"
        )
    kind = np.array(vocabulary.kinds)[vocabulary.kind_of]
    value = vocabulary.value_of
    return {
        "kind": "tokens",
        "steps_of": np.where(kind == "time_shift", value, 0).tolist(),
        "pitch_of": np.where(np.isin(kind, ("note_on", "note_off")), value, -1).tolist(),
    }
