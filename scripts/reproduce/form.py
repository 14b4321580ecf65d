"""How sections return: in songs, and in pieces that are composed by a plan.

    python -m scripts.reproduce.form [path=FOLDER_OF_SONGS] [model=song] [form=AABA] [bars=8]
        [seeds=10] [primers=FOLDER_OF_SONGS] [out=FOLDER]

In every song of ``path`` the stretches of eight bars are found that are like earlier ones (both
halves by :data:`musictx.songs.sections.ALIKE`): how alike bar is to bar, and how many are the
same. Then ``seeds`` pieces are composed by ``form``, the first section of each the beginning of one
of ``primers`` where these are given; their sections, without the markers that name them, are
compared with the plan. What lies in ``out`` from before is measured again, not composed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import musictx
from musictx.config.generate import sections_of
from musictx.notes import Score
from musictx.songs import sections as found
from musictx.songs.metre import bar_likeness, bars_alike
from scripts.words import run

SAME = 0.999


def returns(alike: np.ndarray) -> list[np.ndarray]:
    """(8,) likeness of the bars of each stretch of eight to those of the earlier one that it is
    most like, of stretches that do not overlap."""
    rises = found.novelty(alike)
    phase = max(range(4), key=lambda n: (rises[n::4].sum(), -n)) if len(alike) else 0
    rows, free = [], 0
    for begin in range(phase, len(alike) - 7, 4):
        earlier = [alike.diagonal(begin - one)[one : one + 8] for one in range(phase, begin - 7, 4)]
        good = [e for e in earlier if min(e[:4].mean(), e[4:].mean()) >= found.ALIKE]
        if good and begin >= free:
            rows.append(max(good, key=lambda e: float(e.mean())))
            free = begin + 8
    return rows


def recognised(score: Score, plan: list[str]) -> list[bool]:
    """Of each section of ``plan`` that returns, whether most of its bars are in sections of the
    same names as those of its first time, and not of the same as those of another letter. Where
    the sections of the plan are is said by the markers of ``score``."""
    heard = found.sections(replace(score, markers=()))
    names = {bar: one.name for one in heard for bar in range(one.begin, one.stop)}
    rows = [
        [names.get(bar, "") for bar in range(one.begin, one.stop)] for one in found.sections(score)
    ]

    def shared(one: int, other: int) -> float:
        return float(np.mean([a == b != "" for a, b in zip(rows[one], rows[other])]))

    return [
        shared(plan.index(name), number) > 0.5
        and all(shared(n, number) <= 0.5 for n in range(number) if plan[n] != name)
        for number, name in enumerate(plan)
        if name in plan[:number]
    ]


def main(
    path: Path | None = None,
    model: str = "song",
    form: str = "AABA",
    bars: int = 8,
    seeds: int = 10,
    primers: Path | None = None,
    out: Path = Path("form"),
) -> None:
    if path:
        files = sorted(path.glob("*.mid"))
        rows = np.array([row for file in files for row in returns(bars_alike(musictx.read(file)))])
        print(f"{len(rows)} returns of eight bars in {len(files)} songs")
        for name, values in (("alike", rows.mean(0)), ("the same", (rows > SAME).mean(0))):
            print(f"{name:10}", *(f"{v:.2f}" for v in values), f"  all {values.mean():.3f}")
    plan = [name for name, _ in sections_of(form)]
    right, alike, likeness = [], [], []
    bundle = musictx.load(model) if seeds else None
    tunes = sorted(primers.glob("*.mid")) if primers else []
    for seed in range(seeds):
        path = out / f"{seed}.mid"
        if not path.exists():
            primer = tunes[seed * len(tunes) // seeds] if tunes else None
            path.parent.mkdir(parents=True, exist_ok=True)
            made = musictx.generate(bundle, primer=primer, form=form, bars=bars, seed=seed)
            musictx.write(made[0].score, path)
        score = musictx.read(path)
        right.append(recognised(score, plan))
        matrix, where = bars_alike(score), [one.begin for one in found.sections(score)]
        for number, name in enumerate(plan):
            first, begin = where[plan.index(name)], where[number]
            if name in plan[:number] and begin + bars <= len(matrix):
                alike.append(matrix.diagonal(begin - first)[first : first + bars])
        likeness.append([bar_likeness(score, lag) for lag in (1, 2, 4, 8, 16)])
        print(f"seed {seed}: {len(score)} notes, returns recognised {right[-1]}", flush=True)
    if right:
        pieces = sum(all(one) for one in right)
        print(f"{np.mean(right):.3f} of the returns, {pieces} of {len(right)} pieces whole")
        rows = np.array(alike)
        print("returns", *(f"{v:.2f}" for v in rows.mean(0)), f"  all {rows.mean():.3f},",
              f"the same {(rows > SAME).mean():.3f}")  # fmt: skip
        print("bars alike, 1, 2, 4, 8, 16 apart:", np.nanmean(likeness, 0).round(3).tolist())


if __name__ == "__main__":
    run(main)
