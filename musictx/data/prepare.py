"""A folder of MIDI -> token shards: in parallel, resumable, every file accounted for.

The corpus and everything that decides the result are known by a key: names, sizes and times of the
files, fingerprint of the tokenizer, options. Shards with the same key are up to date and nothing is
read. Otherwise files are encoded in chunks; each finished chunk is a file in ``OUT.partial``, so
a run that was stopped goes on where it was. At the end duplicates are taken out, the split is made
over all pieces, and the shards are written in the order of names: the same bytes whatever the
number of workers, and whether or not the run was interrupted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import musictx
from musictx.chorale import bach, jsb
from musictx.chorale.grid import write
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import CorpusConfig
from musictx.data import encode, parallel, shards, sources
from musictx.data.chunks import (
    VERSION,
    Outcome,
    digest,
    in_chunks,
    place,
    read_ids,
    read_outcomes,
    resumed,
    store,
)
from musictx.data.report import JSON, TEXT, LeftOut, Report
from musictx.data.shards import Shards, Writer
from musictx.errors import UserError
from musictx.tokens.vocab import Tokenizer

#: Fewest tokens held out of a corpus of one piece, if it has twice as many.
FEWEST_HELD_OUT = 8


def prepare(
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    out: str | Path | None = None,
    *,
    progress: bool = True,
    executor: Executor | None = None,
) -> Report:
    """Write the shards of ``corpus`` unless they are there already; say what became of each file.

    out       the shard folder; default ``corpus.shards``, else data/shards/NAME-KEY under the
              current folder
    progress  show a bar with files a second and the files rejected so far (on a terminal)
    executor  where to read the files instead of ``corpus.workers`` processes of this machine

    Raises ``UserError`` if there is no usable file or the place cannot be written.
    """
    if corpus.name == "bach":
        return _prepare_bach(corpus, tokenizer, out)
    if corpus.name == "jsb":
        return _prepare_jsb(corpus, tokenizer, out)
    found = sources.find(corpus.path)
    identity = {
        "files": [[f.name, f.size, f.mtime_ns] for f in found.files],
        "tables": [[f.name, f.size, f.mtime_ns] for f in found.tables],
    }
    key = _key(corpus, tokenizer, identity)
    name = found.root.resolve().name
    folder = _place(corpus, out, name, key)
    ready = _up_to_date(folder, key)
    if ready is not None:
        return ready
    partial = folder.parent / f"{folder.name}.partial"
    chunks = in_chunks(found.files)
    try:
        partial.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise shards.unwritable(folder, error) from error
    stored = [place(partial, c, tokenizer.fingerprint, corpus.min_notes) for c in chunks]
    _encode_all(chunks, stored, corpus, tokenizer, folder, progress, executor)
    try:
        outcomes = [outcome for path in stored for outcome in read_outcomes(path)]
        if all(outcome.reason for outcome in outcomes):
            shutil.rmtree(partial, ignore_errors=True)  # nothing to go on with
        report = _assemble(
            outcomes,
            (ids for path in stored for ids in read_ids(path)),
            corpus,
            tokenizer,
            folder,
            key,
            name,
            official=found.official,
            beside=partial / f"shards-{uuid.uuid4().hex[:8]}",
        )
    except FileNotFoundError:  # another process has finished the same work and cleared up
        ready = _up_to_date(folder, key)
        if ready is None:
            raise
        report = ready
    shutil.rmtree(partial, ignore_errors=True)
    return report


def _prepare_bach(corpus: CorpusConfig, tokenizer: Tokenizer, out: str | Path | None) -> Report:
    try:
        version = importlib.metadata.version("music21")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    key = _key(corpus, tokenizer, {"music21": version, "musictx": musictx.__version__})
    folder = _place(corpus, out, "bach", key)
    ready = _up_to_date(folder, key) if version else None
    if ready is not None:
        return ready
    outcomes = [
        encode.encode_score(name, score, tokenizer, corpus.min_notes)
        for name, score in sorted(bach.chorales(), key=lambda pair: pair[0])
    ]
    ids = (outcome.ids for outcome in outcomes)
    return _assemble(outcomes, ids, corpus, tokenizer, folder, key, "bach", official={})


def _prepare_jsb(corpus: CorpusConfig, tokenizer: Tokenizer, out: str | Path | None) -> Report:
    """The published split as it is: nothing is taken for a duplicate."""
    pieces = jsb.read(corpus.path)
    content = hashlib.sha256(b"".join(grid.pitches.tobytes() for _, _, grid in pieces)).hexdigest()
    key = _key(corpus, tokenizer, {"jsb": [[name for name, _, _ in pieces], content]})
    folder = _place(corpus, out, "jsb", key)
    ready = _up_to_date(folder, key)
    if ready is not None:
        return ready
    outcomes = []
    for name, _, grid in pieces:
        outcome = encode.encode_score(name, write(grid), tokenizer, corpus.min_notes)
        if isinstance(tokenizer, ChoraleTokenizer) and not outcome.reason:
            # Step for step as published, silence at the ends included.
            outcome = dataclasses.replace(outcome, ids=tokenizer.encode_grid(grid))
        outcomes.append(dataclasses.replace(outcome, hash=digest({"piece": name, "in": content})))
    ids = (outcome.ids for outcome in outcomes)
    official = {name: split for name, split, _ in pieces}
    return _assemble(
        outcomes, ids, corpus, tokenizer, folder, key, "jsb", official=official, published=True
    )


# ------------------------------------------------------------------------------------ key and place


def _key(corpus: CorpusConfig, tokenizer: Tokenizer, identity: dict[str, Any]) -> str:
    """32 hexadecimal digits that change whenever the shards would hold something else."""
    description = {
        "versions": [shards.FORMAT, VERSION],
        "tokenizer": tokenizer.fingerprint,
        "options": [corpus.name, corpus.validation, corpus.test, corpus.min_notes],
        **identity,
    }
    return digest(description)


def _place(corpus: CorpusConfig, out: str | Path | None, name: str, key: str) -> Path:
    given = out or corpus.shards
    if given is not None:
        folder = Path(given).expanduser()
    else:
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "corpus"
        folder = Path("data", "shards", f"{safe}-{key[:8]}")
    shards.check_place(folder)
    return folder


def _up_to_date(folder: Path, key: str) -> Report | None:
    """The report of the shards in ``folder`` if they are those of ``key`` and undamaged."""
    if not shards.is_shards(folder):
        return None
    try:
        if Shards(folder).key == key:
            return Report.read(folder)
    except (UserError, OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _encode_all(
    chunks: Sequence[list[sources.Source]],
    stored: Sequence[Path],
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    folder: Path,
    progress: bool,
    executor: Executor | None,
) -> None:
    """Encode every chunk whose file is not there (or cannot be read) yet."""
    work = functools.partial(
        encode.encode_files,
        config=json.dumps(tokenizer.to_config(), sort_keys=True),
        fingerprint=tokenizer.fingerprint,
        min_notes=corpus.min_notes,
    )
    done = {i: outcomes for i, path in enumerate(stored) if (outcomes := resumed(path))}
    todo = [i for i in range(len(chunks)) if i not in done]
    rejected = sum(bool(o.reason) for outcomes in done.values() for o in outcomes)
    bar = tqdm(
        total=sum(map(len, chunks)),
        initial=sum(map(len, done.values())),
        unit="file",
        desc="reading MIDI",
        disable=None if progress else True,  # None: only on a terminal
    )
    items = [[(f.name, str(f.path)) for f in chunks[i]] for i in todo]
    running = parallel.run(
        work,
        items,
        lambda item: encode.crashed(item[0]),
        workers=corpus.workers or parallel.cores(),
        executor=executor,
    )
    with bar, contextlib.closing(running):  # closing: no worker outlives a Ctrl-C
        for number, outcomes in running:
            try:
                store(stored[todo[number]], outcomes)
            except OSError as error:
                raise shards.unwritable(folder, error) from error
            rejected += sum(bool(o.reason) for o in outcomes)
            bar.set_postfix(rejected=rejected, refresh=False)
            bar.update(len(outcomes))


# ------------------------------------------------------------------------------------ all together


def _assemble(
    outcomes: list[Outcome],
    ids: Iterator[np.ndarray],
    corpus: CorpusConfig,
    tokenizer: Tokenizer,
    folder: Path,
    key: str,
    name: str,
    *,
    official: dict[str, str],
    beside: Path | None = None,
    published: bool = False,
) -> Report:
    """Take out duplicates, split, write; ``ids`` yields those of each outcome in turn.

    ``published``: the split is ``official`` to the letter, empty parts and all.
    """
    usable = {o.name: o for o in outcomes if not o.reason}
    left_out = [LeftOut(o.name, o.reason, o.detail) for o in outcomes if o.reason]
    if not usable:
        raise UserError(_nothing_usable(corpus, left_out))
    kept, duplicates = sources.without_duplicates(
        (sources.Identity(o.name, o.hash) for o in usable.values()), official
    )
    left_out += [
        LeftOut(other, "duplicate", f"the same notes as {first}")
        for other, first in duplicates.items()
    ]
    splits, remarks = sources.split(kept, official, validation=corpus.validation, test=corpus.test)
    if published:
        splits, remarks = {p.name: official[p.name] for p in kept}, []
    straddling = sum(
        1
        for other, first in duplicates.items()
        if other in official and official[other] != official.get(first)
    )
    if straddling:
        remarks.append(
            f"{straddling} pieces stand in several official splits: kept where they measure"
        )
    alone = len(kept) == 1 and corpus.validation > 0 and not published
    if alone:
        remarks.append("a single piece: its end is held out as validation")
    lossy: Counter[str] = Counter()
    with Writer(
        folder,
        fingerprint=tokenizer.fingerprint,
        tokenizer_config=tokenizer.to_config(),
        corpus={
            "name": name,
            "validation": corpus.validation,
            "test": corpus.test,
            "min_notes": corpus.min_notes,
        },
        key=key,
        beside=beside,
    ) as writer:
        for outcome, piece in zip(outcomes, ids, strict=True):
            if outcome.name not in splits:
                continue
            lossy.update(outcome.lossy)
            for part in _parts(outcome, piece, splits[outcome.name], corpus, alone):
                writer.add(name=outcome.name, hash=outcome.hash, **part)
        report = Report(
            folder,
            name,
            len(outcomes),
            {split: shards.total(writer.pieces, split) for split in shards.SPLITS},
            sorted(left_out),
            dict(sorted(lossy.items())),
            remarks,
        )
        writer.write_text(JSON, report.to_json())
        writer.write_text(TEXT, report.to_text())
    return report


def _parts(
    outcome: Outcome, ids: np.ndarray, split: str, corpus: CorpusConfig, alone: bool
) -> list[dict[str, Any]]:
    """The piece as it goes to the shards: whole, or in two parts if it is the only one.

    A lone piece trains up to an event near ``1 - corpus.validation`` of its tokens; the rest is
    validation, at least a few tokens and at most half. The parts share notes and seconds in
    proportion to their tokens. The second part does not begin a piece, the first does not end one.
    """
    whole = {"ids": ids, "split": split, "notes": outcome.notes, "seconds": outcome.seconds}
    held_out = max(round(len(ids) * corpus.validation), FEWEST_HELD_OUT)
    held_out = min(held_out, len(ids) // 2)
    if not alone or not held_out:
        return [whole]
    at = len(ids) - held_out
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
    where = f"corpus.path={corpus.path}" if corpus.name == "folder" else f"corpus={corpus.name}"
    return f"{where}: none of its {len(left_out)} files can be used: {why}"
