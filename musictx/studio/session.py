"""A document and its journal: every operation is on the disk before it is acknowledged.

Folder of a session:
    start.mid, start.musicxml   the file that it began with, if there was one
    journal.jsonl               a line an operation, forwards and backwards
    document.json               the document as of some byte of the journal, so that reading is fast
    takes/                      what was composed (musictx/studio/composer.py)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from musictx.errors import UserError
from musictx.files import read_bytes, tidy, write_bytes, write_text
from musictx.formats import read
from musictx.studio import exchange
from musictx.studio.change import Change, clean_name, recorded, whole
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused
from musictx.studio.journal import MOST_MB, Journal, last_line

JOURNAL, SNAPSHOT, START = "journal.jsonl", "document.json", "start"
#: A snapshot is written when the journal has grown by so many bytes, and by half of its own size.
SNAPSHOT_BYTES = 200_000
#: What an operation in the journal says for going back to before it, and for doing it again.
_DIRECTION = {"undo": "back", "redo": "do"}
DAMAGED = "The journal of this piece is damaged. What can be read of it is here."


class Session:
    """One session, from its folder. ``lock`` is held by whoever reads or changes it; every method
    takes it itself."""

    def __init__(self, folder: Path, limits: StudioLimits) -> None:
        self.id = folder.name
        self.folder = folder
        self.lock = threading.RLock()
        self.deleted = False
        self.damaged = 0  # lines of the journal that say nothing that can be done
        self._limits = limits
        self._done: list[int] = []  # places in the journal of the operations that can be undone
        self._undone: list[int] = []
        self._snapshot_at, self._snapshot_size = 0, 0
        for place in (folder, folder / "takes"):
            tidy(place)
        self._read()

    # --------------------------------------------------------------------------------- reading

    def _read(self) -> None:
        """The snapshot and the lines after it; else the file it began with, and all lines."""
        newest = self._from_snapshot()
        self._journal = Journal(self.folder / JOURNAL, self._snapshot_at)
        if newest is not None and self._journal.since == self._snapshot_at:
            self.document = newest
        else:
            self._done, self._undone, self._snapshot_at = [], [], 0
            starts = sorted(self.folder.glob(START + ".*"))
            scores = [read(start, limits=self._limits) for start in starts]
            self.document = exchange.document_of(scores[0]) if scores else Document()
        for place, line in self._journal.lines():
            try:
                self._replay(place, line)
            except (UserError, LookupError, TypeError):
                self.damaged += 1
        lost = not self._journal.size or (newest and newest.revision > self.document.revision)
        if newest is not None and newest is not self.document and lost:
            # The end of the journal was lost from the disk: the snapshot stands, and no history.
            self.document, self._done, self._undone = newest, [], []
            self.snapshot()

    def _from_snapshot(self) -> Document | None:
        """The document, its history and its place in the journal; None where they are damaged."""
        try:
            text = read_bytes(self.folder / SNAPSHOT, MOST_MB, "the size of a snapshot")
            data = json.loads(text)
            document = Document.restored(data["document"])
            places = [data["done"], data["undone"], [data["size"]]]
            done, undone, (at,) = ([whole(n, 0, 2**53, "place") for n in row] for row in places)
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None
        self._done, self._undone = done, undone
        self._snapshot_at, self._snapshot_size = at, len(text)
        return document

    def _replay(self, place: int, line: dict[str, Any] | None) -> None:
        """What a line says; an error of those that :meth:`_read` counts where that cannot be, and
        then nothing is changed."""
        if line is None:
            raise Refused("it is damaged")
        revision = whole(line["revision"], 0, 2**53, "revision")
        if "do" in line:
            self._apply(recorded(line["do"]))
            self._done.append(place)
            self._undone.clear()
        elif "undo" in line or "redo" in line:
            word, source, target = "undo", self._done, self._undone
            if word not in line:
                word, source, target = "redo", self._undone, self._done
            if source[-1:] != [line[word]]:
                raise Refused(f"{word}: another operation was the last")
            self._apply(self._step(word, line[word]))
            target.append(source.pop())
        else:
            self.document.name = clean_name(line["name"])
        self.document.revision = revision

    def _apply(self, change: Change) -> Change:
        self.document.fits(change)
        return self.document.apply(change)

    def _step(self, word: str, place: int) -> Change:
        """What undoes, or does again, the operation at ``place``."""
        try:
            return recorded(self._journal.at(place)[_DIRECTION[word]])
        except (KeyError, UserError):
            raise Refused(f"the journal of this session is damaged; {word} ends here") from None

    # ------------------------------------------------------------------------------ operations

    def do(self, change: Change, revision: int) -> dict[str, Any]:
        """Apply a change that a page made on ``revision``; what the page needs to know then.

        :class:`Refused` for a revision that is no longer the document's (409) and a change that
        cannot be; then nothing is changed.
        """
        with self.held():
            self._fresh(revision)
            before = exchange.horizon(self.document)
            change = exchange.own_names(change, self.document)
            change = self.document.check(change, self._limits)
            next_id = self.document.next_id
            back = self.document.apply(change)
            try:
                place = self._written({"do": change.json(), "back": back.json()}, back)
            except BaseException:
                self.document.next_id = next_id
                raise
            self._done.append(place)
            self._undone.clear()
            self._maybe_snapshot()
            after = exchange.horizon(self.document)
            answer = self._standing() | {"next_id": self.document.next_id}
            answer["duration"] = self.document.duration
            if change.tracks is not None:  # what is shown where one has no name may be another
                answer["tracks"] = exchange.tracks(self.document)
            return answer if before == after else answer | {"beats": exchange.beats(self.document)}

    def undo(self, revision: int) -> dict[str, Any]:
        """Take back the last operation that stands; the document (see :meth:`json`)."""
        return self._move(revision, "undo", self._done, self._undone)

    def redo(self, revision: int) -> dict[str, Any]:
        """Do again what was undone last; the document."""
        return self._move(revision, "redo", self._undone, self._done)

    def accept(
        self, take: int, proposal: dict[str, Any], label: str, revision: int
    ) -> dict[str, Any]:
        """Bring the notes of a proposal, as one operation; the document."""
        with self.held():
            self._fresh(revision)
            self.do(self.document.accepting(take, proposal, label), revision)
            return self.json()

    def _move(
        self, revision: int, word: str, source: list[int], target: list[int]
    ) -> dict[str, Any]:
        with self.held():
            self._fresh(revision)
            if not source:
                raise Refused(f"there is nothing to {word}", 409, revision=self.document.revision)
            place = source[-1]
            back = self._apply(self._step(word, place))
            self._written({word: place}, back)
            target.append(source.pop())
            self._maybe_snapshot()
            return self.json()

    @contextlib.contextmanager
    def held(self) -> Iterator[Path]:
        """The folder, which stays where it is until the block ends; :class:`Refused` (404) once the
        session is deleted. Whoever writes there holds it."""
        with self.lock:
            if self.deleted:
                raise Refused("this session was deleted", 404)
            yield self.folder

    def _fresh(self, revision: Any) -> None:
        if revision != self.document.revision or type(revision) is not int:
            sentence = "another page changed this music in between; it is read again"
            raise Refused(sentence, 409, revision=self.document.revision)

    def _written(self, line: dict[str, Any], back: Change) -> int:
        """Acknowledge what was just applied; ``back`` takes it away if the disk does not."""
        try:
            return self._journal.append(summary(self.document) | line)
        except BaseException:
            self.document.apply(back)
            self.document.revision -= 2
            raise

    # --------------------------------------------------------------------------------- answers

    def json(self) -> dict[str, Any]:
        """The document as a page gets it, without takes."""
        with self.lock:
            found = {"id": self.id} | exchange.view(self.document) | self._standing()
            return found | ({"remark": DAMAGED} if self.damaged else {})

    def start(self) -> bytes:
        """The MIDI file that it began with; nothing of another, or none."""
        with contextlib.suppress(OSError):
            return (self.folder / f"{START}.mid").read_bytes()
        return b""

    def copy(self) -> Document:
        """The document as it stands, the caller's own."""
        with self.lock:
            held = self.document
            return dataclasses.replace(
                held,
                notes=dict(held.notes),
                locked=set(held.locked),
                accepted=set(held.accepted),
            )

    def _standing(self) -> dict[str, Any]:
        return {
            "revision": self.document.revision,
            "music": exchange.music_of(self.document),
            "can_undo": bool(self._done),
            "can_redo": bool(self._undone),
        }

    # -------------------------------------------------------------------------------- snapshot

    def _maybe_snapshot(self) -> None:
        grown = self._journal.size - self._snapshot_at
        if grown > max(SNAPSHOT_BYTES, self._snapshot_size // 2):
            with contextlib.suppress(UserError):  # the journal has it all
                self.snapshot()

    def snapshot(self) -> None:
        """Write ``document.json``, so that the next start reads less."""
        with self.held() as folder:
            data = {
                "size": self._journal.size,
                "done": self._done,
                "undone": self._undone,
                "document": self.document.state(),
            }
            text = json.dumps(data, separators=(",", ":"), allow_nan=False)
            write_text(folder / SNAPSHOT, text)
            self._snapshot_at, self._snapshot_size = self._journal.size, len(text)


def fill_folder(folder: Path, document: Document, start: tuple[str, bytes] | None) -> None:
    """Fill the new ``folder`` of a session that begins with ``document``, read from the bytes of
    ``start``, (".mid", bytes), if there are any."""
    if start is not None:
        write_bytes(folder / (START + start[0]), start[1])
    journal = Journal(folder / JOURNAL)
    journal.append(summary(document))
    state = {"size": journal.size, "done": [], "undone": [], "document": document.state()}
    write_text(folder / SNAPSHOT, json.dumps(state, separators=(",", ":"), allow_nan=False))


def summary(document: Document) -> dict[str, Any]:
    """What the list of sessions says, in every line of the journal."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": document.revision,
        "name": document.name,
        "notes": len(document.notes),
        "duration": document.duration,
    }


def listed(folder: Path) -> dict[str, Any] | None:
    """The line of a session in the list of all; None for a folder that holds none."""
    try:
        line = last_line(folder / JOURNAL)
        if line is None:
            return None
        found = {
            "id": folder.name,
            "name": str(line["name"]),
            "changed": line["at"],
            "notes": int(line["notes"]),
            "duration": float(line["duration"]),
        }
        json.dumps(found, allow_nan=False)
        return found
    except (OSError, KeyError, TypeError, ValueError, OverflowError):
        return None


def sync(folder: Path) -> None:
    """Bring the names of the files in ``folder`` to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


Publish = Callable[[str, str, Any], None]
"""Tell the pages of a session: (id, kind of event, data); from any thread."""
