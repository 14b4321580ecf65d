"""The notes known ahead of a bar, and the current chord, against plain loops over the ids."""

import numpy as np
import pytest
import torch

from musictx.songs import bar_codec
from musictx.songs.features.harmony import HALF, LONGEST, NO_ROOT, Harmony
from musictx.songs.features.lookahead import Lookahead
from musictx.tokens.stream import CHORD
from tests.songs.features.test_bars import LINE, TABLE, TOKENS, groups_of, key
from tests.songs.test_grouped import song


def window(seed=0, begin=3, stop=9, look=2, chance=0.5):
    random = np.random.default_rng(seed)
    stream = TOKENS.read(TOKENS.encode(song(seed=seed)))
    known = stream.notes[random.random(len(stream.notes)) < chance]
    sections = random.choice([0, bar_codec.WHOLE, bar_codec.VARIED], len(stream.bars))
    ahead = bar_codec.GivenAhead(begin, stop, look, known, sections, [0, CHORD])
    ids, _ = bar_codec.interleave(stream, ahead, TABLE)
    return [1, *bar_codec.control_prefix(TABLE, [1, 0, 2, 3]).tolist(), *ids.tolist()]


def next_given(ids, place):
    """(id, class) after ``ids[place]``: the next id of what is known of the bar."""
    whole, begun = groups_of(ids, place)
    field, known, bar, described, last = len(begun), {}, 0, None, LINE
    for group in whole:
        first, second = (TABLE.tokens[i][0] for i in group[:2])
        if first == "bar":
            bar, described, last = bar + 1, None, LINE
        elif first == "known" and second == "numerator":
            described = max([bar, *known]) + 1
            known[described] = [group]
        elif first == "place" and described:
            known[described].append(group)
        elif first == "place":
            last = key(group)
        if described or first in ("known", "stream"):
            last = (999, 0, 0)
    is_line = begun[:1] == [TABLE.id("bar")]
    if bar + is_line not in known:
        return 0, 0
    line, *notes = known[bar + is_line]
    state = {0: 1, bar_codec.WHOLE: 2, bar_codec.VARIED: 3}[TABLE.tokens[line[3]][1]]
    if is_line:
        return line[field], state
    later = [
        group
        for group in notes
        if key(group)[:field] == key(begun) and (field >= 3 or key(group) > last)
    ]
    return later[0][field] if later else 0 if field else TABLE.id("bar"), state


def is_composed(ids, place):
    """Whether the network writes the group after ``ids[place]``: no group of known notes."""
    begun = place - place % 5 + 1
    *before, first = (TABLE.tokens[i][0] for i in [*ids, TABLE.id("bar")][1 : begun + 1 : 5])
    openings = [kind for kind in before if kind in ("bar", "known")]
    return first == "bar" or (first == "place" and openings[-1:] != ["known"])


def chord_and_shares(ids, place):
    """(shares ahead, root, quality, root begun, next field) after ``ids[place]``."""
    whole, begun = groups_of(ids, place)
    bar, described, known, root, quality, step = 0, None, [], NO_ROOT, 0, 0
    for group in whole:
        (first, value), (second, _), (_, third), (_, fourth), _ = (TABLE.tokens[i] for i in group)
        if first != "place" or described:
            step = 0
        if first == "bar":
            bar, described = bar + 1, None
        elif (first, second) == ("known", "numerator"):
            described = max([bar, *(number for number, *_ in known)]) + 1
            known.append((described, 0, 0, 0))
        elif first == "place" and described:
            if second == "program":
                known.append((described, value, third % 12, min(fourth, LONGEST)))
        elif first == "place":
            step = value
            if second == "harmony":
                root, quality = third, fourth
    kinds, values = zip(*(TABLE.tokens[i] for i in begun)) if begun else ((), ())
    bar += kinds[:1] == ("bar",)
    if begun:
        step = values[0] if kinds[0] == "place" else 0
    half = step // HALF
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
    fields = {("place", "harmony"): 1, ("place", "harmony", "root"): 2, ("place", "program"): 3}
    begun_root = values[2] if fields.get(kinds) == 2 else NO_ROOT
    return shares, root, quality, begun_root, fields.get(kinds, 0)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("look", [1, 2, 20])
def test_they_find_what_loops_find(seed, look):
    first, second = window(seed, look=look), window(seed + 5, begin=0, look=look)
    begins = len(first) + -len(first) % 5
    ids = torch.tensor([first + [0] * (begins - len(first)) + second])
    positions = torch.cat([torch.arange(begins), torch.arange(len(second))])[None]
    ahead, harmony = (
        kind(TOKENS.vocabulary.size, 16, **kind.of_tokens(TOKENS)) for kind in (Lookahead, Harmony)
    )
    given, chord = (feature.read(ids, ids[:, :0], positions) for feature in (ahead, harmony))
    for piece, since in ((first, 0), (second, begins)):
        for place in (n for n in range(5, len(piece)) if is_composed(piece, n)):
            at = since + place
            predicted = given.ids[0, at].item(), given.confidence[0, at].item()
            assert predicted == next_given(piece, place), place
            shares, *others = chord_and_shares(piece, place)
            np.testing.assert_allclose(chord.shares[0, at].reshape(4, 12), shares, atol=1e-6)
            assert [each[0, at].item() for each in chord[1:]] == others, place
