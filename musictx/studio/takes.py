"""Takes: a request, its progress and its results; on disk before it is published.

In the folder ``takes/`` of a session:
    0007.mid               what take 7 was computed from; a new piece has none
    0007-1.mid, 0007-2.mid its proposals, as its command writes them
    0007.json              all of it; what is composed when the process ends is stopped
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

from pydantic import AfterValidator, Field, FiniteFloat, TypeAdapter

from musictx import midi
from musictx.files import read_bytes, tidy, write_bytes, write_text
from musictx.notes import Score
from musictx.studio.change import Note, Number, Seconds, Track, TrackId

#: The largest file of a take that is read, MB: a damaged one could fill the memory.
MOST_MB = 64
#: States of a take or proposal that is not over.
RUNNING = ("waiting", "composing")
State = Literal["waiting", "composing", "done", "failed", "stopped"]


_TRACK = TypeAdapter(Track)
TrackRow = Annotated[
    dict[str, Any], AfterValidator(lambda row: _TRACK.validate_python(row)._asdict())
]


@dataclass
class Proposal:
    """One version of a take; see :class:`~musictx.studio.performing.Outcome`. While it is composed
    it has no notes yet but their beginnings and ends so far, the ``events``."""

    number: Number
    state: State = "waiting"
    notes: Sequence[Note] = ()
    tracks: Sequence[TrackRow] = ()
    removes: Sequence[Number] = ()
    remark: str | None = None
    events: Sequence[Any] = ()


@dataclass
class Take:
    """One request and its results, as pages see them."""

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
    """Its notes are published when a proposal is finished, not before."""
    aside: bool = False
    error: str | None = None
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    proposals: list[Proposal] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.state in RUNNING

    def json(self, notes: bool = True) -> dict[str, Any]:
        """For a page, with the notes of its proposals or without."""
        left_out = () if notes else ("notes", "events")
        proposals = [
            {name: value for name, value in vars(one).items() if name not in left_out}
            for one in self.proposals
        ]
        return vars(self) | {"proposals": proposals}

    def finish(self, state: State, error: str | None = None) -> None:
        """Set the final state of the take; its unfinished proposals count as failed."""
        self.state, self.place, self.error = state, 0, error
        for one in self.proposals:
            if one.state in RUNNING:
                one.state, one.events = "failed", ()


class Takes:
    """The takes of one session, in their order, from its folder."""

    def __init__(self, session_folder: Path) -> None:
        self.all: list[Take] = []
        folder = session_folder / "takes"
        tidy(folder)
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
                take = _restored(read_bytes(path, MOST_MB, "the size of a take"))
                if stem(take.id) == path.stem:
                    self.all.append(take)
        self.all.sort(key=lambda take: take.id)
        names = [re.match(r"[0-9]{4,9}\b", path.name) for path in folder.glob("*")]
        used = [take.id for take in self.all] + [int(name[0]) for name in names if name]
        self.following = max(used, default=0) + 1

    def find(self, number: int) -> Take | None:
        """The take of that number."""
        return next((take for take in self.all if take.id == number), None)


_TAKE = TypeAdapter(Take)


def _restored(data: bytes) -> Take:
    """A take from its file. Raises ``ValueError`` and other exceptions for a damaged file."""
    state = json.loads(data)
    for one in state["proposals"]:
        if one["state"] in RUNNING:  # earlier versions wrote notes without an end
            one["notes"] = ()
    json.dumps(state, allow_nan=False)
    take: Take = _TAKE.validate_python(state)
    if take.running:  # the process ended in the middle of it
        take.finish("stopped")
    return take


def stem(number: int) -> str:
    """The name of a take's files, without ending."""
    return f"{number:04d}"


def save(folder: Path, take: Take) -> None:
    """Write the state of a take into the folder of its session."""
    text = json.dumps(asdict(take), separators=(",", ":"), allow_nan=False)
    write_text(folder / "takes" / f"{stem(take.id)}.json", text)


def save_input(folder: Path, number: int, data: bytes) -> None:
    """Write the file that a take is computed from."""
    write_bytes(folder / "takes" / f"{stem(number)}.mid", data)


def save_result(folder: Path, take: int, proposal: int, score: Score) -> None:
    """Write the file of a finished proposal."""
    write_bytes(folder / "takes" / f"{stem(take)}-{proposal}.mid", midi.to_bytes(score))
