"""How the files of some folders stand to their beats, by their notes (musictx/grid.py).

    python -m scripts.bench.grids FOLDER [FOLDER ...]

For each folder: how many files are on their grid, on a shifted one, free; the 5th, 50th and 95th
percentile of the strength of the grid; the median shift of the shifted ones.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from musictx import formats
from musictx.grid import grid_of

for folder in sys.argv[1:]:
    files = sorted(path for path in Path(folder).rglob("*.mid*") if path.is_file())
    found = [grid_of(formats.read(path)) for path in files]
    kinds = Counter(one.kind for one in found)
    low, middle, high = np.percentile([one.strength for one in found], [5, 50, 95])
    late = [abs(one.shift) * 1000 for one in found if one.kind == "shifted"]
    counted = "".join(f"{kinds[kind]:7}" for kind in ("grid", "shifted", "free"))
    shift = f"{np.median(late):5.0f} ms" if late else "       -"
    print(f"{Path(folder).name:16}{counted}   {low:.2f} {middle:.2f} {high:.2f}   {shift}")
