"""What can be imported without Hydra and MIDI libraries: data, model, training."""

import subprocess
import sys

ABSENT = "hydra mido symusic pretty_midi miditok music21"
LEAN = """
musictx.config musictx.tokens.build musictx.data.shards musictx.data.windows musictx.data.draw
musictx.data.module musictx.model.transformer musictx.speed.fused musictx.bundle
musictx.evaluate.nll musictx.evaluate.note_limits musictx.sampling.composer
musictx.training.lit musictx.training.callbacks musictx.training.checkpoint musictx.apps.train
"""
PROGRAM = f"""
import importlib, sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT.split()!r}:
            return None  # not an error: others may ask whether it is there, and go on without
        return self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
for name in {LEAN.split()!r}:
    importlib.import_module(name)
"""


def test_training_and_measuring_need_no_hydra_and_no_midi_library():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
