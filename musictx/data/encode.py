"""One file -> its ids, or the reason why not. What the worker processes of ``prepare`` run."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from musictx import formats
from musictx.data.chunks import Outcome
from musictx.errors import ReadError
from musictx.notes import Score
from musictx.tokens.build import build
from musictx.tokens.vocab import Tokenizer


def encode_files(
    files: Sequence[tuple[str, str]], *, config: str, fingerprint: str, min_notes: int
) -> list[Outcome]:
    """(name, path) of each file -> its outcome. ``config`` is the tokenizer's, as JSON.

    Never raises for a file: whatever goes wrong with one is its outcome. Raises ``ValueError`` if
    the tokenizer built from ``config`` is not the one of ``fingerprint``.
    """
    tokenizer = _tokenizer(config)
    if tokenizer.fingerprint != fingerprint:
        raise ValueError(f"tokens.build does not make {tokenizer.name} again from its to_config()")
    return [encode_file(name, path, tokenizer, min_notes) for name, path in files]


@functools.lru_cache(maxsize=2)
def _tokenizer(config: str) -> Tokenizer:
    arguments: dict[str, Any] = json.loads(config)
    return build(**arguments)


def encode_file(name: str, path: str, tokenizer: Tokenizer, min_notes: int) -> Outcome:
    """Read and encode one file; see :class:`Outcome`."""
    repairs: Counter[str] = Counter()
    try:
        score = formats.read(path, repairs=repairs)
    except ReadError as error:
        return Outcome(name, reason=error.reason, detail=str(error))
    except Exception as error:
        return Outcome(name, reason="unreadable", detail=_said(error))
    return encode_score(name, score, tokenizer, min_notes, repairs)


def encode_score(
    name: str,
    score: Score,
    tokenizer: Tokenizer,
    min_notes: int,
    repairs: Counter[str] | None = None,
) -> Outcome:
    """Encode one Score; see :class:`Outcome`."""
    if len(score) < min_notes:
        found = "".join(f", {label}: {n}" for label, n in (repairs or {}).items() if n)
        detail = f"{len(score)} notes, corpus.min_notes={min_notes}{found}"
        return Outcome(name, reason="too short", detail=detail)
    try:
        ids, left_out = tokenizer.encode_with_report(score)
    except Exception as error:
        return Outcome(name, reason="not encodable", detail=_said(error))
    kept = max(len(score) - sum(left_out.values()), 0)
    if not len(ids) or not kept:
        lost = ", ".join(f"{n} {label}" for label, n in left_out.items()) or f"{len(score)} notes"
        detail = f"nothing in it that tokenizer={tokenizer.name} can write ({lost})"
        return Outcome(name, reason="no notes for this tokenizer", detail=detail)
    if kept < min_notes:
        detail = f"{kept} notes that can be written, corpus.min_notes={min_notes}"
        return Outcome(name, reason="too short", detail=detail)
    lossy = {str(k): int(v) for k, v in ((repairs or Counter()) + Counter(left_out)).items()}
    return Outcome(
        name,
        np.asarray(ids, np.uint16),
        score.content_hash(),
        kept,
        float(score.duration),
        dict(sorted(lossy.items())),
    )


def crashed(name: str) -> Outcome:
    """The outcome of a file that took its whole process down."""
    detail = "the process that read it died; please report this file"
    return Outcome(name, reason="crashed the reader", detail=detail)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
