"""Groove's fills, as the card of ``song`` holds them among its drummers.

    python -m scripts.reproduce.drum_fills groove=FOLDER

For each drummer and style of the training split with :data:`FEWEST` fills of about a bar in 4/4:
the share of them with a stroke of each kind at each place. Printed are the :data:`FILLS` of which
most fills were measured, in the form of ``scripts/ships/song.yaml``.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

import musictx
from musictx.songs.drummers import KINDS, PLACES, QUARTERS, kind_of, to_text
from musictx.tokens.stream import STEPS
from scripts.harness import run

FILLS, FEWEST = 8, 5
#: Quarter notes that a fill of about a bar lasts.
SHORTEST, LONGEST = 3.0, 4.5
AT = np.array([q * STEPS + at for q in range(QUARTERS) for at in PLACES])


def strokes(path: Path, bpm: float) -> np.ndarray | None:
    """(4, 24) whether a fill has a stroke of each kind at each place; None if it is no bar long."""
    notes = musictx.read(path).notes
    quarters = notes["start"] * bpm / 60
    if not SHORTEST <= quarters.max(initial=0) + 0.5 <= LONGEST:
        return None
    near = np.abs(np.append(AT, QUARTERS * STEPS) - quarters[:, None] * STEPS).argmin(1)
    there = near < len(AT)
    played = np.zeros((len(KINDS) + 1, len(AT)))
    played[kind_of(notes["pitch"][there]), near[there]] = 1
    return played


def main(groove: Path) -> None:
    fills = defaultdict(list)
    with (groove / "info.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            path = groove / row["midi_filename"]
            whole = row["beat_type"] == "fill" and row["time_signature"] == "4-4"
            if whole and row["split"] == "train" and path.exists():
                played = strokes(path, float(row["bpm"]))
                if played is not None:
                    fills[row["drummer"], row["style"].split("/")[0]].append(played)
    largest = sorted(fills.values(), key=len, reverse=True)[:FILLS]
    for some in largest:
        if len(some) >= FEWEST:
            print(f'    - "{to_text(np.mean(some, axis=0))}"  # of {len(some)}')


if __name__ == "__main__":
    run(main)
