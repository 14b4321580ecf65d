"""Encoded pieces -> a shard folder: duplicates out, the split made, everything accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musictx.config import CorpusConfig
from musictx.data import splits
from musictx.data.corpora import Corpus, digest
from musictx.data.encode import Outcome
from musictx.data.report import JSON, LeftOut, Report
from musictx.data.shards import SPLITS
from musictx.data.writer import Writer
from musictx.errors import UserError
from musictx.tokens.vocab import Tokenizer

#: Fewest tokens held out of a corpus of one piece, if it has twice as many.
FEWEST_HELD_OUT = 8


class PrepareJob(NamedTuple):
    """A corpus on its way to the shard folder ``target``."""

    source: Corpus
    corpus: CorpusConfig
    tokenizer: Tokenizer
    target: Path
    key: str


def assemble(
    job: PrepareJob, outcomes: Iterable[Outcome], hashes: np.ndarray, official: np.ndarray
) -> Report:
    """Take out duplicates, split, write; see :class:`musictx.data.prepare.Encoded`.

    Raises ``UserError`` if no piece can be used.
    """
    corpus = job.corpus
    usable = np.flatnonzero(hashes != b"")
    split = np.full(len(hashes), splits.NONE, np.int8)
    first = np.arange(len(hashes))
    remarks: list[str] = []
    if job.source.published:
        split[usable] = official[usable]
    else:
        divided = splits.divide(
            hashes[usable],
            official[usable],
            validation=corpus.validation,
            test=corpus.test,
        )
        split[usable], first[usable] = divided.split, usable[divided.first]
        remarks = divided.remarks
    kept = np.flatnonzero(split != splits.NONE)
    alone = len(kept) == 1 and official[kept[0]] == splits.NONE and corpus.validation > 0
    if alone:
        remarks.append("a single piece: its end is held out as validation")
    originals = dict.fromkeys(first[usable][split[usable] == splits.NONE].tolist(), "")
    left_out: list[LeftOut] = []
    copies: list[tuple[str, int]] = []
    lossy: Counter[str] = Counter()
    description = {
        "name": job.source.label,
        "kind": corpus.name,
        "validation": corpus.validation,
        "test": corpus.test,
    }
    with Writer(
        job.target,
        fingerprint=job.tokenizer.fingerprint,
        tokenizer_config=job.tokenizer.to_config(),
        vocabulary=job.tokenizer.size,
        corpus=description,
        key=job.key,
    ) as writer:
        for i, outcome in enumerate(outcomes):
            if i in originals:
                originals[i] = outcome.name
            if outcome.reason:
                left_out.append(LeftOut(outcome.name, outcome.reason, outcome.detail))
            elif split[i] == splits.NONE:
                copies.append((outcome.name, int(first[i])))
            else:
                lossy.update(outcome.lossy)
                held_out = corpus.validation if alone else 0.0
                content = outcome.hash
                if job.source.published:  # twins are told apart
                    content = digest([outcome.name, content])
                for row in _rows(outcome, SPLITS[split[i]], held_out):
                    writer.add(name=outcome.name, hash=content, **row)
        left_out += [
            LeftOut(name, "duplicate", f"the same notes as {originals[i]}") for name, i in copies
        ]
        if not len(kept):
            raise UserError(_nothing_usable(corpus, left_out))
        report = Report(
            job.target,
            job.source.label,
            len(hashes),
            writer.totals,
            sorted(left_out),
            dict(sorted(lossy.items())),
            remarks,
        )
        writer.write_text(JSON, report.to_json())
    return report


def _nothing_usable(corpus: CorpusConfig, left_out: list[LeftOut]) -> str:
    """One sentence: how many were rejected, why, and an example of each reason."""
    examples: dict[str, LeftOut] = {}
    for item in left_out:
        examples.setdefault(item.reason, item)
    counts = Counter(item.reason for item in left_out)
    why = "; ".join(
        f"{n} {reason} (such as {examples[reason].name}: {examples[reason].detail})"
        for reason, n in counts.most_common()
    )
    path, name = corpus.path, corpus.name
    where = f"corpus.path={path}" if path is not None else f"corpus={name}"
    return f"{where}: none of its {len(left_out)} files can be used: {why}"


def _rows(outcome: Outcome, split: str, held_out: float) -> list[dict[str, Any]]:
    """The piece as it goes to the shards: whole, or in two if a share of it is ``held_out``.

    A lone piece trains up to an event near ``1 - held_out`` of its tokens; the rest is validation,
    at least a few tokens and at most half. The two share notes and seconds in proportion to their
    tokens. The second does not begin a piece, the first does not end one.
    """
    ids = outcome.ids
    whole = {"ids": ids, "split": split, "notes": outcome.notes, "seconds": outcome.seconds}
    count = max(round(len(ids) * held_out), FEWEST_HELD_OUT) if held_out else 0
    count = min(count, len(ids) // 2)
    if not count:
        return [whole]
    at = len(ids) - count
    notes = round(outcome.notes * at / len(ids))
    seconds = outcome.seconds * at / len(ids)
    head = {"ids": ids[:at], "split": "train", "notes": notes, "seconds": seconds, "ends": False}
    tail = {
        "ids": ids[at:],
        "split": "validation",
        "notes": outcome.notes - notes,
        "seconds": outcome.seconds - seconds,
        "begins": False,
    }
    return [head, tail]
