"""What is known ahead of a bar, and the chord in force, against plain loops over the ids so far."""

import numpy as np
import pytest
import torch

from musictx.songs import bar_layout
from musictx.songs.features.harmony import HALF, LONGEST, NO_ROOT, Harmony
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


def next_given(ids, place):
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


def groups_of(ids, place):
    """The whole groups up to ``ids[place]``, and the ids of the one that is being written."""
    field = place % 5
    whole = [ids[end - 4 : end + 1] for end in range(5, place - field + 1, 5)]
    return whole, ids[place - field + 1 : place + 1]


def chord_and_shares(ids, place):
    """(shares ahead, root, quality, root begun, what comes next) after ``ids[place]``."""
    whole, begun = groups_of(ids, place)
    bar, here, known, root, quality, at = 0, None, [], NO_ROOT, 0, 0
    for group in whole:
        said = [TABLE.tokens[i] for i in group]
        kinds = [kind for kind, _ in said]
        if kinds[0] != "place" or here is not None:
            at = 0
        if kinds[0] == "bar":
            bar, here = bar + 1, None
        elif kinds[:2] == ["known", "numerator"]:
            here = max([bar, *(b for b, *_ in known)]) + 1
            known.append((here, 0, 0, 0))
        elif kinds[0] == "place" and here is not None:
            if kinds[1] == "program":
                known.append((here, said[0][1], said[2][1] % 12, min(said[3][1], LONGEST)))
        elif kinds[0] == "place":
            at = said[0][1]
            if kinds[1] == "harmony":
                root, quality = said[2][1], said[3][1]
    said = [TABLE.tokens[i] for i in begun]
    if said and said[0][0] == "bar":
        bar, at = bar + 1, 0
    elif said and said[0][0] == "place":
        at = said[0][1]
    half = at // HALF
    within = (
        lambda b, p: b == bar and p // HALF == half,
        lambda b, p: b == bar and p // HALF > half,
        lambda b, p: b == bar + 1,
        lambda b, p: True,
    )
    shares = np.zeros((4, 12))
    for share, inside in zip(shares, within):
        for b, p, pitch_class, time in known:
            share[pitch_class] += time * inside(b, p)
        share /= max(share.sum(), 1)
    kinds = [kind for kind, _ in said]
    following = 0
    if kinds == ["place", "harmony"]:
        following = 1
    elif kinds == ["place", "harmony", "root"]:
        following = 2
    elif kinds == ["place", "program"]:
        following = 3
    return shares, root, quality, said[2][1] if following == 2 else NO_ROOT, following


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("look", [1, 2, 20])
def test_they_find_what_loops_find(seed, look):
    first, second = window(seed, look=look), window(seed + 5, begin=0, look=look)
    begins = len(first) + -len(first) % 5
    ids = torch.tensor([first + [0] * (begins - len(first)) + second])
    places = torch.cat([torch.arange(begins), torch.arange(len(second))])[None]
    ahead, harmony = (
        kind(TOKENS.size, 16, **kind.of_tokens(TOKENS)) for kind in (Feature, Harmony)
    )
    given, chord = (one.read(ids, ids[:, :0], places) for one in (ahead, harmony))
    for one, since in ((first, 0), (second, begins)):
        for place in range(5, len(one)):
            if not written(one, place):
                continue
            at = since + place
            found = given.ids[0, at].item(), given.trust[0, at].item()
            assert found == next_given(one, place), place
            shares, *others = chord_and_shares(one, place)
            np.testing.assert_allclose(chord.ahead[0, at].reshape(4, 12), shares, atol=1e-6)
            assert [each[0, at].item() for each in chord[1:]] == others, place
    row = ids[:, :begins]
    for feature, seen in ((ahead, given), (harmony, chord)):
        for at in range(35, len(first) - 1, 41):
            part = feature.read(row[:, at : at + 1], row[:, :at], places[:, at : at + 1])
            assert all(torch.equal(whole[:, at : at + 1], one) for whole, one in zip(seen, part))
