"""The ids at the same place some bars ago, against plain loops over the groups so far. That a cache
gives the same: test_laws.py."""

import pytest
import torch

from musictx.songs.bar_codec import FIRST_REPEAT
from musictx.songs.features.bars import AGREEMENT_NOTES, DISTANCES, EarlierBars
from musictx.songs.repeats import FARTHEST_BARS
from musictx.tokens.build import build
from tests.songs.test_grouped import song

TOKENS = build("notes", low=40, high=90, controls=True)
TABLE = TOKENS.vocabulary
PARTS = {"harmony": 0, "drums": 129}
FEATURE = EarlierBars(TOKENS.vocabulary.size, 16, **EarlierBars.of_tokens(TOKENS))
LINE = (0, 0, 0)


def key(group):
    """(place, part, pitch) of a group, or the first of these of its first ids."""
    tokens = [TABLE.tokens[i] for i in group[:3]]
    if tokens and tokens[0][0] == "bar":
        return LINE
    return tuple(PARTS.get(kind, value + (n < 2)) for n, (kind, value) in enumerate(tokens))


def groups_of(ids, place):
    """The whole groups up to ``ids[place]``, and the ids of the group that is being written."""
    begun = place - place % 5 + 1
    return [ids[at : at + 5] for at in range(1, begun, 5)], ids[begun : place + 1]


def expected(ids, place):
    """(id that would follow, class of agreement) for each distance, after ``ids[place]``."""
    whole, begun = groups_of(ids, place)
    field, bar, groups, first = len(begun), -1, [], {}
    for group in whole:
        bar += key(group) == LINE
        groups.append((bar, key(group), group))
        first.setdefault((bar, key(group)), group)
    latest = [row for row in groups if row[1] != LINE][-AGREEMENT_NOTES:]

    def agreed(lag):
        if (bar - lag, LINE) not in first:
            return -1
        return sum(
            (number - lag, where) in first and first[number - lag, where][3] == group[3]
            for number, where, group in latest
        )

    best = max(range(1, FARTHEST_BARS + 1), key=lambda lag: (agreed(lag), -lag))
    lines = [group for group in whole if key(group) == LINE]
    repeated = TABLE.tokens[lines[-1][3]][1] - FIRST_REPEAT + 1 if lines else 0
    found = []
    for lag in (*DISTANCES, best, repeated):
        if lag < 1 or agreed(lag) < 0:
            found.append((0, 0))
            continue
        is_line = field and key(begun) == LINE
        like_it = [
            group
            for number, where, group in groups
            if number == bar + is_line - lag
            and where[: len(key(begun))] == key(begun)
            and (is_line or field >= 3 or where > groups[-1][1])
        ]
        follows = like_it[0][field] if like_it else 0 if field else TABLE.id("bar")
        confidence = 1 + min(5 * agreed(lag) // max(len(latest), 1), 4)
        found.append((follows, confidence if follows else 0))
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bars_are_compared_as_by_loops(seed):
    ids = [1, *TOKENS.encode(song(seed=seed)).tolist()]
    row = torch.tensor([ids])
    found = FEATURE.read(row, row[:, :0], torch.arange(len(ids))[None])
    for place in range(len(ids)):
        predicted = zip(found.ids[0, place].tolist(), found.confidence[0, place].tolist())
        assert list(predicted) == expected(ids, place), place
