"""Fixtures of the tests of commands."""

from pathlib import Path

import pytest
import torch

from musictx.apps import train
from tests.apps.train_driver import config
from tests.data.helpers import write_songs


@pytest.fixture(scope="session")
def root(tmp_path_factory) -> Path:
    """A corpus of six pieces, and a run of 12 steps without interruption."""
    root = tmp_path_factory.mktemp("train")
    write_songs(root / "midi", range(6), notes=60)
    torch.set_num_threads(1)
    train.run(config(root, "whole"))
    return root
