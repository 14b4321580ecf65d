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
from typing import Any, get_args, get_origin, get_type_hints

from musictx import midi
from musictx.files import read_bytes, tidy, write_bytes, write_text
from musictx.notes import Score
from musictx.studio.change import note, track, whole
from musictx.studio.outcomes import Outcome

#: A larger take is none, MB: a damaged one fills the memory.
MOST_MB = 64
#: States of a take that are not over; of a take that is.
RUNNING = ("waiting", "composing")
OVER = ("done", "failed", "stopped")


@dataclass
class Proposal:
    """One version of a take; see :class:`~musictx.studio.outcomes.Outcome`. While it is composed it
    has the notes so far, those that sound without an end."""

    number: int
    state: str = "waiting"
    notes: Sequence[Any] = ()
    tracks: Sequence[dict[str, Any]] = ()
    removes: Sequence[int] = ()
    remark: str | None = None
    accepted: bool = False

    def take(self, outcome: Outcome, remark: str | None) -> None:
        """It is finished."""
        self.notes, self.tracks, self.removes = outcome.notes, outcome.tracks, outcome.removes
        self.state, self.remark = "done", remark


@dataclass
class Take:
    """One request and what came of it, as pages see it."""

    id: int
    task: str
    label: str
    seed: int
    model: str
    begin: float
    end: float
    tracks: list[int] | None
    request: dict[str, Any]
    command: str
    input: str | None
    state: str = "waiting"
    place: int = 0
    progress: float = 0.0
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
        state = {**vars(self), "proposals": [vars(one).copy() for one in self.proposals]}
        if not notes:
            for one in state["proposals"]:
                del one["notes"]
        return state

    def finish(self, state: str, error: str | None = None) -> None:
        """It is over: what is not done of it never will be."""
        self.state, self.place, self.error = state, 0, error
        for one in self.proposals:
            if one.state in RUNNING:
                one.state, one.notes = "failed", ()


class Takes:
    """The takes of one session, in their order, from its folder."""

    def __init__(self, session_folder: Path) -> None:
        self.all: list[Take] = []
        folder = session_folder / "takes"
        tidy(folder)
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
                data = json.loads(read_bytes(path, MOST_MB, "the size of a take"))
                self.all.append(_restored(data))
        self.all.sort(key=lambda take: take.id)
        names = [re.match(r"[0-9]{4,9}\b", path.name) for path in folder.glob("*")]
        used = [take.id for take in self.all] + [int(name[0]) for name in names if name]
        self.following = max(used, default=0) + 1

    def find(self, number: int) -> Take | None:
        """The take of that number."""
        return next((take for take in self.all if take.id == number), None)


def _restored(data: dict[str, Any]) -> Take:
    """A take from its file; ``ValueError`` and others for what hands or disks have damaged."""
    json.dumps(data, allow_nan=False)
    take = Take(**{**data, "proposals": [Proposal(**one) for one in data["proposals"]]})
    parts: list[Take | Proposal] = [take, *take.proposals]
    for one in parts:
        for name, kind in get_type_hints(type(one)).items():
            if name != "proposals" and not _is(getattr(one, name), kind):
                raise ValueError(name)
        if one.state not in (*RUNNING, *OVER):
            raise ValueError(one.state)
    whole(take.id, 1, 10**9, "id")
    if take.running:  # the process ended in the middle of it
        take.finish("stopped")
    for one in take.proposals:  # notes that sounded without an end went with the process
        whole(one.number, 1, 1000, "number")
        for row in one.notes:
            note(row, "notes")
        for part in one.tracks:
            track(part)
    return take


def _is(value: Any, kind: Any) -> bool:
    """Whether a value of JSON is of the type that a field says."""
    if kind in (Any, float):
        return kind is Any or type(value) in (int, float)
    inner = get_args(kind)
    if type(None) in inner:
        return value is None or _is(value, inner[0])
    if get_origin(kind) in (list, Sequence):
        return isinstance(value, list) and all(_is(one, inner[0]) for one in value)
    return type(value) is (get_origin(kind) or kind)


def stem(number: int) -> str:
    """The name of a take's files, without ending."""
    return f"{number:04d}"


def save(folder: Path, take: Take) -> None:
    """Write down how a take stands, in the folder of its session."""
    text = json.dumps(asdict(take), separators=(",", ":"), allow_nan=False)
    write_text(folder / "takes" / f"{stem(take.id)}.json", text)


def save_input(folder: Path, number: int, data: bytes) -> None:
    """Write the file that a take is computed from."""
    write_bytes(folder / "takes" / f"{stem(number)}.mid", data)


def save_result(folder: Path, take: int, proposal: int, score: Score) -> None:
    """Write the file of a finished proposal."""
    write_bytes(folder / "takes" / f"{stem(take)}-{proposal}.mid", midi.to_bytes(score))
