"""What became of every file of a corpus: kept, or left out and why, and what was lost."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from musictx.data.shards import SPLITS, Shards, Totals

JSON = "report.json"


class LeftOut(NamedTuple):
    """One file that is not in the shards: ``reason`` is a short label, ``detail`` a sentence."""

    name: str
    reason: str
    detail: str


@dataclass
class Report:
    """The result of ``prepare``.

    folder      where the shards are;  up_to_date  they were already there, nothing was read
    source      the corpus in words;  files  how many files (or chorales) it has
    splits      totals by split;  left_out  every file that is not in the shards
    lossy       what was lost, merged or repaired in the pieces that were kept: label -> number
    remarks     how the split came about where it was not the usual way
    """

    folder: Path
    source: str
    files: int
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
        lines = [f"{self.source}: {self.files:,} files, {self.total()}"]
        lines += [f"  {split:<11}{t}" for split, t in self.splits.items() if t.pieces]
        if self.left_out:
            counted = ", ".join(f"{n:,} {reason}" for reason, n in self.reasons.items())
            lines.append(f"  left out   {counted} (each one in {self.folder / JSON})")
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
            "found": self.files,
            "splits": {split: t._asdict() for split, t in self.splits.items()},
            "reasons": self.reasons,
            "left_out": [item._asdict() for item in self.left_out],
            "lossy": self.lossy,
            "remarks": self.remarks,
        }
        return json.dumps(data, indent=1) + "\n"

    @classmethod
    def of(cls, shards: Shards) -> Report:
        """The report of shards that are there already; where its files are gone or damaged, with
        no more than the totals."""
        splits = {split: shards.totals(split) for split in SPLITS}
        whole = cls(shards.folder, shards.corpus.get("name", ""), 0, splits, up_to_date=True)
        try:
            data = json.loads((shards.folder / JSON).read_text(encoding="utf-8"))
            files, lossy = data["found"] + 0, Counter(data["lossy"])
            left_out = [LeftOut(**item) for item in data["left_out"]]
            remarks = [str(remark) for remark in data["remarks"]]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            files, lossy, left_out, remarks = 0, Counter(), [], []
        whole.files = files or whole.total().pieces
        whole.left_out, whole.remarks = left_out, remarks
        whole.left_out.sort()
        whole.lossy = dict(sorted(lossy.items()))
        return whole
