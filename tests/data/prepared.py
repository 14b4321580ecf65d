"""A run of prepare, for the tests of it."""

from pathlib import Path

from musictx.config import CorpusConfig
from musictx.data.prepare import prepare
from tests.data.helpers import TOKENIZER


def run(path: Path, out: Path | None = None, *, tokenizer=TOKENIZER, part=None, **options):
    config = CorpusConfig(path=str(path), **({"workers": 1} | options))
    return prepare(config, tokenizer, out, part=part, progress=False)
