"""Encode a piece in a worker process of ``prepare``: its ids, or the reason to leave it out."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from musictx.config import CorpusConfig
from musictx.data.corpora import Item, Reader
from musictx.data.shards import ID, SPLITS
from musictx.errors import ReadError, UserError, shown
from musictx.grid import in_time, without_beats
from musictx.notes import Score
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer

#: Incremented whenever a file is encoded differently, so that old shards are not reused.
VERSION = 4
#: Pieces of fewer notes are left out.
FEWEST_NOTES = 2


class Encoded(NamedTuple):
    """An encoded piece.

    ids      (n,) uint16
    hash     ``Score.content_hash()`` of the music file
    notes    number of notes in the ids
    seconds  the end of the last note, which is the release of its key
    lossy    what was repaired when reading, or left out or changed when encoding: label -> number
    tracks   the names of its tracks, stripped and in lower case
    """

    ids: np.ndarray
    hash: str
    notes: int
    seconds: float
    lossy: dict[str, int]
    tracks: frozenset[str]


class LeftOut(NamedTuple):
    """A piece that is not in the shards: ``reason`` is a short label, ``detail`` a sentence."""

    name: str
    reason: str
    detail: str


def encode_item(
    item: Item, *, read: Reader, config: str, corpus: CorpusConfig
) -> Encoded | LeftOut:
    """Read an item with ``read`` and encode it. ``config`` is the tokenizer's configuration as
    JSON.

    If this raises an exception other than ``MemoryError``, the item is left out, and the exception
    is the detail. Raises ``UserError`` if ``item`` is not a valid :class:`Item`.
    """
    is_item = isinstance(item, Item) and isinstance(item.name, str)
    if not is_item or item.split not in (None, *SPLITS):
        raise UserError(
            f"corpus.name={corpus.name}: its items() gave {shown(item)}, expected a "
            "musictx.data.corpora.Item whose name is a str, and whose split is "
            f"{', '.join(SPLITS)} or None"
        )
    tokenizer = _tokenizer(config)
    repairs, reason = Counter[str](), "unreadable"
    try:
        score, ids = read(item.source, tokenizer, repairs, corpus.limits)
        if corpus.programs:
            score = with_programs(score, corpus.programs)
        reason = "not encodable"
        return _encode(score, ids, tokenizer, repairs)
    except MemoryError:
        raise
    except UserError as error:  # a ReadError has its own reason
        return LeftOut(item.name, getattr(error, "reason", reason), str(error))
    except Exception as error:
        return LeftOut(item.name, reason, f"{type(error).__name__}: {error}".rstrip(": "))


def with_programs(score: Score, programs: Mapping[str, int]) -> Score:
    """Set the program of each track whose name is in ``programs``, ignoring case and outer spaces.
    Drums keep theirs."""
    by_name = {name.strip().lower(): program for name, program in programs.items()}
    notes = score.notes.copy()
    for track, name in score.names.items():
        program = by_name.get(name.strip().lower())
        if program is not None:
            notes["program"][(notes["track"] == track) & ~notes["drum"]] = program
    return score.with_notes(notes)


@functools.lru_cache(maxsize=2)
def _tokenizer(config: str) -> Tokenizer:
    return build(**json.loads(config))


def _encode(
    score: Score, ids: np.ndarray | None, tokenizer: Tokenizer, repairs: Counter[str]
) -> Encoded:
    """Encode ``score``, or use the ``ids`` that the corpus provides. Raises ``ReadError`` if the
    piece cannot be used."""
    if len(score) < FEWEST_NOTES:
        repaired = "".join(f", {label}: {n}" for label, n in repairs.items() if n)
        detail = f"{len(score)} notes, expected at least {FEWEST_NOTES}{repaired}"
        raise ReadError(detail, "too short")
    if tokenizer.beats:
        score = in_time(score)
        if without_beats(score):
            detail = "no beats were found in it; tokenizer=performance needs none"
            raise ReadError(detail, "no beats")
        if score.pulse is not None:
            repairs["beats estimated from the notes, not its tempo marks"] += 1
    encoded_ids, left_out = tokenizer.encode_with_report(score)
    ids = tokenizer.vocabulary.as_ids(encoded_ids if ids is None else ids).astype(ID)
    notes = max(len(score) - sum(left_out.values()), 0)
    if not len(ids) or not notes:
        lost = ", ".join(f"{n} {label}" for label, n in left_out.items()) or f"{len(score)} notes"
        detail = f"tokenizer={tokenizer.name} can write none of its notes ({lost})"
        raise ReadError(detail, "no notes for this tokenizer")
    if notes < FEWEST_NOTES:
        detail = f"only {notes} notes can be written, expected at least {FEWEST_NOTES}"
        raise ReadError(detail, "too short")
    changed = repairs + Counter(left_out)
    changed["tracks merged with another"] = tokenizer.merged_tracks(score)
    changed["notes moved to the grid"] = tokenizer.off_grid_count(score)
    lossy = {str(label): int(n) for label, n in sorted(changed.items()) if n}
    tracks = frozenset(name.strip().lower() for name in score.names.values())
    return Encoded(ids, score.content_hash(), notes, float(score.duration), lossy, tracks)
