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
    """``K`` ids that may follow each of (B, T) ids. The state of a feature; subclasses add fields.

    ids    (B, T, K): the predicted ids; 0: none
    trust  (B, T, K): the class of confidence in each
    field  (B, T): the field of its group to which the next id belongs; 0 for tokens without groups
    """

    ids: Tensor
    trust: Tensor
    field: Tensor


class Predicted(Feature):
    """Scores of predicted ids.

    classes  the number of classes of confidence
    scores   (fields * K * classes, width): by field, number of the id (0 to K - 1), class
    """

    classes: int
    scores: nn.Parameter

    def score(self, logits: Tensor, x: Tensor, seen: Predictions) -> Tensor:
        """``logits`` (B, T, vocab) plus the scores of the predicted ids."""
        row = self._by_class(seen) + seen.field[..., None] * (seen.ids.shape[2] * self.classes)
        scores = F.linear(x, self.scores.flatten(0, -2)).float().gather(2, row) * (seen.ids > 0)
        return logits.scatter_add(2, seen.ids, scores.to(logits.dtype))

    def _by_class(self, seen: Predictions) -> Tensor:
        """The row of each predicted id in a table by number and class: (B, T, K)."""
        number = torch.arange(seen.ids.shape[2], device=seen.ids.device)
        return seen.trust + number * self.classes
