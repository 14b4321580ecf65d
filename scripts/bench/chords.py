"""How well chords recognised from notes agree with those that files say in markers.

    python -m scripts.bench.chords FOLDER [first=780] [last=819]

Of the files whose names are numbers in that range: the share of time with the same root and with
the same chord (ten qualities), mean and 5th percentile over files; beside it what the same chords
reach where they are shifted by 1 to 11 semitones, and by so many half bars in time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from musictx import chords, formats

options = dict(word.split("=") for word in sys.argv[2:])
first, last = (int(options.get(name, default)) for name, default in (("first", 780), ("last", 819)))
rows = []
for path in sorted(Path(sys.argv[1]).glob("*.mid")):
    if not first <= int(path.stem) <= last:
        continue
    score = formats.read(path)
    told, found = chords.annotated(score), chords.recognised(score)
    random = np.random.default_rng(int(path.stem))
    up = int(random.integers(1, 12))
    higher = [(time, chords.transposed(chord, up)) for time, chord in found]
    later = [(time + float(random.uniform(4, 20)), chord) for time, chord in found]
    rows.append([chords.agreement(one, told, score.duration) for one in (found, higher, later)])
table = np.array(rows)
for name, column in zip(("recognised", "other key", "later"), table.transpose(1, 2, 0)):
    means = "   ".join(f"{np.nanmean(c):.3f} ({np.nanpercentile(c, 5):.3f})" for c in column)
    print(f"{name:12} root, chord: {means}   {len(table)} files")
