"""How well beats are found by the notes alone (musictx/tracking.py).

    python -m scripts.reproduce.beats played=DIR beats=DIR free=DIR [first=780] [last=819]

played  POP909's MIDI files as published, 001.mid and so on; their tempo marks are taken away
beats   the same songs on their annotated beats
free    performances without a click, such as MAESTRO's: every file in it

Printed are the F-measures of beats and of bar lines (within 70 ms), how many songs' beats are found
at half or double pace, how many are sure (musictx/grid.py), and the strength of the performances'
beats beside that of the same onsets with their intervals shuffled.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import musictx
from musictx.grid import SURE, strength
from musictx.notes import TEMPO, Score
from musictx.tracking import tracked
from scripts.words import run

#: Beats count as found within so many seconds; music is read up to so many.
NEAR, LONGEST = 0.07, 180.0


def f_measure(found: np.ndarray, real: np.ndarray) -> float:
    off = np.abs(found[:, None] - real)
    precision, recall = (off.min(1) < NEAR).mean(), (off.min(0) < NEAR).mean()
    return float(2 * precision * recall / max(precision + recall, 1e-9))


def beats_of(score: Score) -> tuple[np.ndarray, np.ndarray, float]:
    """Beats and bar lines found in ``score``, and how strongly onsets agree with them."""
    score = replace(score, tempos=np.empty(0, TEMPO))
    pulse = tracked(score)
    if pulse is None:
        return np.zeros(1), np.zeros(1), 0.0
    beats = pulse.tempos["time"] + pulse.late
    onsets = np.unique(np.round(score.notes["start"], 4))
    agree = strength(replace(score, pulse=pulse).beats.quarters(onsets))
    return beats, beats[:: int(pulse.meters["numerator"][0])], agree


def song(played: Path, on_beats: Path) -> tuple[float, float, float, float] | None:
    """F-measures of beats, of bar lines, and of beats taken at another pace; the strength."""
    music, real = musictx.read(played), musictx.read(on_beats)
    if len(music) != len(real):
        return None
    clock = real.beats
    late = float(np.median(music.notes["start"] - real.notes["start"]))
    there = clock.seconds(np.arange(0, float(clock.quarters(real.duration)))) + late
    lines = there[:: round(float(clock.bar_quarters[0]))]
    beats, bars, agree = beats_of(music)
    first, last = music.notes["start"][0] - 0.1, music.notes["start"].max() + 0.1
    inside = [part[(part >= first) & (part <= last)] for part in (beats, there, bars, lines)]
    beats, there, bars, lines = (part if len(part) else np.zeros(1) for part in inside)
    halves = np.sort(np.concatenate([there, (there[1:] + there[:-1]) / 2]))
    paced = max(f_measure(beats, other) for other in (halves, there[::2], there[1::2]))
    return f_measure(beats, there), f_measure(bars, lines), paced, agree


def main(
    played: Path, beats: Path, free: Path | None = None, first: int = 780, last: int = 819
) -> None:
    names = [f"{number:03d}.mid" for number in range(first, last + 1)]
    pairs = [(played / name, beats / name) for name in names]
    rows = [row for pair in pairs if all(p.exists() for p in pair) if (row := song(*pair))]
    right, bars, paced, agree = np.array(rows).T
    print(f"{len(rows)} songs: beats {right.mean():.2f}, bar lines {bars.mean():.2f}; beats at")
    print(f"another pace in {(paced > np.maximum(right, 0.8)).sum()}, sure in", end=" ")
    print(f"{(agree >= SURE).sum()}, strength {agree.mean():.2f}")
    draws = np.random.default_rng(0)
    for path in sorted(free.rglob("*.mid*")) if free else ():
        music = musictx.read(path)
        music = music.with_notes(music.notes[music.notes["start"] < LONGEST])
        notes = music.notes.copy()
        gaps = draws.permutation(np.diff(notes["start"]))
        notes["start"] = notes["start"][0] + np.concatenate([[0.0], np.cumsum(gaps)])
        notes["end"] = notes["start"] + 0.2
        shuffled = beats_of(Score(notes=notes))[2]
        print(f"{path.stem[:40]:40}  strength {beats_of(music)[2]:.2f}, shuffled {shuffled:.2f}")


if __name__ == "__main__":
    run(main)
