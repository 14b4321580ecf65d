"""Whatever a model says: music drawn from random weights is legal, and its files are read again.

    python -m scripts.legal [samples=10000] [tokens=64] [seed=0]

For each kind of tokens a small network with random weights, a new one for every hundred samples,
writes pieces through ``musictx.generate``: its opinions are strong, so that it wants what makes no
sense. Each piece is written as MIDI and read back; its notes must be those that were drawn, none
without length, none that sounds on. Exit status 1 where one is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import musictx
from musictx import midi
from musictx.bundle import Bundle
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build
from scripts.harness import finish
from scripts.words import options, run

KINDS: dict[str, dict[str, Any]] = {
    "performance": {"name": "performance"},
    "with control tokens": {"name": "performance", "controls": True},
    "ensemble": {"name": "performance", "tracks": "programs"},
    "chorale": {"name": "chorale"},
}
SAME = 100


def legal(piece: musictx.Sample) -> str | None:
    """What is wrong with ``piece``, or None."""
    notes = piece.score.notes
    again = midi.read(midi.to_bytes(piece.score)).notes
    if len(again) != len(notes):
        return f"{len(notes)} notes were drawn, {len(again)} are in the file"
    if len(notes) and not (again["end"] > again["start"]).all():
        return "a note without length"
    pitches = [np.sort(one["pitch"]) for one in (notes, again)]
    return None if np.array_equal(*pitches) else "other pitches in the file"


def main(words: list[str]) -> int:
    texts = options(words, {"samples": "10000", "tokens": "64", "seed": "0"})
    given = {name: int(text) for name, text in texts.items()}
    failures, each = [], -(-given["samples"] // len(KINDS))
    for number, (kind, made) in enumerate(KINDS.items()):
        tokenizer, notes = build(**made), 0
        for first in range(0, each, SAME):
            torch.manual_seed(1000 * given["seed"] + number + first)
            model = MusicTransformer(
                tokenizer.size, layers=1, width=16, heads=2, feedforward=16, context=128
            ).eval()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(8)
            bundle = Bundle(model, tokenizer, {}, Path("random"))
            count = min(SAME, each - first)
            for piece in musictx.generate(
                bundle, sampling="wild", samples=count, tokens=given["tokens"], seed=first
            ):
                notes += piece.notes
                if fault := legal(piece):
                    failures.append(f"{kind}, sample of {first}: {fault}")
        print(f"{kind}: {each:,} pieces, {notes:,} notes", flush=True)
    print(f"{len(failures)} of {each * len(KINDS):,} pieces are not legal")
    return finish(failures)


if __name__ == "__main__":
    run(main)
