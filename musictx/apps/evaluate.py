"""``musictx evaluate``: the likelihood of a corpus under a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from musictx.apps.measured import check_file, count, described, find_shards, write_result
from musictx.bundle import load
from musictx.config import EvaluateConfig
from musictx.errors import UserError
from musictx.evaluate import nll
from musictx.evaluate.conditional import Conditional, conditional
from musictx.progress import progress
from musictx.sampling.steer import has_controls, unable
from musictx.shipped import chosen

#: Windows in which infill and accompaniment are measured, unless it is said.
WINDOWS = 128


def run(config: EvaluateConfig) -> nll.Evaluation | Conditional:
    """Evaluate as ``config`` says, print the table, write the file if there is to be one.

    Everything that can be wrong is found before the long work, and what is refused leaves no files.
    """
    check_file(config.out)
    measure: Any = likelihood if config.task == "free" else around_known_notes
    result, facts = measure(config)
    if config.out is not None:
        write_result(Path(config.out), result.to_dict() | facts)
        print(config.out, flush=True)
    return result


def around_known_notes(config: EvaluateConfig) -> tuple[Conditional, dict[str, Any]]:
    """Nats a note of what would be filled in, or of an accompaniment, with and without what is
    known."""
    where = chosen(config.model.path)
    bundle = load(where, config.device)
    if not has_controls(bundle.tokenizer):
        raise UserError(f"task={config.task}: {unable(bundle.tokenizer)}")
    if bundle.tokenizer.group > 1:
        raise UserError(
            f"task={config.task}: measured of tokens that count seconds, not of "
            f"{bundle.tokenizer.name} tokens; leave it out"
        )
    shards = find_shards(config.corpus, bundle.tokenizer, card=bundle.card, split=config.split)
    trained = bundle.corpus.get("tasks") or {}
    with progress("evaluating", "windows") as update:
        result = conditional(
            bundle.model,
            bundle.tokenizer,
            shards,
            config.split,
            config.task,
            windows=config.windows or WINDOWS,
            melody=str(trained.get("melody", "skyline")),
            seed=config.seed,
            progress=update,
        )
    print(f"{described(bundle)} on {shards.folder}")
    print(result, flush=True)
    return result, {"model": str(where), "shards": str(shards.folder)}


def likelihood(config: EvaluateConfig) -> tuple[nll.Evaluation, dict[str, Any]]:
    """Nats per token of a model on the split of a corpus; and what was measured."""
    where = chosen(config.model.path)
    bundle = load(where, config.device)
    nll.lengths(bundle.model, config.window, config.stride)
    shards = find_shards(config.corpus, bundle.tokenizer, card=bundle.card, split=config.split)
    with progress("evaluating", "windows") as update:
        result = nll.evaluate(
            bundle.model,
            shards,
            config.split,
            window=config.window,
            stride=config.stride,
            windows=config.windows,
            batch=config.batch,
            progress=update,
        )
    print(f"{described(bundle)} on {shards.folder}")
    print(result, flush=True)
    facts = {
        "model": str(where),
        "parameters": count(bundle),
        "tokenizer": bundle.tokenizer.fingerprint,
        "shards": str(shards.folder),
    }
    return result, facts
