"""Ten free chorales and ten harmonised tunes, as pictures, with their faults beside Bach's own.

    python -m scripts.docs.chorale_pictures [path=Jsb16thSeparated.json] [model=chorale]
        [out=docs/images] [free=10] [tunes=NAME,...]

The chorales are those of seed 0, the harmonisations the first of seed 0, both as the commands
``generate`` and ``harmonise`` make them; none was chosen. Writes chorales_free.png and
chorales_harmonised.png into the current folder or OUT, a small piano roll of each piece: soprano,
alto, tenor and bass in four colours, a red line where a fault begins, a grey one at the bar. Prints
a table; with ``path`` Bach's 76 validation pieces are a line of it.

Tunes: the four that come along with musictx, and six more folk songs (scripts/docs/tunes), entered
by hand and in the public domain, two of them in 3/4 with a pick-up: New Britain (Amazing Grace,
United States, 1829), Auld Lang Syne (Scotland, 18th century), Haenschen klein (Lightly Row,
Germany, 19th), O Tannenbaum (Germany, 16th to 19th), Alle Voegel (Silesia, 19th), Kuckuck (Austria,
19th).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt

from musictx import bundle, read, shipped
from musictx.apps.generate import generate
from musictx.chorale import app, voice_leading
from musictx.chorale.config import HarmoniseConfig
from musictx.chorale.grid import Grid
from musictx.chorale.grid import read as four_voices
from musictx.chorale.rules import Form
from musictx.chorale.tune import Tune
from musictx.config import GenerateConfig
from scripts.docs.drawing import save
from scripts.words import run

SHIPPED = ("ode_to_joy", "au_clair_de_la_lune", "ah_vous_dirai_je", "frere_jacques")
SONGS = Path(__file__).parent / "tunes"
TUNES = (*SHIPPED, *sorted(path.stem for path in SONGS.glob("*.mid")))
COLOURS = ("#c8553d", "#d9a441", "#3a8f6f", "#355c9a")


class Drawn(NamedTuple):
    """A piece as it is drawn: first  steps before its first bar line;  phrases  how many phrases
    end, and how many of them without a cadence."""

    name: str
    grid: Grid
    bar: int = voice_leading.STEPS_PER_BAR
    first: int = 0
    phrases: tuple[int, int] = (0, 0)

    @property
    def faults(self) -> list[voice_leading.Fault]:
        return voice_leading.faults(self.grid.pitches, bar=self.bar)

    @property
    def bars(self) -> float:
        """Sixteen sixteenths each, whatever the meter: rates can be compared."""
        return len(self.grid) / voice_leading.STEPS_PER_BAR

    @property
    def closes(self) -> bool:
        return voice_leading.closes(self.grid.pitches)


def harmonised(model: bundle.Bundle, name: str) -> Drawn:
    melody = read(shipped.examples().get(name) or SONGS / f"{name}.mid")
    of = Tune.of(melody)
    ((harmony, _),) = app.pieces(model, of, HarmoniseConfig())
    stands = [voice_leading.closes(harmony.grid.pitches[:stop]) for _, stop in of.phrases()]
    print(
        name, "open at", [of.where(s) for s in Form(of).open_at(harmony.grid.pitches)], flush=True
    )
    return Drawn(name, harmony.grid, of.bar, -of.first % of.bar, (len(stands), stands.count(False)))


def sheet(pieces: Sequence[Drawn], folder: Path, name: str) -> None:
    """One contact sheet: five rows of two."""
    rows = -(-len(pieces) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(10, 1.35 * rows), squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, piece in zip(axes.flat, pieces):
        pitch = piece.grid.pitches
        for line in range(piece.first, len(pitch) + 1, piece.bar):
            ax.axvline(line, color="#dddddd", linewidth=0.5, zorder=0)
        for fault in piece.faults:
            ax.axvline(fault.step, color="#e02020", linewidth=0.8, alpha=0.6, zorder=1)
        for voice, colour in enumerate(COLOURS):
            begins = np.flatnonzero((pitch[:, voice] >= 0) & ~piece.grid.tied[:, voice])
            for begin in begins:
                end = begin + 1
                while end < len(pitch) and piece.grid.tied[end, voice]:
                    end += 1
                ax.hlines(pitch[begin, voice], begin + 0.1, end - 0.3, colors=colour, linewidth=1.8)
        many = len(piece.faults)
        told = f"{many} fault{'s' * (many != 1)} in {piece.bars:.0f} bars"
        told += "" if piece.closes else ", no cadence at the end"
        ax.set_title(f"{piece.name}: {told}", fontsize=7, loc="left", pad=2)
        ax.set(ylim=(34, 84), xlim=(-1, len(pitch) + 1))
    figure.tight_layout(h_pad=0.4, w_pad=0.6)
    save(figure, name, folder=folder)


def line(name: str, pieces: Sequence[Drawn]) -> str:
    """A line of the table: faults by kind in 100 bars, all pieces taken together."""
    bars = sum(piece.bars for piece in pieces)
    kinds = [fault.kind for piece in pieces for fault in piece.faults]
    closed = sum(piece.closes for piece in pieces)
    each = " | ".join(f"{100 * kinds.count(kind) / bars:.1f}" for kind in voice_leading.KINDS)
    lengths = sorted(round(piece.bars) for piece in pieces)
    middle = lengths[len(lengths) // 2]
    return (
        f"| {name} | {100 * len(kinds) / bars:.1f} | {each} | {closed} of {len(pieces)} "
        f"| {lengths[0]}, {middle}, {lengths[-1]} |"
    )


def main(
    path: Path | None = None,
    model: str = "chorale",
    out: Path = Path(),
    free: int = 10,
    tunes: Sequence[str] = TUNES,
) -> None:
    bundle_ = bundle.load(model)
    print(f"| | faults / 100 bars | {' | '.join(voice_leading.KINDS)} | cadence | bars |")
    if path:
        bach = json.loads(path.read_text(encoding="utf-8"))["valid"]
        print(line("Bach", [Drawn("", Grid.joined(np.array(piece))) for piece in bach]), flush=True)
    made = generate(bundle_, GenerateConfig(samples=free), seed=0)
    chorales = [Drawn(f"{n}", four_voices(one.score)[0]) for n, one in enumerate(made, 1)]
    sheet(chorales, out, "chorales_free")
    print(line("free chorales", chorales), flush=True)
    pieces = [harmonised(bundle_, name) for name in tunes]
    sheet(pieces, out, "chorales_harmonised")
    print(line("harmonised tunes", pieces))
    ends, still_open = (sum(piece.phrases[n] for piece in pieces) for n in (0, 1))
    print(f"{ends - still_open} of {ends} phrases of the tunes end with a cadence")


if __name__ == "__main__":
    run(main)
