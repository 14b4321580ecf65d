"""Sessions from before there was a database -> :mod:`musictx.studio.store`; once for each.

``journal.jsonl`` had a line of JSON an operation on the file that the session began with, called by
the byte at which the line begins. It stays where it is.
"""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from musictx.errors import UserError
from musictx.files import atomic, read_bytes
from musictx.formats import read
from musictx.studio import exchange, store
from musictx.studio.change import clean_name, recorded
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.errors import Refused

JOURNAL = "journal.jsonl"
#: A longer journal is none, MB: a damaged one would fill the memory.
MOST_MB = 1000
DAMAGED = "The journal of this piece is damaged. What can be read of it is here."
_IMPORT = threading.Lock()


def convert(folder: Path, limits: StudioLimits) -> None:
    """Make the database of the session in ``folder`` from its journal, unless it has one."""
    journal = folder / JOURNAL
    with _IMPORT:
        if (folder / store.DATABASE).exists() or not journal.exists():
            return
        if not journal.is_file():  # a pipe would never answer
            raise Refused("this session is damaged: its journal is no regular file", 404)
        starts = sorted(folder.glob("start.*"))
        document = exchange.document_of(read(starts[0], limits=limits)) if starts else Document()
        done, undone, damaged = _replayed(document, read_bytes(journal, MOST_MB, "a journal"))
        places = (*done, *reversed(undone))
        operations = [(json.dumps(change), json.dumps(back)) for _, change, back in places]
        changed = datetime.fromtimestamp(journal.stat().st_mtime, UTC)
        with atomic(folder / store.DATABASE) as part:
            remark = DAMAGED if damaged else None
            store.create(part, document, operations, len(done), remark, changed)


def _replayed(document: Document, lines: bytes) -> tuple[list[Any], list[Any], int]:
    """Do all ``lines`` with ``document``; the operations, (place, change, inverse), that are done
    and those that are undone, and how many lines are damaged. What is torn at the end is none."""
    done: list[Any] = []
    undone: list[Any] = []
    damaged = place = 0
    for text in io.BytesIO(lines):
        try:
            line = json.loads(text)
            revision = int(line["revision"])
            if "do" in line:
                _apply(document, line["do"])
                done.append((place, line["do"], line.get("back")))
                undone.clear()
            elif "undo" in line or "redo" in line:
                word, source, target = "undo", done, undone
                if word not in line:
                    word, source, target = "redo", undone, done
                if not source or source[-1][0] != line[word]:
                    raise Refused(f"{word}: another operation was the last")
                _apply(document, source[-1][2 if word == "undo" else 1])
                target.append(source.pop())
            else:
                document.name = clean_name(line["name"])
            document.revision = revision
        except (UserError, ValueError, LookupError, TypeError, RecursionError):
            damaged += text.endswith(b"\n")
        place += len(text)
    return done, undone, damaged


def _apply(document: Document, data: Any) -> None:
    change = recorded(data)
    document.fits(change)
    document.apply(change)
