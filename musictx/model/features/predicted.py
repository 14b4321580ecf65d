"""Base class of features that predict ids, such as what followed an earlier, equal passage.

:meth:`Feature.read` of a subclass finds the predicted ids. Each has a class of confidence, such as
the length of the repeated passage; learned weights of its class raise or lower its logit.

Related: the neural cache (Grave et al. 2017), pointer networks (Vinyals et al. 2015).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.model.features.base import Feature


@dataclass
class Predictions:
    """``K`` ids that may follow each of (B, T) ids: the state of a feature. Subclasses add fields.

    ids         (B, T, K): the predicted ids; 0: none
    confidence  (B, T, K): the class of confidence in each
    field       (B, T): the number of the next id in its group; 0 for tokens without groups
    """

    ids: Tensor
    confidence: Tensor
    field: Tensor


class PredictionFeature(Feature):
    """A feature that scores predicted ids.

    classes  the number of classes of confidence
    scores   (fields * K * classes, width): a vector for each field, number of the prediction (0 to
             K - 1) and class, whose product with the output of the layers is the score
    """

    classes: int
    scores: nn.Parameter

    def score(self, logits: Tensor, x: Tensor, state: Predictions) -> Tensor:
        row = self._rows(state) + state.field[..., None] * (state.ids.shape[2] * self.classes)
        scores = F.linear(x, self.scores.flatten(0, -2)).float().gather(2, row) * (state.ids > 0)
        return logits.scatter_add(2, state.ids, scores.to(logits.dtype))

    def _rows(self, state: Predictions) -> Tensor:
        """The row of each prediction in a table by number and class: (B, T, K)."""
        number = torch.arange(state.ids.shape[2], device=state.ids.device)
        return state.confidence + number * self.classes
