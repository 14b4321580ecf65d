"""The database of a session: its document and the history of its operations, in one SQLite file.

An operation is one transaction, on the disk before it is acknowledged. SQLite keeps a rollback
journal, not a write-ahead log, so that between two operations the piece is one file, which anybody
may copy or move. ``synchronous=EXTRA`` flushes what FULL does, and also the removal of the journal.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from musictx.errors import WriteError
from musictx.studio.change import Change
from musictx.studio.document import FIELDS, Document
from musictx.studio.errors import Refused

DATABASE = "piece.sqlite"
_TABLES = """
CREATE TABLE fields (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, start REAL, stop REAL, pitch INTEGER, velocity INTEGER, track INTEGER
);
CREATE TABLE operations (number INTEGER PRIMARY KEY, change TEXT NOT NULL, back TEXT NOT NULL);
"""
_SUMMARY = """
SELECT (SELECT value FROM fields WHERE name = 'name'),
       (SELECT value FROM fields WHERE name = 'changed'),
       (SELECT count(*) FROM notes), (SELECT coalesce(max(stop), 0.0) FROM notes)
"""


def create(path: Path, document: Document) -> None:
    """Create a database at ``path`` with ``document`` and an empty history."""
    with _transaction(path, "rwc") as database:
        for statement in _TABLES.split(";"):  # executescript would commit before it
            database.execute(statement)
        fields = {name: document.field(name) for name in FIELDS}
        _write_fields(database, fields, done=0)
        database.executemany("INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?)", document.rows())


def load(path: Path) -> tuple[Document, int, int]:
    """Return the document, the number of operations that are applied to it, and the length of the
    history, including undone operations. Raise :class:`Refused` (404) if it is damaged."""
    with _read(path) as database:
        rows = database.execute("SELECT name, value FROM fields")
        fields = {name: json.loads(value) for name, value in rows}
        notes = database.execute("SELECT id, start, stop, pitch, velocity, track FROM notes")
        document = Document.from_state(fields | {"notes": notes.fetchall()})
        (length,) = database.execute("SELECT count(*) FROM operations").fetchone()
        done = int(fields["done"])
        if not 0 <= done <= length:
            raise ValueError("done is beyond the history")
        return document, done, length


def summary(path: Path) -> dict[str, Any]:
    """Return the entry in the list of sessions, a dict for JSON. Raise :class:`Refused` if it is
    damaged."""
    with _read(path) as database:
        name, changed, notes, duration = database.execute(_SUMMARY).fetchone()
        name, changed = str(json.loads(name)), str(json.loads(changed))
        return {"name": name, "changed": changed, "notes": notes, "duration": float(duration)}


def operation(path: Path, number: int, *, inverse: bool) -> Any:
    """Return the change of operation ``number`` (from 1), or its inverse, decoded from JSON."""
    column = "back" if inverse else "change"
    with _read(path) as database:
        query = f"SELECT {column} FROM operations WHERE number = ?"
        return json.loads(database.execute(query, (number,)).fetchone()[0])


def write(path: Path, old: Document, change: Change, done: int, is_new: bool) -> Document:
    """Return ``old`` with ``change`` applied, and write it to the database.

    ``done`` is the number of applied operations after this change. A change that ``is_new`` becomes
    the last operation of the history, and undone operations are deleted. :class:`WriteError` means
    that nothing was changed."""
    document = old.copy()
    inverse = document.apply(change)
    names = [name for name in FIELDS if getattr(document, name) != getattr(old, name)]
    rows = [*change.add, *change.change]
    with _transaction(path) as database:
        query = "SELECT value FROM fields WHERE name = 'revision'"
        if database.execute(query).fetchone() != (str(old.revision),):
            raise WriteError("this piece was changed by another program; start the studio again")
        _write_fields(database, {name: document.field(name) for name in names}, done)
        database.executemany("DELETE FROM notes WHERE id = ?", ((n,) for n in change.remove))
        database.executemany("REPLACE INTO notes VALUES (?, ?, ?, ?, ?, ?)", rows)
        if is_new:
            database.execute("DELETE FROM operations WHERE number >= ?", (done,))
            row = done, _to_json(change.json()), _to_json(inverse.json())
            database.execute("INSERT INTO operations VALUES (?, ?, ?)", row)
    return document


def _write_fields(database: sqlite3.Connection, fields: dict[str, Any], done: int) -> None:
    """Write ``fields``, the number of applied operations and the time of the change."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    values = fields | {"done": done, "changed": now}
    rows = [(name, _to_json(value)) for name, value in values.items()]
    database.executemany("REPLACE INTO fields VALUES (?, ?)", rows)


def _to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


@contextlib.contextmanager
def _read(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with _connect(path, "rw") as database:  # "ro" could not roll back a journal
            yield database
    except (sqlite3.Error, ValueError, TypeError, LookupError, RecursionError, OverflowError):
        raise Refused("this session is damaged: its database cannot be read", 404) from None


@contextlib.contextmanager
def _transaction(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """Run the block as one transaction, which is on the disk once the block ends."""
    try:
        with _connect(path, mode) as database, database:
            database.execute("BEGIN IMMEDIATE")
            yield database
    except sqlite3.Error as error:
        raise WriteError(f"this piece cannot be written: {error}; nothing was changed") from error


@contextlib.contextmanager
def _connect(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Connect for one block, since a file that stays open cannot be moved on Windows."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
        database.execute("PRAGMA synchronous = EXTRA")  # fails for a damaged file
        yield database
