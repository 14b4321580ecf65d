"""Base of features that predict ids: what would come next if a passage came again, or is given.

:meth:`Feature.read` of a subclass finds the place from which the ids are taken. Each id has a class
of confidence, such as the length of the passage that came again; learned weights by class score it.

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
    """``K`` ids that may follow each of (B, T) ids: the state of a feature, which may add fields.

    ids    (B, T, K): 0 where there is none
    trust  (B, T, K): the class of confidence in each
    field  (B, T): which field of a group is next; 0 for tokens that are no groups
    """

    ids: Tensor
    trust: Tensor
    field: Tensor


class Predicted(Feature):
    """Scores of predicted ids.

    classes  of confidence;  scores  (fields * K * classes, width) by field, number and class
    """

    classes: int
    scores: nn.Parameter

    def score(self, logits: Tensor, x: Tensor, seen: Predictions) -> Tensor:
        """``logits`` (B, T, vocab) plus the scores of the predicted ids."""
        row = self._by_class(seen) + seen.field[..., None] * (seen.ids.shape[2] * self.classes)
        scores = F.linear(x, self.scores.flatten(0, -2)).float().gather(2, row) * (seen.ids > 0)
        return logits.scatter_add(2, seen.ids, scores.to(logits.dtype))

    def _by_class(self, seen: Predictions) -> Tensor:
        """(B, T, K): the row of each number and class in a table of both."""
        number = torch.arange(seen.ids.shape[2], device=seen.ids.device)
        return seen.trust + number * self.classes
