"""Scripts as modules, and a model folder that was never trained."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from tests.untrained import saved

torch.set_num_threads(1)
SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def script():
    """Path under scripts/ -> the module of a script."""
    made = []

    def load(path):
        name = f"script_{path.removesuffix('.py').replace('/', '_')}"
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        made.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in made:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model folder of context 24."""
    card = {
        "note_limits": {"most_notes": 6},
        "command": "musictx train '/home/me/my songs' corpus.path=/home/me/in out=/x",
        "training": {"init": "/home/me/runs/old"},
    }
    return saved(tmp_path_factory.mktemp("models") / "huang", card, width=16, context=24)
