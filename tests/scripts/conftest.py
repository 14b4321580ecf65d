"""A model folder that was never trained."""

import pytest
import torch

from tests.untrained import saved

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model folder of context 24."""
    card = {
        "note_limits": {"most_notes": 6},
        "command": "musictx train '/home/me/my songs' corpus.path=/home/me/in out=/x",
        "training": {"init": "/home/me/runs/old"},
    }
    return saved(tmp_path_factory.mktemp("models") / "huang", card, width=16, context=24)
