"""``musictx prepare``: encode a folder of MIDI files as token shards, with a report."""

from __future__ import annotations

import dataclasses

from musictx.config import PrepareConfig
from musictx.data.prepare import Report, prepare
from musictx.tokens.build import build


def run(config: PrepareConfig) -> Report:
    """Prepare the corpus with the options ``config`` and print the report.

    ``report.json`` in the folder of the shards lists each file that was left out, with the reason.
    Raises ``UserError`` if no file of the corpus can be used.
    """
    tokenizer = build(**dataclasses.asdict(config.tokenizer))
    report = prepare(config.corpus, tokenizer)
    print(report)
    return report
