"""Do continuations stay in the key and at the density of what they continue?

    python -m scripts.reproduce.continuations path=FOLDER [model=piano] [pieces=8] [primer=10]
        [seconds=30] [as=played] [seed=0] [out=runs/continuations]

Each piece of FOLDER (the first so many by name) is continued from its first ``primer`` seconds and
measured beside what really comes next. ``as=written``: the primer as a score or a sequencer would
give it, on the nearest sixteenths of 120 beats a minute and of one loudness. Printed for each
piece, and on average: of the primer notes a second and the share of its notes in the scale that
holds most of them; of the new notes and of the real ones notes a second, their share in that scale,
polyphony, notes struck again within half a second, and the correlation of their pitch classes with
the primer's. Writes OUT/NAME.mid with piano rolls, and OUT/continuations.csv.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import musictx
from musictx import files, formats, midi
from musictx.errors import UserError
from musictx.evaluate import musical
from musictx.notes import METER, TEMPO, Score
from musictx.pedal import fold_sustain
from musictx.render.app import render_score
from musictx.sampling.timeline import quantised
from scripts.words import options, run

DEFAULTS = {
    "path": "",
    "model": "piano",
    "pieces": "8",
    "primer": "10",
    "seconds": "30",
    "as": "played",
    "seed": "0",
    "out": "runs/continuations",
}
VELOCITY, BPM = 64, 120.0


def written(score: Score) -> Score:
    """``score`` on sixteenths, of one loudness, without a pedal."""
    grid = replace(
        fold_sustain(score),
        tempos=np.array([(0.0, BPM)], TEMPO),
        meters=np.array([(0.0, 4, 4)], METER),
        pedals=score.pedals[:0],
        ticks_per_quarter=480,
    )
    notes = quantised(grid.notes, grid, "16").copy()
    notes["velocity"] = VELOCITY
    return grid.with_notes(notes)


def classes(score: Score) -> np.ndarray:
    """(12,) how long each pitch class sounds."""
    notes = musical.pitched(score)
    return np.bincount(notes["pitch"] % 12, notes["end"] - notes["start"], minlength=12)


def measured(primer: Score, after: Score, seconds: float) -> dict[str, float]:
    """How ``after`` goes on from ``primer``; excerpts that begin at 0."""
    scale = musical.best_scale(primer)
    return {
        "notes a second": musical.density(after, seconds),
        "in its scale": musical.scale_consistency(after, scale),
        "polyphony": musical.polyphony(after),
        "struck again": musical.restruck(after),
        "pitch classes": float(np.corrcoef(classes(primer), classes(after))[0, 1]),
    }


def main(words: list[str]) -> None:
    given = options(words, DEFAULTS)
    if given["as"] not in ("played", "written"):
        raise UserError(f"as={given['as']}: expected played or written")
    length, seconds, out = float(given["primer"]), float(given["seconds"]), Path(given["out"])
    bundle, rows = musictx.load(given["model"]), []
    for file in formats.find(given["path"])[: int(given["pieces"])]:
        score = formats.read(file)
        if given["as"] == "written":
            score = written(score)
        (sample,) = musictx.generate(
            bundle, primer=score, primer_seconds=length, seconds=seconds, seed=int(given["seed"])
        )
        midi.write(sample.score, out / f"{file.stem}.mid")
        render_score(sample.score, out / file.stem, wav=False, png=True, seam=sample.seam)
        begin = float(score.notes["start"].min())
        whole, new = fold_sustain(score), fold_sustain(sample.score)
        primer = musical.excerpt(whole, begin, length)
        row: dict[str, str | float] = {
            "piece": file.stem,
            "primer: notes a second": musical.density(primer, length),
            "primer: in its scale": musical.scale_consistency(primer),
        }
        for who, music, start in (("new", new, sample.seam), ("real", whole, begin + length)):
            found = measured(primer, musical.excerpt(music, start, seconds), seconds)
            row |= {f"{who}: {name}": value for name, value in found.items()}
        rows.append(row)
        print("  ".join(f"{v:.2f}" if isinstance(v, float) else v[:24] for v in row.values()))
    names = list(rows[0])
    files.write_table(out / "continuations.csv", rows, names)
    print(f"\nmeans of {len(rows)} pieces, {given['as']}, model={given['model']}")
    for name in names[1:]:
        print(f"{name:<24} {np.nanmean([row[name] for row in rows]):.3f}")
    for who in ("new", "real"):
        apart = [abs(np.log2(row[f"{who}: notes a second"] / row["primer: notes a second"]))
                 for row in rows]  # fmt: skip
        print(f"{who}: octaves of density from the primer {np.mean(apart):.2f}")


if __name__ == "__main__":
    run(main)
