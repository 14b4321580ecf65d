"""A corpus -> token shards: in parallel, resumable, in parts, every piece accounted for.

The corpus and everything that decides the result are known by a key: the corpus's identity,
fingerprint of the tokenizer, options. Shards with the same key are up to date and nothing is read.
Otherwise pieces are encoded in chunks; each finished chunk is a file in ``OUT.partial``, so a run
that was stopped goes on where it was. At the end duplicates are taken out, the split is made over
all pieces, and the shards are written in the order of the corpus: the same bytes whatever the
number of workers, and whether or not the run was interrupted.

The corpus is a stream, and of each piece no more than the hash of its content stays in memory (and
of each one left out, its name and the reason).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from musictx.config import CorpusConfig
from musictx.data import chunks, corpora, encode, parallel, shards, splits
from musictx.data.budget import Budget
from musictx.data.chunks import Outcome, digest
from musictx.data.corpora import Corpus, Item
from musictx.data.report import JSON, TEXT, LeftOut, Report
from musictx.data.shards import SPLITS, Shards
from musictx.data.writer import Writer, check_place
from musictx.errors import UserError
from musictx.tokens.vocab import Tokenizer

#: Fewest tokens held out of a corpus of one piece, if it has twice as many.
FEWEST_HELD_OUT = 8

Part = tuple[int, int]


def prepare(
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    out: str | Path | None = None,
    *,
    part: str | None = None,
    progress: bool = True,
) -> Report:
    """Write the shards of ``corpus`` unless they are there already; say what became of each piece.

    out       the shard folder; default ``corpus.shards``, else data/shards/NAME-KEY under the
              current folder
    part      "3/16": only the third of sixteen parts, into a folder part-03-of-16 in the shard
              folder; with all sixteen there it is the shard folder of the whole corpus
    progress  show a bar with files a second and the files rejected so far (on a terminal)

    Shards given without a ``corpus.path`` are taken as they are. Raises ``UserError`` if there is
    no usable piece or the place cannot be written, and then leaves no new folder behind.
    """
    given = out or corpus.shards
    if given is not None and corpus.path is None and shards.is_shards(Path(given).expanduser()):
        ready = Shards(Path(given).expanduser())
        if corpus.name == "folder" or ready.corpus.get("kind") == corpus.name:
            ready.check(tokenizer)
            return Report.of(ready)
    which = _part(part)
    found = corpora.find(corpus)
    key = _key(corpus, tokenizer, found)
    folder = Path(given).expanduser() if given is not None else _default(found.label, key)
    up_to_date = _up_to_date(folder, key, which)
    if up_to_date is not None:
        return up_to_date
    if which is None and shards.part_folders(folder) and not (folder / shards.HEADER).is_file():
        Shards(folder)  # parts under way are not replaced: says which are missing
    target = shards.part_folder(folder, which) if which else folder
    check_place(target)
    with _without_leftovers(target):
        return _Run(found, corpus, tokenizer, target, key, which).run(progress)


@contextlib.contextmanager
def provisional(report: Report) -> Iterator[None]:
    """Shards that ``prepare`` has just written go again if the block is refused by a ``UserError``,
    so that a command that was refused leaves nothing behind."""
    try:
        yield
    except UserError:
        if not report.up_to_date:
            shutil.rmtree(report.folder, ignore_errors=True)
            for folder in report.made:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        raise


# ------------------------------------------------------------------------------------ key and place


def _part(text: str | None) -> Part | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", str(text))
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"part={text}: expected a part of so many parts, such as part=3/16")
    return int(match[1]), int(match[2])


def _key(corpus: CorpusConfig, tokenizer: Tokenizer, found: Corpus) -> str:
    """32 hexadecimal digits that change whenever the shards would hold something else."""
    options = [found.published, corpus.validation, corpus.test, _settings(corpus, tokenizer)]
    return digest([shards.FORMAT, chunks.VERSION, options, found.identity()])


def _settings(corpus: CorpusConfig, tokenizer: Tokenizer) -> list[Any]:
    """What decides, beside its content, what becomes of a piece."""
    return [tokenizer.fingerprint, corpus.min_notes, corpus.max_seconds, corpus.max_megabytes]


def _default(label: str, key: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-._") or "corpus"
    return Path("data", "shards", f"{safe}-{key[:8]}")


def _up_to_date(folder: Path, key: str, part: Part | None) -> Report | None:
    """The report of the shards in ``folder`` if they are those of ``key`` and undamaged."""
    for place in ([shards.part_folder(folder, part)] if part else []) + [folder]:
        try:
            if shards.is_shards(place) and (ready := Shards(place)).key == key:
                return Report.of(ready)
        except (UserError, OSError):
            continue
    return None


@contextlib.contextmanager
def _without_leftovers(target: Path) -> Iterator[None]:
    """Folders made above ``target`` go again if the block is refused."""
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        yield
    except UserError:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


# ------------------------------------------------------------------------------------------ the run


class _Run:
    """One corpus on its way to ``target``."""

    def __init__(
        self,
        found: Corpus,
        corpus: CorpusConfig,
        tokenizer: Tokenizer,
        target: Path,
        key: str,
        part: Part | None,
    ) -> None:
        self.found, self.corpus, self.tokenizer = found, corpus, tokenizer
        self.target, self.key, self.part = target, key, part
        self.partial = target.parent / f"{target.name}.partial"
        self.made = [folder for folder in target.parents if not folder.exists()]
        self.rejected = 0
        # By chunk: its file, and of each piece the content and the published split.
        self.stored: list[Path] = []
        self.hashes: dict[int, np.ndarray] = {}
        self.official: list[np.ndarray] = []

    def run(self, progress: bool) -> Report:
        self._encode(progress)
        try:
            report = self._assemble()
        except FileNotFoundError:  # another process has finished the same work and cleared up
            ready = _up_to_date(self.target, self.key, None)
            if ready is None:
                raise
            report = ready
        except UserError:
            if not any(hashes.any() for hashes in self.hashes.values()):
                shutil.rmtree(self.partial, ignore_errors=True)  # nothing to go on with
            raise
        shutil.rmtree(self.partial, ignore_errors=True)
        return report

    def _items(self) -> Iterator[Item]:
        for item in self.found.items():
            if self.part is None or _in_part(item.name, self.part):
                yield item

    def _todo(self, bar: tqdm) -> Iterator[tuple[int, list[Item]]]:
        """The numbered chunks whose outcomes no earlier run has left."""
        settings = _settings(self.corpus, self.tokenizer)
        for number, chunk in enumerate(chunks.in_chunks(self._items())):
            self.stored.append(chunks.place(self.partial, chunk, settings))
            self.official.append(np.array([splits.code(i.split) for i in chunk], np.int8))
            done = chunks.load(self.stored[-1])
            if done is None:
                yield number, chunk
            else:
                self._note(number, done, bar)

    def _note(self, number: int, outcomes: Sequence[Outcome], bar: tqdm) -> None:
        self.hashes[number] = np.array([o.hash for o in outcomes], "S32")
        self.rejected += sum(bool(o.reason) for o in outcomes)
        bar.set_postfix(rejected=self.rejected, refresh=False)
        bar.update(len(outcomes))

    def _encode(self, progress: bool) -> None:
        """Encode every chunk whose file is not there (or cannot be read) yet."""
        work = functools.partial(
            encode.encode_items,
            read=self.found.read,
            config=json.dumps(self.tokenizer.to_config(), sort_keys=True),
            fingerprint=self.tokenizer.fingerprint,
            min_notes=self.corpus.min_notes,
            budget=Budget(self.corpus.max_seconds, self.corpus.max_megabytes),
        )
        count = len(self.found) // (self.part[1] if self.part else 1)
        quiet = None if progress else True  # None: a bar only on a terminal
        with tqdm(total=count, unit="file", desc="reading MIDI", disable=quiet) as bar:
            todo = self._todo(bar)
            first = list(islice(todo, 2))
            workers = (self.corpus.workers or parallel.cores()) if len(first) > 1 else 1
            running = parallel.run(work, chain(first, todo), encode.crashed, workers=workers)
            with contextlib.closing(running):  # no worker outlives a Ctrl-C
                for number, outcomes in running:
                    chunks.store(self.stored[number], outcomes)
                    self._note(number, outcomes, bar)

    # -------------------------------------------------------------------------------- all together

    def _assemble(self) -> Report:
        """Take out duplicates, split, write."""
        numbers = range(len(self.stored))
        hashes = np.concatenate([np.empty(0, "S32"), *(self.hashes[n] for n in numbers)])
        official = np.concatenate([np.empty(0, np.int8), *self.official])
        usable = np.flatnonzero(hashes != b"")
        split = np.full(len(hashes), splits.NONE)
        first = np.arange(len(hashes))
        remarks: list[str] = []
        if self.found.published:
            split[usable] = official[usable]
        else:
            divided = splits.divide(
                hashes[usable],
                official[usable],
                validation=self.corpus.validation,
                test=self.corpus.test,
                borrow=self.part is None,
            )
            split[usable], first[usable] = divided.split, usable[divided.first]
            remarks = divided.remarks
        kept = np.flatnonzero(split != splits.NONE)
        alone = (
            len(kept) == 1
            and official[kept[0]] == splits.NONE
            and self.corpus.validation > 0
            and self.part is None
        )
        if alone:
            remarks.append("a single piece: its end is held out as validation")
        originals = dict.fromkeys(first[usable][split[usable] == splits.NONE].tolist(), "")
        left_out: list[LeftOut] = []
        copies: list[tuple[str, int]] = []
        lossy: Counter[str] = Counter()
        description = {
            "name": self.found.label,
            "kind": self.corpus.name,
            "validation": self.corpus.validation,
            "test": self.corpus.test,
            "min_notes": self.corpus.min_notes,
        }
        with Writer(
            self.target,
            fingerprint=self.tokenizer.fingerprint,
            tokenizer_config=self.tokenizer.to_config(),
            vocabulary=self.tokenizer.size,
            corpus=description,
            key=self.key,
        ) as writer:
            for i, outcome in enumerate(self._outcomes()):
                if i in originals:
                    originals[i] = outcome.name
                if outcome.reason:
                    left_out.append(LeftOut(outcome.name, outcome.reason, outcome.detail))
                elif split[i] == splits.NONE:
                    copies.append((outcome.name, int(first[i])))
                else:
                    lossy.update(outcome.lossy)
                    held_out = self.corpus.validation if alone else 0.0
                    content = outcome.hash
                    if self.found.published:  # twins are told apart
                        content = digest([outcome.name, content])
                    for row in _rows(outcome, SPLITS[split[i]], held_out):
                        writer.add(name=outcome.name, hash=content, **row)
            left_out += [
                LeftOut(name, "duplicate", f"the same notes as {originals[i]}")
                for name, i in copies
            ]
            if not len(kept) and self.part is None:
                raise UserError(self._nothing_usable(left_out))
            report = Report(
                self.target,
                self.found.label,
                len(hashes),
                writer.totals,
                sorted(left_out),
                dict(sorted(lossy.items())),
                remarks,
                made=self.made,
            )
            writer.write_text(JSON, report.to_json())
            writer.write_text(TEXT, report.to_text())
        return report

    def _outcomes(self) -> Iterator[Outcome]:
        for path in self.stored:
            outcomes = chunks.load(path)
            if outcomes is None:
                raise FileNotFoundError(path)
            yield from outcomes

    def _nothing_usable(self, left_out: list[LeftOut]) -> str:
        """One sentence: how many were rejected, why, and an example of each reason."""
        examples: dict[str, LeftOut] = {}
        for item in left_out:
            examples.setdefault(item.reason, item)
        counts = Counter(item.reason for item in left_out)
        why = "; ".join(
            f"{n} {reason} (such as {examples[reason].name}: {examples[reason].detail})"
            for reason, n in counts.most_common()
        )
        path, name = self.corpus.path, self.corpus.name
        where = f"corpus.path={path}" if path is not None else f"corpus={name}"
        return f"{where}: none of its {len(left_out)} files can be used: {why}"


def _in_part(name: str, part: Part) -> bool:
    """Whether the piece of that name is in part ``(i, n)``: by a hash, so adding moves no other."""
    number = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:8]
    return int.from_bytes(number, "big") % part[1] == part[0] - 1


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
