"""The pieces of evaluate_chorales.py: as files, as lists of faults, as pages of piano rolls."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from musictx import midi
from musictx.chorale import grid as four
from musictx.chorale import voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.keys import NAMES
from musictx.render import pianoroll

STEPS_PER_BAR = voice_leading.STEPS_PER_BAR


@dataclass(frozen=True)
class Piece:
    """A chorale and what is known of it.

    grid    all four voices;  name  its file's, without ending, or the corpus's
    source  the piece or melody it was made from, "" if none
    seam    steps given at its beginning: what is measured comes after them
    ended   "model", "seconds" (or what else ended it), "melody" where the length was given
    nats    nats per note of the whole piece and its end under the model; nan if not known
    given   nats per note of Bach's own piece of the same soprano; nan if there is none
    """

    name: str
    grid: Grid
    source: str = ""
    seam: int = 0
    ended: str = ""
    nats: float = math.nan
    given: float = math.nan

    @property
    def new(self) -> Grid:
        """What comes after the seam."""
        pitches, tied = self.grid.pitches[self.seam :], self.grid.tied[self.seam :].copy()
        tied[:1] = False
        return Grid(pitches, tied)

    @property
    def report(self) -> voice_leading.Report:
        return voice_leading.report(self.new.pitches, self.new.tied)


def write(piece: Piece, folder: Path) -> None:
    """NAME.json, from which :func:`read` has it again, NAME.png, then NAME.mid."""
    score = four.write(piece.grid)
    told = asdict(piece) | {
        "grid": None,
        "pitches": piece.grid.pitches.tolist(),
        "tied": piece.grid.tied.astype(int).tolist(),
    }
    write_text(folder / f"{piece.name}.json", json.dumps(told) + "\n")
    title = f"{piece.name}  {piece.source}".rstrip()
    seam = piece.seam * four.STEP_SECONDS
    pianoroll.draw(score, folder / f"{piece.name}.png", title=title, seam=seam or None)
    midi.write(score, folder / f"{piece.name}.mid")


def written(name: str, folder: Path) -> bool:
    return (folder / f"{name}.mid").is_file()


def read(name: str, folder: Path) -> Piece:
    told = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    tied = np.array(told.pop("tied"), bool).reshape(-1, 4)
    pitches = np.array(told.pop("pitches"), np.int64).reshape(-1, 4)
    return Piece(**told | {"grid": Grid(pitches, tied)})


def write_text(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def faults_of(piece: Piece) -> list[str]:
    """Lines of text: how the piece fares, then every fault of its new part with bar and beat of
    the whole piece, and the chords before it and there (soprano first, - for silence)."""
    grid, report = piece.new, piece.report
    count = sum(report.counts.values())
    ending = "triad in root position" if report.final_triad else "no triad in root position"
    lines = [
        f"{piece.name} {piece.source}".rstrip()
        + f": {report.bars:.1f} bars, {report.key}, {count} faults, bass ends {report.cadence}, "
        f"last chord {ending}"
    ]
    for fault in voice_leading.faults(grid.pitches, grid.tied):
        before = chord(grid.pitches[fault.step - 1]) + " > " if fault.step else ""
        moved = fault._replace(step=fault.step + piece.seam)
        lines.append(f"    {moved}: {before}{chord(grid.pitches[fault.step])}")
    return lines


def chord(pitches: np.ndarray) -> str:
    return " ".join("-" if p < 0 else f"{NAMES[p % 12]}{p // 12 - 1}" for p in pitches.tolist())


def page(pieces: Sequence[Piece], path: Path) -> None:
    """Small piano rolls on one page, a colour a voice, a line a bar, what was given paler.

    All have one scale of time and of pitch, so that they can be compared.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.collections import PolyCollection

    columns = min(2, len(pieces))
    lines = math.ceil(len(pieces) / columns)
    bars = max(len(piece.grid) for piece in pieces) / STEPS_PER_BAR
    figure, axes = plt.subplots(
        lines, columns, figsize=(8.4 * columns, 2.7 * lines), squeeze=False, layout="constrained"
    )
    for ax in axes.flat[len(pieces) :]:
        ax.axis("off")
    colours = [np.array(colour) / 255 for colour in pianoroll.PALETTE]
    for ax, piece in zip(axes.flat, pieces):
        for voice in range(3, -1, -1):
            start, end, pitch = _notes(piece.grid, voice)
            low, high = pitch - 0.42, pitch + 0.42
            corners = [start, low, end, low, end, high, start, high]
            boxes = np.stack(corners, axis=1).reshape(-1, 4, 2)
            given = (start < piece.seam / STEPS_PER_BAR)[:, None]
            colour = np.where(given, 0.5 + 0.5 * colours[voice], colours[voice])
            ax.add_collection(PolyCollection(boxes, facecolors=colour))
        if piece.seam:
            ax.axvline(piece.seam / STEPS_PER_BAR, color=np.array(pianoroll.SEAM) / 255, lw=0.8)
        ax.set(xlim=(0, bars), ylim=(35, 82))
        ax.set_yticks([36, 48, 60, 72], ["C2", "C3", "C4", "C5"])
        ax.set_xticks(range(0, math.ceil(bars) + 1, 4))
        ax.set_xticks(range(math.ceil(bars) + 1), minor=True)
        ax.grid(axis="y", linewidth=0.4, color="0.85")
        ax.grid(axis="x", which="both", linewidth=0.4, color="0.9")
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=6, length=2, which="both")
        ax.set_title(f"{piece.name}  {piece.source}"[:90], fontsize=7, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
    beside = path.with_name(f".{path.name}.part")
    figure.savefig(beside, dpi=100, facecolor="white", format="png")
    plt.close(figure)
    os.replace(beside, path)


def _notes(grid: Grid, voice: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(start, end, pitch) of a voice's notes; times in bars, with a gap between repeated notes."""
    pitches, tied = grid.pitches[:, voice], grid.tied[:, voice]
    bounds = np.append(np.flatnonzero(~tied), len(pitches))
    start, end = bounds[:-1], bounds[1:]
    sounding = pitches[start] >= 0
    start, end = start[sounding], end[sounding]
    return start / STEPS_PER_BAR, end / STEPS_PER_BAR - 0.012, pitches[start]
