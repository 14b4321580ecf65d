"""How well chords recognised from notes agree with those that files say in markers.

    python -m scripts.bench.chords FOLDER [first=780] [last=819]

Of the files whose names are numbers in that range: the share of time with the same root and with
the same chord (ten qualities), mean and 5th percentile over files; beside it what the same chords
reach where they are shifted by 1 to 11 semitones, and by so many half bars in time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from musictx import chords, formats
from musictx.chords import NONE, Chord


def transposed(chord: Chord, semitones: int) -> Chord:
    """The same chord ``semitones`` higher."""
    return Chord((chord.root + semitones) % 12, chord.quality) if chord.quality else chord


def agreement(
    estimate: Sequence[tuple[float, Chord]], truth: Sequence[tuple[float, Chord]], until: float
) -> tuple[float, float]:
    """Shares of the time, in seconds up to ``until``, in which two sequences of chords have the
    same root, and are the same; time in which ``truth`` has no chord does not count."""
    times = np.unique([0.0, until, *(t for t, _ in estimate), *(t for t, _ in truth)])
    times = times[times <= until]
    roots = whole = total = 0.0
    for begin, end in pairwise(times):
        one, other = (_at(chords, begin) for chords in (estimate, truth))
        if other is None or other == NONE:
            continue
        total += end - begin
        roots += (end - begin) * (one is not None and one.root == other.root)
        whole += (end - begin) * (one == other)
    return (roots / total, whole / total) if total else (np.nan, np.nan)


def _at(chords: Sequence[tuple[float, Chord]], time: float) -> Chord | None:
    before = [chord for begin, chord in chords if begin <= time + 1e-6]
    return before[-1] if before else None


def main() -> None:
    options = dict(word.split("=") for word in sys.argv[2:])
    first, last = (
        int(options.get(name, default)) for name, default in (("first", 780), ("last", 819))
    )
    rows = []
    for path in sorted(Path(sys.argv[1]).glob("*.mid")):
        if not first <= int(path.stem) <= last:
            continue
        score = formats.read(path)
        told, found = chords.annotated(score), chords.recognised(score)
        random = np.random.default_rng(int(path.stem))
        up = int(random.integers(1, 12))
        higher = [(time, transposed(chord, up)) for time, chord in found]
        later = [(time + float(random.uniform(4, 20)), chord) for time, chord in found]
        rows.append([agreement(one, told, score.duration) for one in (found, higher, later)])
    table = np.array(rows)
    for name, column in zip(("recognised", "other key", "later"), table.transpose(1, 2, 0)):
        means = "   ".join(f"{np.nanmean(c):.3f} ({np.nanpercentile(c, 5):.3f})" for c in column)
        print(f"{name:12} root, chord: {means}   {len(table)} files")


if __name__ == "__main__":
    main()
