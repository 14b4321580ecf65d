"""The idiom of chorales: how the sampler composes with them; see :mod:`musictx.sampling.idiom`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from musictx.chorale.rules import ending_costs, fault_costs
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import SamplingConfig
from musictx.sampling.constraints import Penalty
from musictx.sampling.idiom import Idiom
from musictx.tokens.tokenizer import GrammarState


class ChoraleIdiom(Idiom):
    """The idiom of models of chorales."""

    tokenizer: ChoraleTokenizer
    top_p = 0.9
    infill = "musictx.chorale.app:compose_gap"

    def rules(self, sampling: SamplingConfig) -> Sequence[Penalty]:
        """The cost of ending a piece, and the rules of voice leading with the weight
        ``sampling.rules``."""

        def penalty(states: Sequence[GrammarState], past: np.ndarray) -> np.ndarray:
            pieces = self.tokenizer.partial_pieces(past[:, 1:])
            costs = ending_costs(pieces, [state.seconds for state in states])
            return costs + sampling.rules * fault_costs(pieces) if sampling.rules else costs

        return [penalty]
