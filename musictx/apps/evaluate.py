"""``musictx evaluate``: the likelihood of a corpus under a model."""

from __future__ import annotations

from pathlib import Path

from musictx.apps.measuring import check_file, count, described, find_shards, write_result
from musictx.bundle import load
from musictx.config import EvaluateConfig
from musictx.evaluate import nll
from musictx.progress import progress
from musictx.shipped import chosen


def run(config: EvaluateConfig) -> nll.Evaluation:
    """Nats per token of a model on the split of a corpus: printed, and written if there is to be a
    file.

    Everything that can be wrong is found before the long work, and what is refused leaves no files.
    """
    check_file(config.out)
    where = chosen(config.model.path)
    bundle = load(where, config.device)
    nll.lengths(bundle.model, config.window)
    shards = find_shards(config.corpus, bundle.tokenizer, card=bundle.card, split=config.split)
    with progress("evaluating", "windows") as update:
        result = nll.evaluate(
            bundle.model,
            shards,
            config.split,
            window=config.window,
            windows=config.windows,
            progress=update,
        )
    print(f"{described(bundle)} on {shards.folder}")
    print(result, flush=True)
    if config.out is not None:
        facts = {
            "model": str(where),
            "parameters": count(bundle),
            "tokenizer": bundle.tokenizer.fingerprint,
            "shards": str(shards.folder),
        }
        write_result(Path(config.out), result.to_dict() | facts)
        print(config.out, flush=True)
    return result
