"""``MotifMemory`` equals a plain loop over events. With a cache: test_laws.py."""

import pytest
import torch

from musictx.model.features.motif_memory import FARTHEST, LENGTHS, MOST_NOTES, MotifMemory
from tests.model.features.test_sounding import EVENTS, VOCAB

GIVEN = {name: EVENTS[name] for name in ("steps", "starts", "loudness")}


def music(rows, count, seed=2):
    """Events that come back: a theme of a few notes between random ones."""
    draw = torch.Generator().manual_seed(seed)
    some = torch.randint(4, VOCAB, (rows, count), generator=draw)
    theme = torch.randint(4, VOCAB, (30,), generator=draw)
    theme[::2] = torch.randint(4, 12, (15,), generator=draw)
    for row in some:
        for at in range(int(torch.randint(20, (1,), generator=draw)), count - 30, 41):
            row[at : at + 30] = theme
    return some


def expected(ids):
    """(class of the run, pitch, steps, level) after the last of ``ids``, a piece so far."""
    notes, time, level = [], 0, 0
    for token in ids:
        if 20 <= token < 60:
            time += token - 19
        if token >= 60:
            level = token - 59
        if 4 <= token < 12:
            notes.append((token - 4, time, level))
    best, lag = 0, 1
    for back in range(1, min(len(notes) - 1, FARTHEST) + 1):
        run = 0
        while run < MOST_NOTES and run + back < len(notes):
            if notes[-1 - run][0] != notes[-1 - run - back][0]:
                break
            run += 1
        if run > best:
            best, lag = run, back
    kind = sum(best >= edge for edge in LENGTHS)
    if not kind:
        return 0, 0, 0, 0
    pitch, when, loud = notes[len(notes) - lag]
    left = when - notes[len(notes) - lag - 1][1] - (time - notes[-1][1])
    return kind, pitch, max(left, 0), loud


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_read_equals_a_loop_over_events(seed):
    ids = music(2, 160, seed)
    positions = torch.cat([torch.arange(60), torch.arange(100)]).expand(2, -1)
    state = MotifMemory(VOCAB, 8, **GIVEN).read(ids, ids[:, :0], positions)
    for row in range(2):
        for at in range(160):
            begin = 0 if at < 60 else 60
            numbers = (state.confidence[..., 0], state.pitch, state.steps, state.level)
            got = tuple(int(each[row, at]) for each in numbers)
            assert got == expected(ids[row, begin : at + 1].tolist()), at
    assert (state.confidence > 0).float().mean() > 0.15  # else the test could not tell
