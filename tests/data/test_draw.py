"""Where training windows begin."""

from __future__ import annotations

import numpy as np
import pytest

from musictx.chorale.grid import Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import AugmentConfig
from musictx.data.draw import TrainingRows
from musictx.data.shards import Shards, new_shards
from musictx.tokens.vocab import BOS, CUT, EOS

TOKENIZER = ChoraleTokenizer()


@pytest.fixture
def shards(tmp_path):
    """Pieces in which every token tells its place: token p of a piece is the pitch 60 + p // 4 mod
    20 for the soprano, and so on, so a window's start can be read off its first tokens."""
    config = TOKENIZER.to_config()
    with new_shards(
        tmp_path / "shards",
        fingerprint=TOKENIZER.fingerprint,
        tokenizer_config=config,
        corpus={"name": "test"},
    ) as writer:
        for number, steps in enumerate((7, 19, 20)):
            step = np.arange(steps)
            pitches = np.stack([60 + step, 55 + number + 0 * step, 50 + 0 * step, 40 + step], 1)
            ids = TOKENIZER.encode_grid(Grid.joined(pitches))
            writer.add(ids, name=str(number), split="train", notes=steps, seconds=1.0)
    return Shards(tmp_path / "shards")


def windows(shards, count=300, context=32, align=1, **augment):
    """(start in tokens, opened by, targets) of every window in the first ``count`` rows."""
    augment = AugmentConfig(transpose=0, stretch=[1.0], **augment)
    rows = TrainingRows(shards, TOKENIZER, context, augment, seed=0, align=align)
    for number in range(count):
        row = rows.row(number, 0)
        for piece in np.unique(row.piece_ids[row.piece_ids >= 0]):
            targets = row.targets[row.piece_ids == piece]
            opened = int(row.ids[row.piece_ids == piece][0])
            if targets[0] == EOS:
                continue
            step = int(TOKENIZER.decode_grid(targets[:1]).pitches[0, 0]) - 60
            yield 4 * step, opened, targets


def test_windows_of_chorales_begin_with_a_soprano(shards):
    """A start inside a step would tell a wrong voice: the first target is a soprano's pitch."""
    starts = [start for start, _, _ in windows(shards)]
    assert all(start >= 0 for start in starts)  # a bass or a tenor would be below 60
    assert {start % 16 for start in starts} == {0, 4, 8, 12}


def test_windows_begin_at_multiples_of_what_is_asked(shards):
    found = list(windows(shards, align=16))
    assert {start % 16 for start, _, _ in found} == {0}
    assert len({start for start, _, _ in found}) > 2
    assert all((opened == BOS) == (start == 0) for start, opened, _ in found)
    with_three = {start % 12 for start, _, _ in windows(shards, align=3)}  # and of the voices
    assert with_three == {0}


def test_whole_pieces_begin_at_their_beginning_and_fit_if_they_can(shards):
    found = list(windows(shards, context=100, whole=True))
    assert {(start, opened) for start, opened, _ in found} == {(0, BOS)}
    # The first piece of a row always fits, 29, 77 or 81 tokens of 100.
    whole = sum(targets[-1] == EOS for _, _, targets in found)
    assert whole >= 300
    assert CUT not in {opened for _, opened, _ in found}
