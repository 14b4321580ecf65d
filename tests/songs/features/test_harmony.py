"""The chord in force and the pitch classes known ahead, against plain loops over the ids so far."""

import numpy as np
import pytest
import torch

from musictx.songs.features.harmony import HALF, LONGEST, NO_ROOT, Harmony
from tests.songs.features.test_lookahead import TABLE, TOKENS, window, written


def groups_of(ids, place):
    """The whole groups up to ``ids[place]``, and the ids of the one that is being written."""
    field = place % 5
    whole = [ids[end - 4 : end + 1] for end in range(5, place - field + 1, 5)]
    return whole, ids[place - field + 1 : place + 1]


def expected(ids, place):
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


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("look", [1, 2, 20])
def test_it_finds_what_loops_find(seed, look):
    first, second = window(seed, look=look), window(seed + 5, begin=0, look=look)
    feature = Harmony(TOKENS.size, 16, **Harmony.of_tokens(TOKENS))
    begins = len(first) + -len(first) % 5
    ids = torch.tensor([first + [0] * (begins - len(first)) + second])
    places = torch.cat([torch.arange(begins), torch.arange(len(second))])[None]
    seen = feature.read(ids, ids[:, :0], places)
    for one, since in ((first, 0), (second, begins)):
        for place in range(5, len(one)):
            if not written(one, place):
                continue
            shares, root, quality, begun, following = expected(one, place)
            at = since + place
            np.testing.assert_allclose(seen.ahead[0, at].reshape(4, 12), shares, atol=1e-6)
            told = [each[0, at].item() for each in seen[1:]]
            assert told == [root, quality, begun, following], place
    row = ids[:, :begins]
    for at in range(35, len(first) - 1, 41):
        part = feature.read(row[:, at : at + 1], row[:, :at], places[:, at : at + 1])
        assert all(torch.equal(whole[:, at : at + 1], one) for whole, one in zip(seen, part))


def test_scores_move_with_the_key():
    """Music and chords a fourth higher have the scores of roots and pitches a fourth higher."""
    ids = window(2)
    up = TOKENS.augment(np.array(ids), semitones=5).astype(np.int64).tolist()
    feature = Harmony(TOKENS.size, 16, **Harmony.of_tokens(TOKENS))
    for parameter in feature.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(1, len(ids), 16)
    logits = torch.zeros(1, len(ids), TOKENS.size)
    places = torch.arange(len(ids))[None]
    low, high = (
        feature.score(logits, x, feature.read(one, one[:, :0], places))[0]
        for one in (torch.tensor([ids]), torch.tensor([up]))
    )
    roots, pitches, qualities = (slice(*TABLE.range(k)) for k in ("root", "pitch", "quality"))
    torch.testing.assert_close(high[:, roots][:, :12].roll(-5, 1), low[:, roots][:, :12])
    torch.testing.assert_close(high[:, pitches][:, 5:], low[:, pitches][:, :-5])
    torch.testing.assert_close(high[:, qualities], low[:, qualities])
    assert all((low[:, kind] != 0).any() for kind in (roots, pitches, qualities))
