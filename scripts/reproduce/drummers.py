"""Groove's drummers by style, as a model's card holds them.

    python -m scripts.reproduce.drummers groove=FOLDER [model=FOLDER]

Of each style's performances in 4/4 those that are not held out are measured: the share of bars
with a stroke of each kind at each place. The card gets :data:`DRUMMERS` of them, taken one by one
so that their mean comes nearest to the mean of all; and as many of those who play along with songs
(``bands.STYLES``), without triplets, as the usual ones. With ``model`` they are written into that
folder's configuration and card, else printed.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

import musictx
from musictx import bundle
from musictx.card import card_text
from musictx.notes import Score
from musictx.songs import drummers
from musictx.tokens.stream import STEPS
from scripts.reproduce.bands import STYLES, snapped
from scripts.words import run

#: Drummers of a style in the card; a style has so many performances at least, and so many of them
#: are held out, every third where the validation split has fewer.
DRUMMERS, FEWEST, HELD_OUT = 8, 10, 4
#: The share of triplets that the usual drummers have at most: most songs are straight.
TRIPLETS = 0.02
#: The places of a bar in quarter notes.
AT = np.array([q + at / STEPS for q in range(drummers.QUARTERS) for at in drummers.PLACES])


class Played(NamedTuple):
    """A performance: its style, whether it is held out, its strokes as a sequencer writes them."""

    style: str
    held_out: bool
    score: Score


def performances(folder: Path) -> list[Played]:
    """All in 4/4 that are no fills, of styles with :data:`FEWEST` of them."""
    with (folder / "info.csv").open(newline="", encoding="utf-8") as file:
        rows = [one for one in csv.DictReader(file) if one["beat_type"] == "beat"]
    by_style = defaultdict(list)
    for row in rows:
        if row["time_signature"] == "4-4" and (folder / row["midi_filename"]).exists():
            by_style[row["style"].split("/")[0]].append(row)
    found = []
    for style, some in sorted(by_style.items()):
        held = [one["split"] != "train" for one in some]
        if sum(held) < HELD_OUT:
            held = [one or number % 3 == 2 for number, one in enumerate(held)]
        for row, out in zip(some, held) if len(some) >= FEWEST else ():
            found.append(
                Played(style, out, snapped(musictx.read(folder / row["midi_filename"]))[0])
            )
    return found


def strokes(score: Score) -> tuple[np.ndarray, int]:
    """(4, 24) strokes of each kind at each place, one a bar at most, and the bars."""
    quarters = score.beats.quarters(score.notes["start"])
    bar = np.floor(quarters / drummers.QUARTERS + 1e-4).astype(int)
    within = quarters - drummers.QUARTERS * bar
    place = np.abs(within[:, None] - AT).argmin(1)
    kind = drummers.kind_of(score.notes["pitch"])
    struck = {*zip(bar.tolist(), kind.tolist(), place.tolist())}
    table = np.zeros((4, len(AT)))
    for _, k, at in struck:
        table[k, at] += 1
    return table, int(bar.max()) + 1


def straight(table: tuple[np.ndarray, int]) -> bool:
    """Whether hardly a stroke of a drummer is a triplet."""
    triplet = np.isin(np.array(drummers.PLACES) % 6, (2, 4))
    strokes_at = table[0].sum(0).reshape(-1, len(drummers.PLACES)).sum(0)
    return bool(strokes_at[triplet].sum() <= TRIPLETS * strokes_at.sum())


def chosen(tables: list[tuple[np.ndarray, int]]) -> list[np.ndarray]:
    """Of the half of the drummers ``tables`` who repeat their bars most those whose mean comes
    nearest to that of all, as rates; of those who play a kick or a snare twice a bar."""
    rates = [table / bars for table, bars in tables]
    whole = np.sum(rates, 0)
    whole, rates = whole / whole.sum(), [one for one in rates if one[:2].sum() >= 2]
    repeats = np.array([(one**2).sum() / one.sum() for one in rates])
    left, taken = np.flatnonzero(repeats >= np.median(repeats)).tolist(), []
    while left and len(taken) < DRUMMERS:

        def near(one: int) -> float:
            mean = np.sum([rates[n] for n in [*taken, one]], 0)
            return float(np.minimum(mean / mean.sum(), whole).sum())

        taken.append(max(left, key=near))
        left.remove(taken[-1])
    return [rates[n] for n in taken]


def main(groove: Path, model: Path | None = None) -> None:
    by_style = defaultdict(list)
    for one in performances(groove):
        if not one.held_out:
            by_style[one.style].append(strokes(one.score))
    usual = [one for style in STYLES.split("|") for one in by_style.get(style, ()) if straight(one)]
    styles = {drummers.USUAL: usual} | {name: by_style[name] for name in sorted(by_style)}
    tables = {
        name: [drummers.to_text(one) for one in chosen(some)] for name, some in styles.items()
    }
    if model is None:
        print(yaml.safe_dump(tables, sort_keys=False, width=200))
        return
    path = model / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["card"]["drummers"] = tables
    path.write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", "utf-8")
    described = json.loads((model / "tokenizer.json").read_text("utf-8"))
    text = card_text(config, described, bundle.load(model).model)
    (model / "CARD.md").write_text(text, "utf-8")


if __name__ == "__main__":
    run(main)
