"""Encode a corpus as token shards, in one parallel pass, with a report on every piece.

The key of shards is a hash of everything that affects them: the identity of the corpus, the
fingerprint of the tokenizer, and the options. Shards with the same key are up to date, and no file
is read. Otherwise each piece is encoded once, in the order of the corpus, and its ids are written
immediately; the table of pieces, with splits and without duplicates, is written at the end. The
bytes do not depend on the number of workers.

The split of a piece is its published split, if there is one. Otherwise it depends on its notes
(``Score.content_hash``), not on its name or index, so adding files never moves other pieces.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from musictx.config import CorpusConfig, Limits
from musictx.data import corpora, encode, shards, workers
from musictx.data.corpora import Corpus, Item, digest
from musictx.data.encode import Encoded, LeftOut
from musictx.data.shards import Piece, Shards, Writer, totals_by_split
from musictx.errors import ReadError, UserError, shown
from musictx.progress import progress
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer

#: The file of the shard folder with the report.
REPORT = "report.json"
#: By default there is one worker process for this many files, up to the number of cores.
FILES_PER_WORKER = 16
#: The fewest validation tokens of a corpus of one piece.
FEWEST_HELD_OUT = 8
#: Of pieces with the same notes, the one whose published split comes first in this order is kept,
#: so that no piece of a published test or validation split is trained on. "": no published split.
PRIORITY = ("test", "validation", "train", "")


def prepare(corpus: CorpusConfig, tokenizer: Tokenizer) -> Report:
    """Write the shards of ``corpus`` unless they are up to date, and report on every piece.

    The folder is ``corpus.shards``, or data/shards/NAME-KEY in the current folder. Without a
    ``corpus.path``, existing shards in ``corpus.shards`` are used unchanged. Raises ``UserError``
    if there is no usable piece or the folder cannot be written; then no new folder is left behind.
    """
    tokenizer = tokenizer.without_controls
    folder = None if corpus.shards is None else Path(corpus.shards).expanduser()
    if folder is not None and corpus.path is None and shards.is_shards(folder):
        existing = Shards(folder)
        if corpus.name == "folder" or existing.corpus.get("kind") == corpus.name:
            existing.check(tokenizer)
            return Report.read(existing, up_to_date=True)
    source = corpora.find(corpus)
    key = _key(corpus, tokenizer, source)
    if folder is None:
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", source.label).strip("-._") or "corpus"
        folder = Path("data", "shards", f"{safe}-{key[:8]}")
    with contextlib.suppress(UserError, OSError):
        if shards.is_shards(folder) and (existing := Shards(folder)).key == key:
            return Report.read(existing, up_to_date=True)
    if build(**tokenizer.to_config()).fingerprint != tokenizer.fingerprint:
        raise UserError(f"tokenizer.name={tokenizer.name}: to_config() describes another tokenizer")
    shares = {"validation": corpus.validation, "test": corpus.test}
    processes = corpus.workers or min(workers.cores(), -(-len(source) // FILES_PER_WORKER))
    if corpus.workers == 1:
        processes = 0  # files are read in this process
    with shards.new_shards(
        folder, tokenizer, corpus={"name": source.label, "kind": corpus.name} | shares, key=key
    ) as writer:
        outcomes = workers.run(
            partial(
                encode.encode_item,
                read=source.read,
                config=json.dumps(tokenizer.to_config(), sort_keys=True),
                corpus=corpus,
            ),
            source.items(),
            limits=corpus.limits,
            workers=processes,
        )
        bar = progress("reading MIDI", "files", len(source))
        with contextlib.closing(outcomes), bar as show:  # closing stops the workers after Ctrl-C
            _write(outcomes, source, corpus, tokenizer.align, writer, show)
    return Report.read(Shards(folder), up_to_date=False)


def _key(corpus: CorpusConfig, tokenizer: Tokenizer, source: Corpus) -> str:
    """32 hexadecimal digits that change whenever the contents of the shards would change."""
    limits = dataclasses.asdict(corpus.limits) if corpus.limits != Limits() else {}
    encoding: list[Any] = [tokenizer.fingerprint, encode.FEWEST_NOTES]
    class_name = corpus.name if ":" in corpus.name else ""  # two classes may share an identity()
    encoding += [options for options in (corpus.programs, limits, class_name) if options]
    options = [source.published, corpus.validation, corpus.test, encoding]
    if not isinstance(identity := source.identity(), str):
        raise UserError(
            f"corpus.name={corpus.name}: its identity() gave {shown(identity)}, expected a str"
        )
    return digest([shards.FORMAT, encode.VERSION, options, identity])


def _write(
    outcomes: Iterable[tuple[Item, Encoded | LeftOut | ReadError]],
    source: Corpus,
    corpus: CorpusConfig,
    align: int,
    writer: Writer,
    show: Callable[[int], None],
) -> None:
    """Write the ids of each piece, then the table of pieces without duplicates, and the report.

    Of pieces with the same notes, the first by :data:`PRIORITY` is kept; among equals, the first in
    the corpus. The ids of a piece that is replaced later stay in the file, unused. Raises
    ``UserError`` if no piece can be used. ``show`` is called with the number of files so far.
    """
    pieces: dict[str, Piece] = {}  # by content; their split is the published split, "" for none
    lossy: dict[str, dict[str, int]] = {}  # by content
    duplicates: list[Piece] = []
    left_out: list[LeftOut] = []
    track_names = set[str]()
    files = 0
    for files, (item, outcome) in enumerate(outcomes, 1):
        show(files)
        if isinstance(outcome, ReadError):
            outcome = LeftOut(item.name, outcome.reason, str(outcome))
        if isinstance(outcome, LeftOut):
            left_out.append(outcome)
            continue
        if corpus.programs:
            track_names |= outcome.tracks
        # A published corpus keeps pieces with equal notes.
        content = digest([item.name, outcome.hash]) if source.published else outcome.hash
        piece = Piece(
            0, item.name, item.split or "", content,
            writer.tokens, len(outcome.ids), outcome.notes, outcome.seconds,
        )  # fmt: skip
        if (earlier := pieces.get(content)) is not None:
            if PRIORITY.index(earlier.split) <= PRIORITY.index(piece.split):
                duplicates.append(piece)
                continue
            duplicates.append(pieces.pop(content))
        writer.append(outcome.ids)
        pieces[content], lossy[content] = piece, outcome.lossy
    if not pieces:
        raise UserError(_nothing_usable(corpus, left_out))
    writer.rows, remarks = _with_splits(list(pieces.values()), source.published, corpus, align)
    if count := sum(piece.split not in ("", pieces[piece.hash].split) for piece in duplicates):
        kept = "kept in the first of test, validation, train"
        remarks.append(f"{count} pieces are in more than one official split; {kept}")
    for name in corpus.programs:
        if (key := name.strip().lower()) not in track_names:
            near = ", ".join(difflib.get_close_matches(key, track_names, cutoff=0)) or "none"
            remarks.append(f"corpus.programs.{name}: no track has this name; the nearest: {near}")
    left_out += [
        LeftOut(piece.name, "duplicate", f"the same notes as {pieces[piece.hash].name}")
        for piece in duplicates
    ]
    changed = sum(map(Counter, lossy.values()), Counter[str]())
    report = {
        "source": source.label,
        "found": files,
        "splits": {name: t._asdict() for name, t in totals_by_split(writer.rows).items()},
        "reasons": reasons(left_out),
        "left_out": [item._asdict() for item in sorted(left_out)],
        "lossy": dict(sorted(changed.items())),
        "remarks": remarks,
    }
    writer.write_text(REPORT, json.dumps(report, indent=1) + "\n")


def _nothing_usable(corpus: CorpusConfig, left_out: list[LeftOut]) -> str:
    """The message of the error: the number of files left out, and an example for each reason."""
    examples = {item.reason: item for item in reversed(left_out)}
    why = "; ".join(
        f"{n} {reason} (such as {examples[reason].name}: {examples[reason].detail})"
        for reason, n in reasons(left_out).items()
    )
    where = f"corpus={corpus.name}" if corpus.path is None else f"corpus.path={corpus.path}"
    return f"{where}: none of its {len(left_out)} files can be used: {why or 'it has none'}"


def _with_splits(
    pieces: list[Piece], is_published: bool, corpus: CorpusConfig, align: int
) -> tuple[list[Piece], list[str]]:
    """The pieces with their splits instead of their published splits, and remarks on exceptions."""
    if is_published:
        return [piece._replace(split=piece.split or "train") for piece in pieces], []
    if len(pieces) == 1 and not pieces[0].split and corpus.validation > 0:
        remark = "a single piece: its end is held out for validation"
        return _cut_in_two(pieces[0], corpus.validation, align), [remark]
    hashes, published = [piece.hash for piece in pieces], [piece.split for piece in pieces]
    splits, remarks = divide(hashes, published, validation=corpus.validation, test=corpus.test)
    return [piece._replace(split=s) for piece, s in zip(pieces, splits, strict=True)], remarks


def by_content(content: str, validation: float, test: float) -> str:
    """The split of a piece by its hash (32 hexadecimal digits). The first 13 digits are a number in
    [0, 1): below ``validation`` -> validation, below ``validation + test`` -> test, else train."""
    number = int(content[:13], 16) / 2.0**52  # 13 digits are 52 bits, exact in a float
    if number < validation:
        return "validation"
    return "test" if number < validation + test else "train"


def divide(
    hashes: Sequence[str], published: Sequence[str], *, validation: float, test: float
) -> tuple[list[str], list[str]]:
    """(split of each piece, remarks) for pieces with different hashes.

    ``published`` is the published split of each piece; for "" the hash decides
    (:func:`by_content`). For small corpora:

    - if ``validation`` is above 0 and the published validation split is empty, published training
      pieces are split by content;
    - if train is empty, the piece with the largest hash among those without a published split moves
      there;
    - if validation is still empty, the piece of train with the smallest hash moves there; if train
      has only one piece, a piece of test without a published split does.
    """
    remarks = []
    splits = [p or by_content(h, validation, test) for h, p in zip(hashes, published, strict=True)]
    if validation > 0 and "validation" not in splits and any(published):
        for i, split in enumerate(published):
            if split == "train":
                splits[i] = by_content(hashes[i], validation, 0.0)
        if "validation" in splits:
            remarks.append("the official validation split is empty: the training split was divided")
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    movable = [i for i in order if not published[i]]
    if movable and "train" not in splits:
        splits[movable[-1]] = "train"
        remarks.append("the training split was empty, so one held-out piece was moved to it")
    donors = [i for i in order if splits[i] == "train"]
    if len(donors) < 2:
        donors = [i for i in movable if splits[i] == "test"]
    if validation > 0 and donors and "validation" not in splits:
        donor = splits[donors[0]]
        splits[donors[0]] = "validation"
        remarks.append(f"the validation split was empty, so one {donor} piece was moved to it")
    return splits, remarks


def _cut_in_two(piece: Piece, held_out: float, align: int) -> list[Piece]:
    """Divide the only piece of a corpus: the last share ``held_out`` of its tokens is for
    validation, at least :data:`FEWEST_HELD_OUT` tokens and at most half of them, rounded so that it
    begins at a multiple of ``align``. Notes and seconds are divided in proportion to the tokens."""
    count = max(round(piece.tokens * held_out), FEWEST_HELD_OUT)
    tokens = piece.tokens - min(count, piece.tokens // 2)
    tokens = max(tokens - tokens % align, align)
    train = piece._replace(
        split="train",
        tokens=tokens,
        notes=round(piece.notes * tokens / piece.tokens),
        seconds=piece.seconds * tokens / piece.tokens,
        ends=False,
    )
    validation = piece._replace(
        split="validation",
        offset=piece.offset + tokens,
        tokens=piece.tokens - tokens,
        notes=piece.notes - train.notes,
        seconds=piece.seconds - train.seconds,
        begins=False,
    )
    return [train, validation]


def reasons(left_out: Iterable[LeftOut]) -> dict[str, int]:
    """Reason -> number of files left out, the most frequent first."""
    counts = Counter(item.reason for item in left_out)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


class Report(NamedTuple):
    """A report on every file of a corpus.

    shards      the prepared corpus
    files       the number of its files (or chorales)
    left_out    the files that are not in the shards, with reasons
    lossy       what was lost, merged or repaired in the pieces in the shards: label -> number
    remarks     sentences on exceptions in the splits and on ``corpus.programs`` without a track
    up_to_date  whether the shards existed already, so that no file was read
    """

    shards: Shards
    files: int
    left_out: list[LeftOut]
    lossy: dict[str, int]
    remarks: list[str]
    up_to_date: bool

    @property
    def folder(self) -> Path:
        """The shard folder."""
        return self.shards.folder

    def __str__(self) -> str:
        """A few lines for the terminal."""
        corpus = self.shards.corpus["name"]
        lines = [f"{corpus}: {self.files:,} files, {self.shards.totals()}"]
        splits = totals_by_split(self.shards.pieces())
        lines += [f"  {split:<11}{total}" for split, total in splits.items() if total.pieces]
        if self.left_out:
            counted = ", ".join(f"{n:,} {reason}" for reason, n in reasons(self.left_out).items())
            lines.append(f"  left out   {counted} (each one in {self.folder / REPORT})")
        if self.lossy:
            counted = ", ".join(f"{label}: {n:,}" for label, n in self.lossy.items())
            lines.append(f"  changed    {counted}")
        lines += [f"  note       {remark}" for remark in self.remarks]
        state = "up to date" if self.up_to_date else "written"
        return "\n".join([*lines, f"  shards     {self.folder} ({state})"])

    @classmethod
    def read(cls, corpus: Shards, *, up_to_date: bool) -> Report:
        """Read the report in the shard folder ``corpus``. Raises ``UserError`` if it is damaged."""
        try:
            data = json.loads((corpus.folder / REPORT).read_text(encoding="utf-8"))
            left_out = [LeftOut(**item) for item in data["left_out"]]
            lossy, remarks = dict(data["lossy"]), list(data["remarks"])
            return cls(corpus, int(data["found"]), left_out, lossy, remarks, up_to_date)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise shards.damaged(corpus.folder, f"{REPORT} cannot be read") from error
