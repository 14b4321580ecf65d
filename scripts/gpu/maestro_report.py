"""What a finished run of scripts/gpu/maestro.py leaves: the model folder, its card, its numbers."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from maestro_run import Run, use_attention

from musictx import __version__, bundle
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate import protocol
from musictx.evaluate.habits import habits
from musictx.tokens.vocab import Tokenizer

#: Pieces from which the habits of the corpus are read.
MOST_PIECES = 100
LICENCE = (
    "The weights were learnt from MAESTRO v3.0.0 (Hawthorne et al. 2019), which is under "
    "CC BY-NC-SA 4.0: no commercial use, and what is made from it goes under the same licence. "
    "musictx itself is under the MIT licence."
)
WAYS = {"end to end": protocol.end_to_end, "sliding": protocol.sliding}


class OutOfTime(UserError):
    """The seconds are used up; what is on disk is whole."""


def finish(
    run: Run,
    tokenizer: Tokenizer,
    recipe: str,
    *,
    left: Callable[[], float],
    say: Callable[[str], None],
) -> tuple[Path, list[dict[str, Any]]]:
    """Write the averaged weights in bfloat16 as ``run.folder/model``; measure them read back.

    left  seconds that remain; what does not fit into them is not measured

    Returns the folder and the rows of the table, the sliding one only if time allows.
    """
    folder = run.folder / "model"
    described = card(run, tokenizer, recipe)
    use_attention(run.model, "auto")
    run.model.config["attention"] = "auto"  # whatever trained it: it is to play anywhere
    rows: list[dict[str, Any]] = []
    with run.averaged():
        bundle.save(folder, run.model, tokenizer, described, dtype="bfloat16")
        try:
            rows.append(measure(folder, run.shards, "end to end", run.device, left=left, say=say))
            took = rows[0]["evaluation_seconds"]
            described["numbers"]["validation, nats per token"] = rows[0]["nats_per_token"]
            bundle.save(folder, run.model, tokenizer, described, dtype="bfloat16")
            if left() > 1.5 * protocol.SLIDE * took + 5:
                rows.append(measure(folder, run.shards, "sliding", run.device, left=left, say=say))
        except OutOfTime as error:
            say(f"{error}: measure {folder} by the evaluate command")
    told = {
        "row": run.folder.name,
        "position": run.config.position.name,
        "optimizer": run.config.optim.name,
        "seed": run.config.seed,
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "steps": run.step,
        "tokens_seen": run.tokens,
        "epochs": round(run.tokens / run.shards.totals("train").tokens, 2),
        "minutes": round(run.seconds / 60, 2),
        "device": device_name(run.device),
    }
    return folder, [told | row for row in rows or [{}]]


def measure(
    folder: Path,
    shards: Shards,
    way: str,
    device: torch.device,
    *,
    left: Callable[[], float],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """One row of the protocol (``WAYS``) of a model folder: float32, attention by ``auto``."""
    model = bundle.load(folder, str(device)).model

    def watch(done: int, total: int) -> None:
        if left() <= 0 and done < total:
            raise OutOfTime(f"no time to measure, {way} ({done} of {total} windows done)")

    began = time.monotonic()
    row = WAYS[way](model, shards, batch=32 if device.type == "cuda" else 8, progress=watch)
    row["evaluation_seconds"] = round(time.monotonic() - began, 1)
    say(
        f"{folder}: {row['nats_per_token']:.4f} nats/token, {row['nats_per_note']:.4f} a note, "
        f"{row['bits_per_second']:.2f} bits/s; {way}, windows of {row['window']}"
    )
    return row


def card(run: Run, tokenizer: Tokenizer, recipe: str) -> dict[str, Any]:
    """What the model folder says about how its model came to be."""
    config, shards = run.config, run.shards
    totals, pieces = shards.totals("train"), shards.pieces("train")
    some = pieces[:: max(1, len(pieces) // MOST_PIECES)]
    return {
        "title": "A Music Transformer for the piano, trained on MAESTRO v3.0.0",
        "command": "python scripts/gpu/maestro.py " + " ".join(sys.argv[1:]),
        "corpus": {
            "name": shards.corpus["name"],
            "pieces": {"train": totals.pieces},
            "hours": round(totals.seconds / 3600, 2),
            "tokens": totals.tokens,
            "split": "MAESTRO's own",
            "augmentation": dataclasses.asdict(config.corpus.augment),
        },
        "training": {
            "recipe": recipe,
            "steps": run.step,
            "batch": f"{run.batch} windows of {config.model.context} tokens",
            "tokens seen": run.tokens,
            "minutes": round(run.seconds / 60, 2),
            "device": device_name(run.device),
            "optimizer": dataclasses.asdict(config.optim) | {"lr": run.lr},
            "seed": config.seed,
            "torch": str(torch.__version__),
            "musictx": __version__,
        },
        "numbers": {
            "protocol": "validation split of MAESTRO v3, windows of the training length end to "
            "end, remainders included, nothing carried over, first token scored, padding not "
            "counted, weights as stored here",
        },
        "habits": habits(tokenizer.decode(shards.tokens(p.number)) for p in some),
        "licence": LICENCE,
    }


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
