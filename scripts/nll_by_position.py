"""Nats per token by the place of a token in its window, for windows longer than those of training.

    python scripts/nll_by_position.py models=[runs/relative,runs/absolute] corpus=DIR [out=DIR]
        [split=validation] [window=0] [pieces=0] [batch=8] [smooth=64] [device=auto]

The Music Transformer's claim (Huang et al. 2018) is that relative attention goes on beyond the
length it was trained with. Every piece of the split is cut into windows of ``window`` tokens, end
to end (0: twice the longest training context of the models), nothing carried over; the remainder
of a piece is left out, so every place is the mean over the same windows. ``pieces`` takes only so
many, spread evenly over the split (0: all). ``smooth`` is the width of the moving mean of the
figure.

Writes nll_by_position.csv (raw), nll_by_position.png and, for each model, a .json that a second run
with the same settings reads instead of measuring again. Models of different vocabularies cannot be
compared by nats per token, and are refused. Needs matplotlib (pip install "musictx[plot]").
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import options  # beside this file
from evaluate_samples import corpus_of  # beside this file
from tqdm import tqdm

from musictx.apps.evaluate import find_shards
from musictx.bundle import Bundle, load, locate
from musictx.config import EvaluateConfig
from musictx.data.shards import Piece, Shards, Totals, total
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate

DEFAULTS: dict[str, Any] = {
    "models": [],
    "corpus": None,
    "out": "nll_by_position",
    "split": "validation",
    "window": 0,
    "pieces": 0,
    "batch": 8,
    "smooth": 64,
    "device": "auto",
}


class WholeWindows(Shards):
    """Shards of which each piece of a split ends with its last whole window."""

    def __init__(self, folder: Path, window: int, pieces: int) -> None:
        super().__init__(folder)
        self.window, self.count = window, pieces

    def pieces(self, split: str | None = None) -> list[Piece]:
        whole = [p for p in super().pieces(split) if p.tokens >= self.window]
        count = min(self.count or len(whole), len(whole))
        chosen = [whole[(2 * i + 1) * len(whole) // (2 * count)] for i in range(count)]
        length = self.window
        return [p._replace(tokens=p.tokens // length * length, ends=False) for p in chosen]

    def totals(self, split: str | None = None) -> Totals:
        return total(self.pieces(split))


def measure(bundle: Bundle, shards: Shards, given: dict[str, Any], cache: Path) -> list[float]:
    """Nats at each place of the window, from ``cache`` if they were measured before."""
    measured = {name: given[name] for name in ("split", "window", "pieces")}
    asked = measured | {"model": fingerprint(bundle.folder), "shards": str(shards.folder.resolve())}
    if cache.is_file():
        known = json.loads(cache.read_text(encoding="utf-8"))
        if known["asked"] == asked:
            return known["nats"]
    view = WholeWindows(shards.folder, given["window"], given["pieces"])
    if not view.pieces(given["split"]):
        raise UserError(
            f"window={given['window']}: no piece of split={given['split']} has so many tokens; "
            "give a smaller window"
        )
    with tqdm(unit="window", desc=cache.stem, disable=None, leave=False) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        result = evaluate(
            bundle.model,
            view,
            given["split"],
            window=given["window"],
            batch=given["batch"],
            progress=progress,
        )
    print(f"{cache.stem}: {result.nats_per_token:.4f} nats/token in {result.windows} windows")
    nats = [float(x) for x in result.by_position if x is not None]
    write(cache, json.dumps({"asked": asked, "windows": result.windows, "nats": nats}) + "\n")
    return nats


def fingerprint(folder: Path) -> str:
    """Of the weights: 16 hexadecimal digits."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]


def write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def smoothed(nats: list[float], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Middles of the windows of a moving mean of ``width`` places, and the means."""
    width = max(1, min(width, len(nats)))
    sums = np.cumsum(np.concatenate([[0.0], nats]))
    return np.arange(len(nats) - width + 1) + (width - 1) / 2, (
        sums[width:] - sums[:-width]
    ) / width


def draw(curves: dict[str, list[float]], contexts: dict[str, int], width: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5))
    for number, (name, nats) in enumerate(curves.items()):
        x, y = smoothed(nats, width)
        axes.plot(x, y, color=f"C{number}", label=name)
    for context in sorted(set(contexts.values())):
        axes.axvline(context, color="0.5", linestyle="--", linewidth=1)
        axes.annotate(
            f" trained on {context}", (context, 1), xycoords=("data", "axes fraction"), va="top"
        )
    axes.set_xlabel("place in the window, tokens")
    axes.set_ylabel(f"nats per token, mean of {width} places")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    beside = path.with_name(f".{path.name}")
    figure.savefig(beside, dpi=130, bbox_inches="tight", facecolor="white", format="png")
    plt.close(figure)
    os.replace(beside, path)


def names(folders: list[Path]) -> list[str]:
    """A name for each model folder: its own or its run's, numbered where it comes twice."""
    found = [f.parent.name if f.name == "model" else f.name for f in map(Path.resolve, folders)]
    return [n if found.count(n) == 1 else f"{n}-{i + 1}" for i, n in enumerate(found)]


def main(words: list[str]) -> dict[str, list[float]]:
    given = options.read(words, DEFAULTS)
    if not given["models"]:
        raise UserError("models: missing, give model folders as models=[FOLDER,FOLDER]")
    folders = [locate(folder) for folder in given["models"]]
    out = Path(given["out"])
    out.mkdir(parents=True, exist_ok=True)
    bundles = {name: load(f, given["device"]) for name, f in zip(names(folders), folders)}
    contexts = {name: int(b.model.config["context"]) for name, b in bundles.items()}
    given["window"] = given["window"] or 2 * max(contexts.values())
    curves: dict[str, list[float]] = {}
    fingerprints = {b.tokenizer.fingerprint for b in bundles.values()}
    if len(fingerprints) > 1:
        raise UserError("models: their vocabularies differ, so nats per token do not compare")
    first = next(iter(bundles.values()))
    shards = find_shards(EvaluateConfig(corpus=corpus_of(first, given["corpus"])), first)
    shards.check(first.tokenizer)
    for name, bundle in bundles.items():
        curves[name] = measure(bundle, shards, given, out / f"{name}.json")
    rows = [["position", *curves], *zip(range(given["window"]), *curves.values())]
    path = out / "nll_by_position.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    draw(curves, contexts, given["smooth"], path.with_suffix(".png"))
    print(f"\n{'':<24}{'within training':>16}{'beyond':>10}   nats/token")
    for name, nats in curves.items():
        inside, beyond = nats[: contexts[name]], nats[contexts[name] :]
        far = f"{np.mean(beyond):.4f}" if beyond else "-"
        print(f"{name:<24}{np.mean(inside):>16.4f}{far:>10}   {label(bundles[name])}")
    print(path, path.with_suffix(".png"), sep="\n")
    return curves


def label(bundle: Bundle) -> str:
    return f"(positions {bundle.model.config['position']['name']})"


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
