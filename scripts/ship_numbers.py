"""What is measured of a model before it comes along: the numbers of its card (see ship.py).

Each kind yields the card's entry as far as it is known, so that a stopped measurement is not lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from musictx.data.shards import Piece, Shards, Totals, total
from musictx.evaluate import protocol
from musictx.evaluate.nll import evaluate
from musictx.model.transformer import MusicTransformer


class Some(Shards):
    """Shards with only ``count`` pieces of each split, spread evenly (0: all)."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder)
        self.count = count

    def pieces(self, split: str | None = None) -> list[Piece]:
        everything = super().pieces(split)
        count = min(self.count or len(everything), len(everything))
        return [everything[(2 * i + 1) * len(everything) // (2 * count)] for i in range(count)]

    def totals(self, split: str | None = None) -> Totals:
        return total(self.pieces(split))


def chorales(
    model: MusicTransformer, shards: Shards, *, window: int, sliding: bool
) -> Iterator[dict[str, Any]]:
    """Nats per note on the splits of the published chorales other than train."""
    found: dict[str, Any] = {}
    for split in ("validation", "test"):
        if shards.pieces(split):
            result = evaluate(model, shards, split, window=window)
            found[f"{split}, nats per token (note-wise)"] = round(result.nats_per_token, 4)
    yield found | {
        "protocol": "the published split, whole pieces, all four voices, repeats counted, silence "
        "in the vocabulary, ends not counted, first token scored, weights as stored"
    }


def performances(
    model: MusicTransformer, shards: Shards, *, window: int, sliding: bool
) -> Iterator[dict[str, Any]]:
    """The rows of :mod:`musictx.evaluate.protocol` on the validation split.

    Windows of ``window`` tokens end to end, of the training length too where that is another, and
    with ``sliding`` those of ``window`` overlapping.
    """
    trained_on, everything = int(model.config["context"]), Shards(shards.folder)
    ways: dict[str, tuple[Any, int]] = {f"windows of {window}": (protocol.end_to_end, window)}
    if trained_on != window:
        ways[f"windows of {trained_on}, as in training"] = (protocol.end_to_end, trained_on)
    if sliding:
        ways[f"windows of {window}, a quarter apart"] = (protocol.sliding, window)
    found: dict[str, Any] = {}
    for name, (way, length) in ways.items():
        began = time.monotonic()
        with tqdm(unit="window", desc=name, disable=None, leave=False) as bar:

            def progress(done: int, total: int, bar: Any = bar) -> None:
                bar.total = total
                bar.update(done - bar.n)

            row = way(model, shards, "validation", window=length, progress=progress)
        print(f"{name}: {row['nats_per_token']:.4f} nats/token ({time.monotonic() - began:.0f} s)")
        found[name] = {
            "nats per token": round(row["nats_per_token"], 4),
            "nats per note": round(row["nats_per_note"], 4),
            "bits per second of music": round(row["bits_per_second"], 2),
            "accuracy": round(row["accuracy"], 4),
            "windows": row["windows"],
        }
        measured = f"{row['pieces']} pieces, {row['tokens']:,} tokens, {row['notes']:,} notes"
        if row["pieces"] < (all_pieces := everything.totals("validation").pieces):
            measured = f"{measured}: A REHEARSAL, of {all_pieces} pieces"
        yield found | {
            "measured on": f"the validation split, {measured}",
            "protocol": "windows end to end over each piece, remainders included (or a quarter "
            "apart, each token scored once), nothing carried over, no augmentation, padding and "
            "ends not counted, first token of a window scored, weighted by tokens, weights as "
            "stored",
            "command": f"musictx evaluate model=FOLDER corpus.path=DIR window={window} (and "
            f"stride={window // protocol.SLIDE})",
        }


#: By the name in scripts/ships/NAME.yaml.
KINDS = {"chorales": chorales, "performances": performances}
