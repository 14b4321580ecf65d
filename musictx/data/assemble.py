"""Encoded pieces -> a shard folder, one after the other: ids are written at once, the table with
splits and without duplicates at the end.

The split of a piece follows from its notes (``Score.content_hash``), not from its name or its
place in the list: adding files never moves the others. Where a published table gives a piece a
split, that has priority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from musictx.config import CorpusConfig
from musictx.data.corpora import Corpus, digest
from musictx.data.encode import Outcome
from musictx.data.report import JSON, LeftOut, Report
from musictx.data.shards import Piece
from musictx.data.writer import Writer
from musictx.errors import UserError

#: Fewest tokens held out of a corpus of one piece, if it has twice as many.
FEWEST_HELD_OUT = 8

#: Of pieces with the same notes the one with the lowest rank is kept: so that no piece of a
#: published test or validation split ever trains.
RANK = {"test": 0, "validation": 1, "train": 2, None: 3}


class Usable(NamedTuple):
    """A piece whose ids are written. ``published``: the split that a table gives it, if any."""

    row: Piece
    published: str | None
    lossy: dict[str, int]


class Copy(NamedTuple):
    """A piece that is left out, since another has the same notes (``hash``)."""

    name: str
    published: str | None
    hash: str


class Assembly:
    """The outcomes of a corpus, added in its order, then :meth:`finish`."""

    def __init__(self, source: Corpus, corpus: CorpusConfig, writer: Writer) -> None:
        self._source, self._corpus, self._writer = source, corpus, writer
        #: by hash, in the order of the corpus
        self._usable: dict[str, Usable] = {}
        self._copies: list[Copy] = []
        self._left_out: list[LeftOut] = []
        self._files = 0

    def add(self, outcome: Outcome, published: str | None) -> None:
        """Write the ids of a piece unless it is unusable or a duplicate.

        Of pieces with the same notes the one with the lowest ``RANK`` is kept, then the
        first; a later one of lower rank takes the place of an earlier one, whose ids stay in the
        file unused.
        """
        self._files += 1
        name = outcome.name
        if outcome.reason:
            self._left_out.append(LeftOut(name, outcome.reason, outcome.detail))
            return
        content = outcome.hash
        if self._source.published:  # every piece counts, those with equal notes too
            content = digest([name, content])
        earlier = self._usable.get(content)
        if earlier is not None:
            if RANK[earlier.published] <= RANK[published]:
                self._copies.append(Copy(name, published, content))
                return
            self._copies.append(Copy(earlier.row.name, earlier.published, content))
            del self._usable[content]
        offset, tokens = self._writer.append(outcome.ids, name)
        row = Piece(0, name, "train", content, offset, tokens, outcome.notes, outcome.seconds)
        self._usable[content] = Usable(row, published, outcome.lossy)

    def finish(self) -> Report:
        """Split, write the table and the report. Raises ``UserError`` if no piece can be used."""
        if not self._usable:
            raise UserError(_nothing_usable(self._corpus, self._left_out))
        rows, remarks = self._rows()
        for row in rows:
            self._writer.write_row(row)
        lossy: Counter[str] = Counter()
        for usable in self._usable.values():
            lossy.update(usable.lossy)
        for name, _, content in self._copies:
            detail = f"the same notes as {self._usable[content].row.name}"
            self._left_out.append(LeftOut(name, "duplicate", detail))
        report = Report(
            self._writer.folder,
            self._source.label,
            self._files,
            self._writer.totals,
            sorted(self._left_out),
            dict(sorted(lossy.items())),
            remarks,
        )
        self._writer.write_text(JSON, report.to_json())
        return report

    def _rows(self) -> tuple[list[Piece], list[str]]:
        """The rows of the table, each with its split, and remarks on how it came about."""
        rows = [usable.row for usable in self._usable.values()]
        published = [usable.published for usable in self._usable.values()]
        corpus = self._corpus
        remarks: list[str] = []
        if self._source.published:
            divided = [split or "train" for split in published]
        elif len(rows) == 1 and published[0] is None and corpus.validation > 0:
            return _cut(rows[0], corpus.validation), [
                "a single piece: its end is held out as validation"
            ]
        else:
            hashes = [row.hash for row in rows]
            divided, remarks = divide(
                hashes, published, validation=corpus.validation, test=corpus.test
            )
        moved = sum(
            copy.published not in (None, self._usable[copy.hash].published) for copy in self._copies
        )
        if moved:
            remarks.append(
                f"{moved} pieces appear in more than one official split; kept in the held-out one"
            )
        return [row._replace(split=s) for row, s in zip(rows, divided, strict=True)], remarks


def by_content(content: str, validation: float, test: float) -> str:
    """The split of a piece by its hash (32 hexadecimal digits): a number in [0, 1) from the first
    13 digits, below ``validation`` -> validation, below their sum -> test, else train."""
    number = int(content[:13], 16) / 2.0**52  # 52 bits: exact
    if number < validation:
        return "validation"
    return "test" if number < validation + test else "train"


def divide(
    hashes: Sequence[str], published: Sequence[str | None], *, validation: float, test: float
) -> tuple[list[str], list[str]]:
    """(split of each piece, remarks) of pieces with different hashes.

    ``published`` holds the split that a table gives each piece, or None. Otherwise the hash decides
    (:func:`by_content`). Then, so that small corpora work:

    - if validation is asked for and the published split leaves it empty, published training pieces
      are split by content;
    - if train is empty, the piece with the largest hash to which no table gives a split goes there;
    - if validation is still empty, the piece of train with the smallest hash goes there (if train
      has but one, an unpublished one of test).
    """
    given, remarks = list(published), []
    splits = [p or by_content(h, validation, test) for h, p in zip(hashes, given, strict=True)]
    if validation > 0 and "validation" not in splits and any(given):
        for i, split in enumerate(given):
            if split == "train":
                splits[i] = by_content(hashes[i], validation, 0.0)
        if "validation" in splits:
            remarks.append("no file of the official validation split is here: split by content")
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    free = [i for i in order if given[i] is None]
    if free and "train" not in splits:
        splits[free[-1]] = "train"
        remarks.append("the training split was empty, so one held-out piece was moved to it")
    donors = [i for i in order if splits[i] == "train"]
    if len(donors) < 2:
        donors = [i for i in free if splits[i] == "test"]
    if validation > 0 and donors and "validation" not in splits:
        donor = splits[donors[0]]
        splits[donors[0]] = "validation"
        remarks.append(f"the validation split was empty, so one {donor} piece was moved to it")
    return splits, remarks


def _cut(row: Piece, held_out: float) -> list[Piece]:
    """A corpus of one piece: its end, the share ``held_out`` of its tokens, is for validation.

    At least a few tokens and at most half. The two parts share notes and seconds in proportion to
    their tokens. The second does not begin a piece, the first does not end one.
    """
    count = max(round(row.tokens * held_out), FEWEST_HELD_OUT)
    tokens = row.tokens - min(count, row.tokens // 2)
    notes = round(row.notes * tokens / row.tokens)
    seconds = row.seconds * tokens / row.tokens
    head = row._replace(split="train", tokens=tokens, notes=notes, seconds=seconds, ends=False)
    tail = row._replace(
        split="validation",
        offset=row.offset + tokens,
        tokens=row.tokens - tokens,
        notes=row.notes - notes,
        seconds=row.seconds - seconds,
        begins=False,
    )
    return [head, tail]


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
