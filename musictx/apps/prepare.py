"""``musictx prepare``: a folder of MIDI -> token shards, and what became of every file."""

from __future__ import annotations

import dataclasses

from musictx.config import PrepareConfig
from musictx.data.prepare import Report, prepare
from musictx.tokens.build import build


def run(config: PrepareConfig) -> Report:
    """Prepare the corpus as ``config`` says and print the report.

    Each file that was left out stands with its reason in ``report.json`` beside
    the tokens. ``UserError`` if nothing in the corpus can be used.
    """
    tokenizer = build(**dataclasses.asdict(config.tokenizer))
    report = prepare(config.corpus, tokenizer)
    print(report)
    return report
