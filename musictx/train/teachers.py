"""Distillation: a network learns what others say of the next token, beside what it was.

An ensemble is better than each of its networks, and what it holds likely tells more than the one
token that came (Hinton, Vinyals and Dean 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from musictx import bundle
from musictx.data.windows import UNSCORED, Batch
from musictx.errors import ConfigError, UserError
from musictx.tokens.vocab import Tokenizer


class Teachers:
    """Trained ``models``, which are never changed; ``share`` of a loss is theirs.

    No part of the module that is trained: they are in no checkpoint, optimizer or average.
    """

    def __init__(self, models: Sequence[nn.Module], share: float) -> None:
        self.models = [model.requires_grad_(False).eval() for model in models]
        self.share = share

    @torch.no_grad()
    def probabilities(self, batch: Batch) -> Tensor:
        """(B, T, vocab) float32: the mean of the models' probabilities, without token noise."""
        total = torch.zeros((), device=batch.ids.device)
        for model in self.models:
            logits = model.to(batch.ids.device)(batch.ids, piece_ids=batch.piece_ids)
            total = total + logits.float().softmax(-1)
        return total / len(self.models)

    def nats(self, logits: Tensor, batch: Batch) -> Tensor:
        """The cross entropy of ``logits`` (B, T, vocab) to :meth:`probabilities`, summed over the
        positions with a target."""
        each = -(self.probabilities(batch) * logits.float().log_softmax(-1)).sum(-1)
        return each[batch.targets != UNSCORED].sum()


def locate(folders: Sequence[str]) -> list[Path]:
    """The model folders meant by ``folders``; ``UserError`` naming the option for what is none."""
    try:
        return [bundle.locate(folder) for folder in folders]
    except UserError as error:  # begins with the folder
        raise UserError(f"teachers={error}") from None


def load(folders: Sequence[str], share: float, tokenizer: Tokenizer) -> Teachers | None:
    """The models of ``folders``, calibrated if they are; None where they would have no part.

    Raises ``ConfigError`` for a model whose tokens are not those of ``tokenizer``.
    """
    if not folders or not share:
        return None
    loaded = [bundle.load(folder) for folder in locate(folders)]
    for folder, teacher in zip(folders, loaded):
        if teacher.tokenizer.fingerprint != tokenizer.fingerprint:
            raise ConfigError(
                f"teachers={folder}: expected a model with the tokens of this training "
                f"({tokenizer.name}, {tokenizer.size} ids), its own are "
                f"{teacher.tokenizer.name}, {teacher.tokenizer.size} ids"
            )
    return Teachers([teacher.model for teacher in loaded], share)
