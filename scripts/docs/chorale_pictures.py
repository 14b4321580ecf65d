"""Ten free chorales and ten harmonised tunes, as pictures, with their faults beside Bach's own.

    python -m scripts.docs.chorale_pictures [path=Jsb16thSeparated.json] [model=chorale] [out=docs]
        [free=10] [tunes=NAME,...]

The chorales are those of seed 0, the harmonisations the first of seed 0, both as the commands
``generate`` and ``harmonise`` make them; none was chosen. Writes OUT/images/chorales_free.png and
chorales_harmonised.png, a small piano roll of each piece: soprano, alto, tenor and bass in four
colours, a red line where a fault begins, a grey one at the bar. Prints a table; with ``path``
Bach's 76 validation pieces are a line of it.

Tunes: the four that come along with musictx, and six more that are in the public domain: folk songs
of the 18th and 19th centuries, entered by hand, two of them in 3/4 with a pick-up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from drawing import save
from examples import pitches
from matplotlib import pyplot as plt

from musictx import bundle, read, shipped
from musictx.apps.generate import generate
from musictx.apps.harmonise import harmonisations
from musictx.chorale import voice_leading
from musictx.chorale.grid import Grid
from musictx.chorale.grid import read as four_voices
from musictx.chorale.tune import Form, Tune
from musictx.notes import METER, NOTE, TEMPO, Score
from scripts.words import options, run

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("ode_to_joy", "au_clair_de_la_lune", "ah_vous_dirai_je", "frere_jacques")
#: Name -> beats in a bar, beats of the pick-up, notes as in scripts/docs/examples.py.
TUNES = {
    # New Britain, United States, 1829
    "amazing_grace": (3, 1, """
        D4 | G4:2 B4:0.5 G4:0.5 | B4:2 A4 | G4:2 E4 | D4:2 D4 | G4:2 B4:0.5 G4:0.5 | B4:2 A4 |
        D5:3 | D5:2 B4 | D5:2 B4:0.5 G4:0.5 | B4:2 A4 | G4:2 E4 | D4:2 D4 |
        G4:2 B4:0.5 G4:0.5 | B4:2 A4 | G4:3 | G4:2"""),
    # Scotland, 18th century
    "auld_lang_syne": (4, 1, """
        C4 | F4:1.5 F4:0.5 F4 A4 | G4:1.5 F4:0.5 G4 A4 | F4:1.5 F4:0.5 A4 C5 | D5:3 D5 |
        C5:1.5 A4:0.5 A4 F4 | G4:1.5 F4:0.5 G4 A4 | F4:1.5 D4:0.5 D4 C4 | F4:3"""),
    # Haenschen klein, Germany, 19th century
    "lightly_row": (4, 0, """
        D5 B4 B4:2 | C5 A4 A4:2 | G4 A4 B4 C5 | D5 D5 D5:2 |
        D5 B4 B4:2 | C5 A4 A4:2 | G4 B4 D5 D5 | G4:4"""),
    # Germany, 16th to 19th century
    "o_tannenbaum": (3, 0.5, """
        C4:0.5 | F4:0.5 F4:0.5 F4:1.5 G4:0.5 | A4:0.5 A4:0.5 A4:1.5 A4:0.5 |
        G4:0.5 A4:0.5 Bb4 E4 | G4 F4:1.5 C4:0.5 |
        F4:0.5 F4:0.5 F4:1.5 G4:0.5 | A4:0.5 A4:0.5 A4:1.5 A4:0.5 |
        G4:0.5 A4:0.5 Bb4 E4 | G4 F4:1.5 C5:0.5 |
        C5:0.5 A4:0.5 D5:1.5 C5:0.5 | C5:0.5 Bb4:0.5 Bb4:1.5 Bb4:0.5 |
        Bb4:0.5 G4:0.5 C5:1.5 Bb4:0.5 | Bb4:0.5 A4:0.5 A4:1.5 C4:0.5 |
        F4:0.5 F4:0.5 F4:1.5 G4:0.5 | A4:0.5 A4:0.5 A4:1.5 A4:0.5 |
        G4:0.5 A4:0.5 Bb4 E4 | G4 F4:1.5"""),
    # Silesia, 19th century
    "alle_voegel": (4, 0, """
        F4:1.5 A4:0.5 C5 F5 | D5 F5:0.5 D5:0.5 C5:2 | Bb4:1.5 C5:0.5 A4 F4 | G4:2 F4:2 |
        C5 C5 Bb4 Bb4 | A4 C5:0.5 A4:0.5 G4:2 | C5 C5 Bb4 Bb4 | A4 C5:0.5 A4:0.5 G4:2 |
        F4:1.5 A4:0.5 C5 F5 | D5 F5:0.5 D5:0.5 C5:2 | Bb4:1.5 C5:0.5 A4 F4 | G4:2 F4:2"""),
    # Austria, 19th century
    "kuckuck": (3, 0, """
        C5 A4:2 | C5 A4:2 | G4 F4 G4 | F4:3 | G4 G4 A4 | Bb4:2 G4 | A4 A4 Bb4 | C5:2 A4 |
        C5 A4:2 | C5 A4:2 | Bb4 A4 G4 | F4:3"""),
}  # fmt: skip
COLOURS = ("#c8553d", "#d9a441", "#3a8f6f", "#355c9a")
BPM = 90.0


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


def tune(beats: int, pick_up: float, written: str) -> Score:
    """One of :data:`TUNES`; a pick-up is preceded by rest, so that bars count as they are sung."""
    rest = beats - pick_up if pick_up else 0.0
    notes = np.zeros(len(found := pitches(written)), NOTE)
    for note, (start, length, pitch) in zip(notes, found, strict=True):
        note["start"], note["end"] = (rest + start) * 60 / BPM, (rest + start + length) * 60 / BPM
        note["pitch"], note["velocity"] = pitch, 80
    tempos, meters = np.array([(0.0, BPM)], TEMPO), np.array([(0.0, beats, 4)], METER)
    return Score(notes=notes, tempos=tempos, meters=meters, ticks_per_quarter=480)


def harmonised(model: bundle.Bundle, name: str) -> Drawn:
    melody = read(shipped.examples()[name]) if name in SHIPPED else tune(*TUNES[name])
    ((harmony, _),) = harmonisations(model, melody)
    of = Tune.of(melody)
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


def main(words: list[str]) -> None:
    defaults = {"path": "", "model": "chorale", "out": str(ROOT / "docs"), "free": "10"}
    given = options(words, defaults | {"tunes": ",".join([*SHIPPED, *TUNES])})
    images = Path(given["out"], "images")
    model = bundle.load(given["model"])
    print(f"| | faults / 100 bars | {' | '.join(voice_leading.KINDS)} | cadence | bars |")
    if given["path"]:
        bach = json.loads(Path(given["path"]).read_text(encoding="utf-8"))["valid"]
        print(line("Bach", [Drawn("", Grid.joined(np.array(piece))) for piece in bach]), flush=True)
    made = generate(model, seconds=120.0, samples=int(given["free"]), seed=0)
    free = [Drawn(f"{n}", four_voices(one.score)[0]) for n, one in enumerate(made, 1)]
    sheet(free, images, "chorales_free")
    print(line("free chorales", free), flush=True)
    tunes = [harmonised(model, name) for name in given["tunes"].split(",")]
    sheet(tunes, images, "chorales_harmonised")
    print(line("harmonised tunes", tunes))
    ends, still_open = (sum(piece.phrases[n] for piece in tunes) for n in (0, 1))
    print(f"{ends - still_open} of {ends} phrases of the tunes end with a cadence")


if __name__ == "__main__":
    run(main)
