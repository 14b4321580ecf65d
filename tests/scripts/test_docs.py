"""What makes the site: docstrings, movies, pictures."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import torch

import musictx
from musictx.attention import RelativeAttention, attend
from musictx.attention.terms import Terms
from musictx.model import MusicTransformer, attention_weights
from scripts.docs.docstrings import markdown

PUBLIC = [getattr(musictx, name) for name in sorted(musictx._WHERE)]
PUBLIC += [RelativeAttention, RelativeAttention.forward, attend, Terms, MusicTransformer.forward]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", re.sub(r":\w+:`(?:~(?:\w+\.)*)?", "", text))


@pytest.mark.parametrize("documented", PUBLIC, ids=lambda one: getattr(one, "__name__", str(one)))
def test_no_word_of_a_docstring_is_lost(documented):
    text = inspect.getdoc(documented)
    assert words(markdown(text)) == words(text)


def test_pictures_of_a_model_and_their_numbers_are_written_where_requested(tmp_path):
    pytest.importorskip("matplotlib")
    from scripts.docs import attention_pictures

    attention_pictures.main(model="chorale", tokens=24, out=tmp_path)
    names = ["trained_distances.png", "trained_weights.npz", "trained_weights.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    numbers = np.load(tmp_path / "trained_weights.npz")
    model = musictx.load("chorale").model
    for layer, weights in enumerate(numbers["weights"]):
        ids = torch.from_numpy(numbers["ids"])[None]
        want = attention_weights(model, ids, layer)[0].numpy()
        np.testing.assert_allclose(weights, want, atol=1e-6)
