"""What is known ahead of a bar, against plain loops over the groups written so far."""

import numpy as np
import pytest
import torch

from musictx.songs import bar_layout
from musictx.songs.features.lookahead import Lookahead as Feature
from musictx.tokens.build import build
from musictx.tokens.stream import CHORD
from tests.songs.test_grouped import song

TOKENS = build("notes", low=40, high=90, controls=True)
TABLE = TOKENS.vocabulary
PARTS = {"harmony": 0, "drums": 129}


def window(seed=0, begin=3, stop=9, look=2, chance=0.5):
    random = np.random.default_rng(seed)
    stream = TOKENS.read(TOKENS.encode(song(seed=seed)))
    known = stream.notes[random.random(len(stream.notes)) < chance]
    sections = random.choice([0, bar_layout.WHOLE, bar_layout.VARIED], len(stream.bars))
    ahead = bar_layout.Lookahead(begin, stop, look, known, sections, [0, CHORD])
    ids, _ = bar_layout.interleaved(stream, ahead, TABLE)
    return [1, *bar_layout.control_prefix(TABLE, [1, 0, 2, 3]).tolist(), *ids.tolist()]


def key(group):
    kinds = [TABLE.tokens[i] for i in group]
    return (kinds[0][1] + 1, PARTS.get(kinds[1][0], kinds[1][1] + 1), kinds[2][1])


def expected(ids, place):
    """(id, class) after ``ids[place]``: what comes next of what is known of the bar."""
    field, lines, bar, here = place % 5, {}, 0, None
    for end in range(5, place - field + 1, 5):
        group = ids[end - 4 : end + 1]
        kind, second = TABLE.tokens[group[0]][0], TABLE.tokens[group[1]][0]
        if kind == "bar":
            bar, here, last = bar + 1, None, (0, 0, 0)
        elif kind == "known" and second == "numerator":
            here = max([bar, *lines]) + 1
            lines[here] = [((0, 0, 0), group)]
        elif kind == "place" and here:
            lines[here].append((key(group), group))
        elif kind == "place":
            last = key(group)
        if here or kind in ("known", "stream"):
            last = (999, 0, 0)
    begun = ids[place - field + 1 : place + 1]
    if begun and TABLE.tokens[begun[0]][0] == "bar":
        found = lines.get(bar + 1)
        return (found[0][1][field], state(found)) if found else (0, 0)
    found = lines.get(bar)
    if not found:
        return 0, 0
    so_far = [TABLE.tokens[begun[0]][1] + 1] if begun else []
    so_far += [PARTS.get(k, v + 1) for k, v in map(TABLE.token, begun[1:2])]
    so_far += [v for _, v in map(TABLE.token, begun[2:3])]
    later = [
        group
        for where, group in found[1:]
        if where[: len(so_far)] == tuple(so_far) and (field >= 3 or where > last)
    ]
    if later:
        return later[0][field], state(found)
    return (0 if field else TABLE.id("bar")), state(found)


def state(found):
    return {0: 1, bar_layout.WHOLE: 2, bar_layout.VARIED: 3}[TABLE.tokens[found[0][1][3]][1]]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("look", [1, 2, 20])
def test_it_finds_what_loops_find(seed, look):
    first = window(seed, look=look)
    second = window(seed + 5, begin=0, look=look)
    feature = Feature(TOKENS.size, 16, **Feature.of_tokens(TOKENS))
    ids = torch.tensor([first + [0] * (-len(first) % 5) + second])
    begins = len(first) + -len(first) % 5
    places = torch.cat([torch.arange(begins), torch.arange(len(second))])[None]
    seen = feature.read(ids, ids[:, :0], places)
    for one, since in ((first, 0), (second, begins)):
        of_piece = [place for place in range(5, len(one)) if written(one, place)]
        for place in of_piece:
            got = seen.ids[0, since + place].item(), seen.trust[0, since + place].item()
            assert got == expected(one, place), place
    row = ids[:, :begins]
    for at in range(35, len(first) - 1, 41):
        part = feature.read(row[:, at : at + 1], row[:, :at], places[:, at : at + 1])
        assert all(torch.equal(whole[:, at : at + 1], one) for whole, one in zip(seen, part))


def test_models_made_before_there_were_variations_read_them_as_known_in_part():
    of = Feature.of_tokens(TOKENS)
    older, newer = Feature(TOKENS.size, 16, **{**of, "classes": 3}), Feature(TOKENS.size, 16, **of)
    assert Feature(TOKENS.size, 16, **{k: v for k, v in of.items() if k != "classes"}).classes == 3
    ids = torch.tensor([window(1, look=20)])
    places = torch.arange(ids.shape[1])[None]
    one, other = (each.read(ids, ids[:, :0], places) for each in (older, newer))
    assert torch.equal(one.ids, other.ids)
    assert (other.trust == 3).any()
    assert torch.equal(one.trust, torch.where(other.trust == 3, 1, other.trust))


def written(ids, place):
    """Whether what comes after ``place`` is written by the network, and not told."""
    since = place - place % 5 + 1
    kind = TABLE.tokens[ids[since]][0] if since < len(ids) else "bar"
    opened = [
        TABLE.tokens[ids[at]][0]
        for at in range(1, since, 5)
        if TABLE.tokens[ids[at]][0] in ("bar", "known")
    ]
    return kind == "bar" or (kind == "place" and opened[-1:] != ["known"])
