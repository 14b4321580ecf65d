"""The report and the pages of piano rolls of evaluate_samples.py."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from musictx import midi
from musictx.evaluate import copies, distance
from musictx.evaluate.musical import DEAD_AIR, METRICS
from musictx.notes import Score
from musictx.render import pianoroll

#: Name of the column of notes shared with the training split.
COPIED = "longest copied span"
#: A repeat is a runaway if it is longer than those of this share of real excerpts.
USUAL = 0.99
REPEATS = ("longest repeat", "longest repeat of pitches")
HEADINGS = {"continuation": "Continuations", "free": "Pieces from nothing"}
#: Rolls drawn at full size, of each kind.
LARGE = 3

Rows = list[dict[str, Any]]


class Named(Protocol):
    """What the pages need of a sample."""

    @property
    def kind(self) -> str: ...

    @property
    def stem(self) -> str: ...


# ------------------------------------------------------------------------------------------- report


def write(
    out: Path,
    facts: Mapping[str, Any],
    rows: Rows,
    scores: Mapping[str, Mapping[str, Sequence[Score]]],
    windows: Sequence[Mapping[str, float]],
) -> None:
    """OUT/report.md.

    facts    the options, and model, corpus, parameters, words
    rows     one an excerpt, as in metrics.csv;  scores  kind -> set -> the same excerpts
    windows  metrics of every stretch of held-out music, for what is rare
    """
    lines = [
        f"# {facts['samples']} continuations and {facts['samples']} free pieces of "
        f"{facts['seconds']:g} s",
        "",
        f"    python scripts/evaluate_samples.py {shlex.join(facts['words'])}",
        "",
        f"Model `{facts['model']}` ({facts['parameters']:,} parameters), corpus "
        f"`{facts['corpus']}`, primers of {facts['primer_seconds']:g} s, temperature "
        f"{facts['temperature']:g}, top-p {facts['top_p']:g}, seed {facts['seed']}. Definitions: "
        "`musictx/evaluate/musical.py`, `distance.py`, `copies.py`. The primer is not measured.",
        "",
    ]
    for kind, sets in scores.items():
        lines += [f"## {HEADINGS[kind]}", "", *_distances(kind, rows, sets), ""]
    lines += [*_rare(rows, windows, facts["seconds"]), "", *_copies(rows), ""]
    lines += [f"![continuations]({page('continuation')})", f"![free pieces]({page('free')})"]
    path = out / "report.md"
    beside = path.with_name(f".{path.name}.part")
    beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.replace(beside, path)


def _distances(kind: str, rows: Rows, sets: Mapping[str, Sequence[Score]]) -> list[str]:
    values = {
        which: {name: [r[name] for r in _of(rows, kind, which)] for name in [*METRICS, COPIED]}
        for which in sets
    }
    counts = ", ".join(f"{len(pieces)} {which}" for which, pieces in sets.items())
    lines = [
        f"{counts}. Means, and distances from validation: overlap (1 = alike) and KL in nats "
        "(0 = alike). The train columns show what two sets of real pieces come to.",
        "",
        "| | unit | validation | generated | train | overlap, generated | overlap, train "
        "| KL, generated | KL, train |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in distance.table("validation", sets, values):
        means = [_number(row.means[which]) for which in ("validation", "generated", "train")]
        apart = [row.distances[which] for which in ("generated", "train")]
        cells = [*means, *(_number(d.overlap) for d in apart), *(_number(d.kl) for d in apart)]
        lines.append(f"| {row.name} | {row.unit} | " + " | ".join(cells) + " |")
    return lines


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _of(rows: Rows, kind: str, which: str) -> Rows:
    return [row for row in rows if row["kind"] == kind and row["set"] == which]


def thresholds(windows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Repeats that at least :data:`USUAL` of the real excerpts do not exceed, by metric."""
    return {
        name: float(np.quantile([w[name] for w in windows], USUAL, method="higher"))
        for name in REPEATS
    }


def _rare(rows: Rows, windows: Sequence[Mapping[str, float]], seconds: float) -> list[str]:
    """Shares of pieces with what should hardly happen."""
    limits = {"longest silence": DEAD_AIR} | thresholds(windows)
    sets = {HEADINGS[kind]: _of(rows, kind, "generated") for kind in HEADINGS}
    lines = [
        "## What should be rare",
        "",
        f"Shares of pieces beyond a limit. Real: all {len(windows)} stretches of {seconds:g} s of "
        f"the validation split, whose {USUAL:.0%} quantile is the limit of repeats.",
        "",
        "| | limit | " + " | ".join(sets) + " | real |",
        "|---|---|" + "---|" * (len(sets) + 1),
    ]
    for name, limit in limits.items():
        cells = [np.mean([r[name] > limit for r in some]) for some in [*sets.values(), windows]]
        lines.append(f"| {name} | > {limit:g} | " + " | ".join(f"{c:.1%}" for c in cells) + " |")
    ended = [f"{np.mean([r['ended'] != 'seconds' for r in some]):.1%}" for some in sets.values()]
    lines.append("| ended before its time | | " + " | ".join(ended) + " | - |")
    return lines


def _copies(rows: Rows) -> list[str]:
    """The longest spans that are also in the training split."""
    lines = [
        "## Copied from the training split",
        "",
        "Longest span of notes, in any key, with the same rhythm in steps of "
        f"{copies.STEP * 1000:g} ms; spans of fewer than {copies.SHORTEST} notes count as 0.",
        "",
        "| | median | 90 % | longest | which | from |",
        "|---|---|---|---|---|---|",
    ]
    for kind, heading in HEADINGS.items():
        for which in ("generated", "validation"):
            some = _of(rows, kind, which)
            spans = [row[COPIED] for row in some]
            top = some[int(np.argmax(spans))]
            name = heading if which == "generated" else f"{heading}: real, validation"
            cells = [f"{np.median(spans):g}", f"{np.quantile(spans, 0.9, method='higher'):g}"]
            cells += [f"{top[COPIED]:g}", top["name"], top["copied from"] or "-"]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


# -------------------------------------------------------------------------------------------- pages


def page(kind: str) -> str:
    """The file of a kind's page of piano rolls."""
    return {"continuation": "continuations.png", "free": "free.png"}[kind]


def draw_pages(out: Path, samples: Sequence[Named]) -> None:
    """A page of small rolls of each kind, and the first few samples large."""
    for kind in HEADINGS:
        stems = sorted(sample.stem for sample in samples if sample.kind == kind)
        shown = []
        for number, stem in enumerate(stems):
            score = midi.read(out / "samples" / f"{stem}.mid")
            told = json.loads((out / "samples" / f"{stem}.json").read_text(encoding="utf-8"))
            title = f"{stem}  {Path(told['piece']).stem}".rstrip()
            shown.append((score, told["seam"], title))
            if number < LARGE:
                path = out / "samples" / f"{stem}.png"
                pianoroll.draw(score, path, title=title, seam=told["seam"] or None)
        contact_sheet(shown, out / page(kind))


def contact_sheet(rolls: Sequence[tuple[Score, float, str]], path: Path) -> None:
    """Small piano rolls on one page: (score, seam in seconds, title) each, primers grey.

    All have one scale of time and of pitch, so that they can be compared; louder notes are darker.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.collections import PolyCollection

    columns = min(4, len(rolls))
    lines = math.ceil(len(rolls) / columns)
    longest = max(1.0, *(score.duration for score, _, _ in rolls))
    pitches = np.concatenate(
        [[48, 72], *(score.notes["pitch"].astype(int) for score, _, _ in rolls)]
    )
    blue = np.array(pianoroll.PALETTE[0]) / 255
    figure, axes = plt.subplots(
        lines, columns, figsize=(4.2 * columns, 1.7 * lines), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(rolls) :]:
        ax.axis("off")
    for ax, (score, seam, title) in zip(axes.flat, rolls):
        notes = score.notes
        start, end = notes["start"], np.maximum(notes["end"], notes["start"] + longest / 500)
        low, high = notes["pitch"] - 0.45, notes["pitch"] + 0.45
        boxes = np.stack([start, low, end, low, end, high, start, high], axis=1).reshape(-1, 4, 2)
        strength = 0.3 + 0.7 * notes["velocity"][:, None] / 127
        colour = np.where(start[:, None] < seam - 1e-6, 0.45, blue)
        ax.add_collection(PolyCollection(boxes, facecolors=1 - strength * (1 - colour)))
        if seam:
            ax.axvline(seam, color=np.array(pianoroll.SEAM) / 255, linewidth=0.8)
        ax.set(xlim=(0, longest), ylim=(pitches.min() - 1, pitches.max() + 1))
        octaves = range(12 * math.ceil(pitches.min() / 12), pitches.max() + 1, 12)
        ax.set_yticks(octaves, [f"C{pitch // 12 - 1}" for pitch in octaves])
        ax.grid(axis="y", linewidth=0.4, color="0.88")
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=6, length=2)
        ax.set_title(title[:60], fontsize=7, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
    beside = path.with_name(f".{path.name}.part")
    figure.savefig(beside, dpi=100, facecolor="white", format="png")
    plt.close(figure)
    os.replace(beside, path)
