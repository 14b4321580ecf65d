"""What stood here some bars ago, against plain loops over the groups written so far."""

import pytest
import torch

from musictx.songs.bar_codec import REPEATS
from musictx.songs.features.bars import AGREEMENT_NOTES, DISTANCES, Bars
from musictx.songs.repeats import FARTHEST_BARS
from tests.songs.test_grouped import TOKENS, song

TABLE = TOKENS.vocabulary
PARTS = {"harmony": 0, "drums": 129}
FEATURE = Bars(TOKENS.size, 16, **Bars.of_tokens(TOKENS))


def key(group):
    kinds = [TABLE.tokens[i] for i in group]
    if kinds[0][0] == "bar":
        return (0, 0, 0)
    return (kinds[0][1] + 1, PARTS.get(kinds[1][0], kinds[1][1] + 1), kinds[2][1])


def expected(ids, place):
    """(id that would follow, class of agreement) for each distance, after ``ids[place]``."""
    field = place % 5
    groups, bar = [], -1
    for end in range(5, place - field + 1, 5):
        group = ids[end - 4 : end + 1]
        bar += TABLE.tokens[group[0]][0] == "bar"
        groups.append((bar, key(group), group))
    begun = ids[place - field + 1 : place + 1]
    lines = {one[0] for one in groups}
    first = {}
    for at, where, group in groups:
        first.setdefault((at, where), group)
    last = [one for one in groups if one[1] != (0, 0, 0)][-AGREEMENT_NOTES:]

    def agreed(lag):
        if not groups or bar - lag not in lines:
            return -1
        return sum((b - lag, k) in first and first[b - lag, k][3] == g[3] for b, k, g in last)

    best = max(range(1, FARTHEST_BARS + 1), key=lambda lag: (agreed(lag), -lag))
    found = []
    lines_said = [group[3] for _, where, group in groups if where == (0, 0, 0)]
    said = TABLE.tokens[lines_said[-1]][1] - REPEATS + 1 if lines_said else 0
    for lag in (*DISTANCES, best, said):
        trust = (
            0 if lag < 1 or agreed(lag) < 0 else 1 + min(5 * agreed(lag) // max(len(last), 1), 4)
        )
        then = 0
        if trust and field == 0:
            later = [one for one in groups if one[0] == bar - lag and one[1] > groups[-1][1]]
            then = later[0][2][0] if later else TABLE.id("bar")
        elif trust and TABLE.tokens[begun[0]][0] == "bar":
            then = first.get((bar + 1 - lag, (0, 0, 0)), [0] * 5)[field]
        elif trust:
            told = [TABLE.tokens[begun[0]][1] + 1]
            told += [PARTS.get(k, v + 1) for k, v in map(TABLE.token, begun[1:2])]
            told += [v for _, v in map(TABLE.token, begun[2:3])]
            same = [
                one
                for one in groups
                if one[0] == bar - lag
                and one[1][: len(told)] == tuple(told)
                and (field >= 3 or one[1] > groups[-1][1])
            ]
            then = same[0][2][field] if same else 0
        found.append((then, trust if then else 0))
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_finds_what_loops_find(seed):
    ids = [1, *TOKENS.encode(song(seed=seed)).tolist()]
    both = torch.tensor([ids])
    places = torch.arange(len(ids))[None]
    seen = FEATURE.read(both, both[:, :0], places)
    for place in range(len(ids)):
        got = list(zip(seen.ids[0, place].tolist(), seen.trust[0, place].tolist()))
        assert got == expected(ids, place), place
    for at in (7, 60, 61, 62, 63, 64):
        part = FEATURE.read(both[:, at : at + 1], both[:, :at], places[:, at : at + 1])
        assert all(torch.equal(whole[:, at : at + 1], one) for whole, one in zip(seen, part))
