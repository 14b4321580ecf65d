"""The core does without any wing: with its folder taken away, all that is the core's works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from musictx import wings

ROOT = Path(__file__).resolve().parents[1]
NAMES = [wing.name for wing in wings.own()]
#: What is run without wings: imports and help; without any wing also prepare, one step of training,
#: likelihood and music.
PROGRAM = """
import importlib, pathlib, pkgutil, sys
import musictx
from musictx import cli, midi, wings
from musictx.notes import Score

assert not set(sys.argv[1:]) & {wing.name for wing in wings.own()}
gpu = "musictx.speed.fused"  # it needs Triton
for module in pkgutil.walk_packages(musictx.__path__, "musictx."):
    name = module.name
    if not name.startswith(gpu) and not name.endswith("__main__"):
        if not any(name.startswith(f"musictx.{wing.name}") for wing in wings.own()):
            importlib.import_module(name)

def run(*words):
    assert cli.main(words) == 0, words

run("--help")
for command in cli.COMMANDS:
    run(command, "--help=all")
if set(sys.argv[1:]) != set(pathlib.Path("wings").read_text().split()):
    sys.exit()
for number in range(6):
    notes = [(n / 4, n / 4 + 0.2, 60 + (n * number) % 12, 80, 0, False, 0) for n in range(90)]
    midi.write(Score(notes), f"midi/{number}.mid")
corpus = ("midi", "corpus.shards=shards", "corpus.workers=1")
run("prepare", *corpus)
tiny = ("model=tiny", "model.layers=1", "model.width=16", "model.context=32", "data.batch_size=2")
run("train", *corpus, *tiny, "trainer.max_steps=1", "trainer.accelerator=cpu", "out=run",
    "data.validation_windows=2", "callbacks=quiet", "data.num_workers=0")
run("generate", "midi/1.mid", "model=run", "tokens=20", "out=music", "device=cpu", "seed=1")
run("evaluate", "model=run", "windows=2", "device=cpu")
run("compare", "midi", "against=midi", "seconds=5")
try:
    musictx.write(midi.read("midi/1.mid"), "x.wav")
except musictx.UserError as error:
    assert str(error) == "x.wav: cannot write .wav; use .mid, .midi or .musicxml", error
assert cli.main(("generate", "model=run", "tokens=9", "render=true", "out=sound")) == 2
assert not pathlib.Path("sound").exists() and not pathlib.Path("x.wav").exists()
"""


def without(names: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The program in a copy of the package that lacks these wings."""
    skipped = shutil.ignore_patterns("__pycache__", "page")
    shutil.copytree(ROOT / "musictx", folder / "copy" / "musictx", ignore=skipped)
    shutil.copytree(ROOT / "conf", folder / "copy" / "conf")
    for name in names:
        shutil.rmtree(folder / "copy" / "musictx" / name)
    (folder / "here" / "midi").mkdir(parents=True)
    (folder / "here" / "wings").write_text(" ".join(NAMES))
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *names],
        cwd=folder / "here",
        env={**os.environ, "PYTHONPATH": str(folder / "copy"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_wing_is_named_by_its_folder():
    assert sorted(NAMES) == NAMES
    for name in NAMES:
        assert (ROOT / "musictx" / name / "wing.py").is_file()


def test_what_a_wing_names_is_there():
    for wing in wings.every():
        for door, value in vars(wing).items():
            if isinstance(value, dict) and door != "tasks":
                for path in value.values():
                    assert wings.load(path) is not None
        assert wing.models is None or wing.models.is_dir()
    assert all(folder.is_dir() for folder in wings.conf_folders())


@pytest.mark.slow
@pytest.mark.parametrize("names", [*([name] for name in NAMES), NAMES], ids="-".join)
def test_the_core_works_without_it(names, tmp_path):
    done = without(names, tmp_path)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


#: Another package: a corpus, a command with an option, and a choice of YAML.
FOREIGN = {
    "bells-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: bells\nVersion: 1.0\n",
    "bells-1.0.dist-info/entry_points.txt": "[musictx.wings]\nbells = bells.wing:WING\n",
    "bells/__init__.py": "",
    "bells/wing.py": """
from musictx.wings import Wing
WING = Wing("bells", commands={"ring": "bells.command:RING"}, conf="bells.conf",
            corpora={"peals": "bells.command:Peals"})
""",
    "bells/command.py": """
from dataclasses import dataclass
from musictx.config.checks import check, option
from musictx.config.command import Command

@dataclass
class RingConfig:
    times: int = option(3, "how often", low=1)
    def __post_init__(self):
        check(self)

def run(config):
    print("ding " * config.times)

class Peals:
    needs_path = True

RING = Command("ring", RingConfig, "bells.command:run", "Ring.", before="train")
""",
    "bells/conf/ring.yaml": "defaults:\n  - ring_schema\n  - hydra: default\n  - _self_\n",
    "bells/conf/model/bronze.yaml": "layers: 1\n",
}


def test_another_package_hangs_on_by_an_entry_point(tmp_path):
    for name, text in FOREIGN.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def said(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "musictx", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    listed = said("--help")
    assert listed.index("  prepare") < listed.index("  ring  ") < listed.index("  train")
    assert "how often [3]" in said("ring", "--help")
    assert said("ring", "times=2") == "ding ding \n"
    assert said("ring", "times=0").startswith("musictx: times=0: expected")
    assert "bronze" in said("train", "--help")
    assert "layers: 1" in said("train", "corpus.name=peals", "model=bronze", "--cfg", "job")
    assert "peals" in said("train", "corpus.name=pearls")
