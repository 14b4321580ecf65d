"""Continuations of several primers in one batch, one of each.

:func:`~musictx.sampling.music.continue_music` makes several pieces of one primer. Rows of a batch
share their number of cached tokens, so primers of different length need a rule here: all rows read
as many tokens as the shortest primer has, the others only the last of theirs, after ``cut``. Give
primers of similar length together and little is lost; the music keeps all of each primer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from musictx.config import SamplingConfig
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine, processors
from musictx.sampling.constraints import All, Constraint, GrammarConstraint
from musictx.sampling.music import Primer, Progress, Sample, ceiling, finish, soft, wishes
from musictx.tokens.vocab import BOS, CUT, PAD, Tokenizer

#: The primer of a new piece.
NOTHING = Primer(np.empty(0, np.uint16), 0.0)


def continue_each(
    model: MusicTransformer,
    tokenizer: Tokenizer,
    primers: Sequence[Primer],
    *,
    seconds: float,
    seeds: Sequence[Sequence[int]],
    sampling: SamplingConfig | None = None,
    may_end: bool = False,
    habits: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> list[Sample]:
    """One continuation of ``seconds`` for each primer, all in one batch.

    seeds    one a row: a row's draws do not depend on the others, though what it reads of its
             primer does (see the top of the file)
    may_end  let the model end a piece before that (after a new note)

    The other arguments and the samples are those of ``continue_music``; the score of each has its
    primer first.
    """
    if not primers or len(seeds) != len(primers):
        raise ValueError(f"seeds: expected one for each of {len(primers)} primers, at least one")
    sampling = sampling or SamplingConfig()
    align = tokenizer.align
    laws = [
        GrammarConstraint(
            [tokenizer.grammar(primer.ids)], may_end=may_end, until=primer.seconds + seconds
        )
        for primer in primers
    ]
    constraint = Rows(
        [
            All(law, *wishes(tokenizer, sampling, habits or {}, primer.ids, 1))
            for law, primer in zip(laws, primers)
        ]
    )

    def written() -> list[float]:
        return [law.states[0].seconds for law in laws]

    drawn: list[list[int]] = [[] for _ in primers]
    for ids in engine.generate(
        model,
        prompts([primer.ids for primer in primers], int(model.config["context"]), align),
        rows=len(primers),
        max_tokens=ceiling(seconds, None),
        processors=[*soft(tokenizer, sampling), *processors.build(sampling)],
        constraint=constraint,
        groups=tokenizer.kind_of,
        seeds=seeds,
        align=align,
    ):
        count = 0
        for row, token_id in zip(drawn, ids.tolist()):
            if token_id != PAD:
                row.append(token_id)
                count += 1
        if progress is not None:
            progress(count, min(at - p.seconds for at, p in zip(written(), primers)))
    return [
        finish(
            tokenizer,
            primer,
            row,
            at,
            until=primer.seconds + seconds,
            tokens=None,
            include_primer=True,
        )
        for primer, row, at in zip(primers, drawn, written())
    ]


def prompts(pasts: Sequence[np.ndarray], context: int, align: int = 1) -> np.ndarray:
    """(rows, n + 1) int64: ``bos`` and a past of n ids, or ``cut`` and the last n of a longer one.

    n is the length of the shortest past, or what the context holds beside the first id; a multiple
    of ``align`` where a past is cut, so that pasts of whole groups are cut between groups."""
    n = min(context - 1, *map(len, pasts))
    if n < max(map(len, pasts)):
        n -= n % align
    rows = np.full((len(pasts), n + 1), CUT, np.int64)
    for row, past in zip(rows, pasts):
        if len(past) == n:
            row[0] = BOS
        row[1:] = past[len(past) - n :]
    return rows


class Rows:
    """A :class:`~musictx.sampling.constraints.Constraint` of one row each, as one of many rows."""

    def __init__(self, rows: Sequence[Constraint]) -> None:
        self.rows = rows

    def allowed(self) -> Tensor:
        return torch.cat([row.allowed() for row in self.rows])

    def advance(self, ids: Tensor) -> None:
        for row, token_id in zip(self.rows, ids.split(1)):
            row.advance(token_id)

    def done(self) -> Tensor:
        return torch.cat([row.done() for row in self.rows])
