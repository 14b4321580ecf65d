"""Takes: a request, its progress and its results. A take is on disk before it is published.

Files in the folder ``takes/`` of a session:
    0007.mid                 the input of take 7; a new piece has none
    0007-1.mid, 0007-2.mid   its proposals, as the command writes them
    0007.json                the state of the take
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat

from musictx.files import read_bytes, tidy, write_text
from musictx.studio.change import Note, Number, Seconds, Track, TrackId
from musictx.studio.errors import Refused, validate

#: The largest file of a take that is read, MB; a larger, damaged file could fill the memory.
MOST_MB = 64
#: States of a take or proposal that is not finished.
RUNNING = ("waiting", "composing")
State = Literal["waiting", "composing", "done", "failed", "stopped"]
TrackRow = Annotated[dict[str, Any], AfterValidator(lambda row: validate(Track, row)._asdict())]


@dataclass
class Proposal:
    """One version of a take, as what it changes in the document: its notes, new tracks, and the
    numbers of the notes that it replaces. While it is being composed it has no notes yet, only
    ``events``: the starts and ends of notes so far."""

    number: Number
    state: State = "waiting"
    notes: Sequence[Note] = ()
    tracks: Sequence[TrackRow] = ()
    removes: Sequence[Number] = ()
    remark: str | None = None
    events: Sequence[Any] = ()


@dataclass
class Take:
    """One request and its results, as pages see them.

    place    the position in the queue, from 1; 0 for a take that does not wait
    at_end   notes are published when a proposal is finished, not before
    aside    a page does not show the take
    """

    id: Annotated[int, Field(ge=1, le=10**9)]
    task: str
    label: str
    seed: Number
    model: str
    begin: Seconds
    end: Seconds
    tracks: list[TrackId] | None
    request: dict[str, Any]
    command: str
    input: str | None
    state: State = "waiting"
    place: int = 0
    progress: FiniteFloat = 0.0
    at_end: bool = False
    aside: bool = False
    error: str | None = None
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    proposals: list[Proposal] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.state in RUNNING

    def json(self, notes: bool = True) -> dict[str, Any]:
        """Return the take as JSON for a page, with or without the notes of its proposals."""
        left_out = () if notes else ("notes", "events")
        proposals = [
            {name: value for name, value in vars(proposal).items() if name not in left_out}
            for proposal in self.proposals
        ]
        return vars(self) | {"proposals": proposals}

    def finish(self, state: State, error: str | None = None) -> None:
        """Set the final state of the take; unfinished proposals become failed."""
        self.state, self.place, self.error = state, 0, error
        for proposal in self.proposals:
            if proposal.state in RUNNING:
                proposal.state, proposal.events = "failed", ()


class Takes(dict[int, Take]):
    """The takes of one session by their numbers, read from its folder. Damaged takes are left out,
    but count for ``last_number``, so that their numbers are not used again."""

    def __init__(self, session_folder: Path) -> None:
        super().__init__()
        folder = session_folder / "takes"
        tidy(folder)
        for path in folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
                take = _restored(read_bytes(path, MOST_MB, "the size of a take"))
                if stem(take.id) == path.stem:
                    self[take.id] = take
        names = [re.match(r"[0-9]{4,9}\b", path.name) for path in folder.glob("*")]
        self.last_number = max((int(name[0]) for name in names if name), default=0)

    def proposal(self, take: int, number: Any) -> tuple[Take, Proposal]:
        """Return a take and its finished proposal of this number; raise :class:`Refused` (404) if
        there is none."""
        for proposal in self[take].proposals if take in self else ():
            if (proposal.number, proposal.state) == (number, "done"):
                return self[take], proposal
        raise Refused(f"take {take} has no finished proposal {str(number)[:20]}", 404)


def _restored(data: bytes) -> Take:
    """Return the take from its JSON file. Raise ``ValueError`` or another exception if the file is
    damaged. A take that was being composed when the process ended is stopped."""
    state = json.loads(data)
    for proposal in state["proposals"]:
        if proposal["state"] in RUNNING:  # earlier versions wrote notes without an end
            proposal["notes"] = ()
    json.dumps(state, allow_nan=False)
    take = validate(Take, state)
    if take.running:
        take.finish("stopped")
    return take


def stem(number: int) -> str:
    """Return the name of a take's files, without ending."""
    return f"{number:04d}"


def save(folder: Path, take: Take) -> None:
    """Write the state of a take into the folder of its session."""
    text = json.dumps(asdict(take), separators=(",", ":"), allow_nan=False)
    write_text(folder / "takes" / f"{stem(take.id)}.json", text)
