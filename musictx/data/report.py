"""What became of every file of a corpus: kept, or left out and why, and what was lost."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from musictx.data.shards import SPLITS, Totals

JSON, TEXT = "report.json", "report.txt"


class LeftOut(NamedTuple):
    """One file that is not in the shards: ``reason`` is a short label, ``detail`` a sentence."""

    name: str
    reason: str
    detail: str


@dataclass
class Report:
    """The result of ``prepare``.

    folder      where the shards are;  up_to_date  they were already there, nothing was read
    source      the corpus in words;  found  how many files (or chorales) it has
    splits      totals by split;  left_out  every file that is not in the shards
    lossy       what was lost or repaired in the pieces that were kept: label -> number of notes
    remarks     how the split came about where it was not the usual way
    """

    folder: Path
    source: str
    found: int
    splits: dict[str, Totals] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    lossy: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    up_to_date: bool = False

    @property
    def reasons(self) -> dict[str, int]:
        """Reason -> number of files left out, the most frequent first."""
        counts = Counter(item.reason for item in self.left_out)
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    def total(self) -> Totals:
        """Pieces, tokens, notes and seconds of all splits."""
        columns = zip(*self.splits.values()) if self.splits else ()
        return Totals(*map(sum, columns))

    def __str__(self) -> str:
        """A few lines for the terminal."""
        lines = [f"{self.source}: {self.found:,} files, {self.total()}"]
        lines += [f"  {split:<11}{t}" for split, t in self.splits.items() if t.pieces]
        if self.left_out:
            counted = ", ".join(f"{n:,} {reason}" for reason, n in self.reasons.items())
            lines.append(f"  left out   {counted} (each one in {self.folder / TEXT})")
        if self.lossy:
            counted = ", ".join(f"{label}: {n:,}" for label, n in self.lossy.items())
            lines.append(f"  changed    {counted}")
        lines += [f"  note       {remark}" for remark in self.remarks]
        state = "up to date" if self.up_to_date else "written"
        return "\n".join([*lines, f"  shards     {self.folder} ({state})"])

    def to_json(self) -> str:
        """Everything but where it lies and when it was made, so that equal shards are equal."""
        data = {
            "source": self.source,
            "found": self.found,
            "splits": {split: t._asdict() for split, t in self.splits.items()},
            "reasons": self.reasons,
            "left_out": [item._asdict() for item in self.left_out],
            "lossy": self.lossy,
            "remarks": self.remarks,
        }
        return json.dumps(data, indent=1) + "\n"

    def to_text(self) -> str:
        """Every file left out, by reason, for people."""
        lines = [f"{self.source}: {self.found} files", ""]
        lines += [f"{split}: {self.splits.get(split, Totals())}" for split in SPLITS]
        lines += ["", *self.remarks] if self.remarks else []
        lines += ["", "Lost or repaired in the pieces that were kept (notes):"]
        lines += [f"  {label}: {n}" for label, n in self.lossy.items()] or ["  nothing"]
        lines += ["", f"Left out: {len(self.left_out)}"]
        for reason, n in self.reasons.items():
            lines += ["", f"{reason} ({n})"]
            lines += [f"  {i.name}: {i.detail}" for i in self.left_out if i.reason == reason]
        return "\n".join(lines) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Report:
        """The report in a shard folder, as of a folder that is up to date.

        Raises ``OSError``, ``ValueError``, ``KeyError`` or ``TypeError`` if there is none to read.
        """
        data = json.loads((folder / JSON).read_text(encoding="utf-8"))
        return cls(
            folder=folder,
            source=data["source"],
            found=data["found"],
            splits={split: Totals(**t) for split, t in data["splits"].items()},
            left_out=[LeftOut(**item) for item in data["left_out"]],
            lossy=data["lossy"],
            remarks=data["remarks"],
            up_to_date=True,
        )
