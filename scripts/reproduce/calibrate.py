"""Calibrate chorale models on training pieces that a sibling of theirs has not seen.

    python -m scripts.reproduce.calibrate path=Jsb16thSeparated.json models=runs/a/model,runs/b
        [runs=runs/jsb] [experiment=jsb/best] [held=23] [seed=0] [trainer.max_steps=...]

Of the training split ``held`` pieces, drawn by ``seed``, are set aside; by the recipe of
``experiment`` a sibling is trained on the others, once (``RUNS/sibling-SEED``). On the pieces set
aside a temperature and a pull to hold are fitted to it for each voice and sixteenth of the beat
(``scripts/reproduce/calibration.py``), and written into each of ``models`` as FOLDER-calibrated. No
piece of the validation or test split has a part in it. Words with a dot go to the training.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from musictx import bundle, files
from musictx.apps.measuring import find_shards
from musictx.compose import compose
from musictx.errors import UserError
from scripts.reproduce.calibration import calibrated, fit
from scripts.words import musictx, run

#: The longest piece has 2,560 notes.
WINDOW = 2560


def set_aside(path: Path, held: int, seed: int, out: Path) -> Path:
    """The chorales of ``path`` as a file whose "valid" pieces are ``held`` of the training ones."""
    pieces = json.loads(path.read_text(encoding="utf-8"))["train"]
    if not 0 < held < len(pieces):
        raise UserError(f"held={held}: expected 1 to {len(pieces) - 1}")
    chosen = set(random.Random(seed).sample(range(len(pieces)), held))
    split: dict[str, list[Any]] = {"train": [], "valid": []}
    for number, piece in enumerate(pieces):
        split["valid" if number in chosen else "train"].append(piece)
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(out, json.dumps(split))
    return out


def main(
    path: Path,
    models: Sequence[str],
    runs: Path = Path("runs/jsb"),
    experiment: str = "jsb/best",
    held: int = 23,
    seed: int = 0,
    **more: Any,
) -> list[Path]:
    if not path.is_file():
        raise UserError(f"path={path}: expected the JSON file of the chorales")
    aside = set_aside(path, held, seed, runs / f"aside-{seed}.json")
    corpus = [f"corpus.path={aside}", f"corpus.shards={runs / f'aside-{seed}-shards'}"]
    sibling = runs / f"sibling-{seed}"
    words = [f"experiment={experiment}", *corpus, f"seed={seed}", f"out={sibling}"]
    musictx("train", *words, *(f"{name}={value}" for name, value in more.items()))
    source = bundle.load(sibling)
    shards = find_shards(compose("evaluate", ["corpus=jsb", *corpus]).corpus, source.tokenizer)
    fitted = fit(source.model, shards, window=WINDOW)
    made = []
    for name in models:
        old = bundle.load(name)
        folder = old.folder.with_name(old.folder.name + "-calibrated")
        how = f"on {held} training pieces that a sibling was not trained on"
        card = {**old.card, "calibration": how}
        made.append(bundle.save(folder, calibrated(old.model, fitted), old.tokenizer, card))
        print(made[-1], flush=True)
    return made


if __name__ == "__main__":
    run(main)
