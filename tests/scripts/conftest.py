"""Scripts as modules, and a model folder that was never trained."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from musictx import bundle
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build

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
    tokenizer = build(name="performance", low=48, high=84, max_shift_ms=500, velocity_bins=4)
    torch.manual_seed(0)
    shape = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "context": 24}
    made = MusicTransformer(tokenizer.size, **shape, position={"name": "huang"})
    card = {
        "note_limits": {"most_notes": 6},
        "command": "musictx train corpus.path=/home/me/in out=/x",
    }
    return bundle.save(tmp_path_factory.mktemp("models") / "huang", made, tokenizer, card)
