"""torch.compile takes the whole model, on the CPU too."""

import pytest
import torch

from musictx.model.transformer import MusicTransformer


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, about itself
@pytest.mark.parametrize("attention", ["auto", "reference"])
def test_the_compiled_model_gives_the_same_logits(attention):
    torch.manual_seed(0)
    model = MusicTransformer(
        40, layers=2, width=16, heads=2, feedforward=32, context=64, attention=attention
    ).eval()
    ids = torch.randint(4, 40, (2, 24))
    with torch.no_grad():
        expected = model(ids)
        found = torch.compile(model)(ids)
    assert torch.allclose(found, expected, atol=1e-4)
