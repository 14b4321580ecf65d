"""The core works without any optional component, and what the registry names exists."""

import shutil
import tomllib

import pytest

from musictx import registry
from musictx.commands import ALL_COMMANDS
from musictx.sampling.idiom import idiom_of
from musictx.tokens.build import build
from tests.programs import ROOT, run_python

NAMES = ["chorale", "evaluate", "live", "mcp", "render", "musicxml", "songs", "speed", "studio"]
#: The tables of the registry.
TABLES = {name: table for name, table in vars(registry).items() if isinstance(table, dict)}
TABLES = {name: table for name, table in TABLES.items() if name.isupper()}
#: For each folder in its arguments, the program imports the package there, which lacks the
#: components in the name of the folder, and prints help. In the last one, without any component, it
#: also composes, prepares a corpus, trains one step and computes a likelihood.
PROGRAM = """
import contextlib, importlib, io, os, pathlib, pkgutil, sys
import hydra, pytorch_lightning, torch  # once for all folders, since they take seconds

for folder in map(pathlib.Path, sys.argv[1:]):
    if os.fork() == 0:
        break
    _, status = os.wait()
    if status:
        sys.exit("without " + folder.name)
else:
    sys.exit()
sys.path.insert(0, str(folder))
# What pip install -e adds would find the components that the folder lacks in the checkout.
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder)]
import musictx
assert musictx.__file__.startswith(str(folder))
missing, components = (set(x.split("-")) for x in (folder.name, sys.argv[-1].rpartition("/")[2]))
from musictx import cli, formats, registry, shipped
from musictx.notes import Score

for table in (table for table in vars(registry).values() if isinstance(table, dict)):
    if table is not registry.__builtins__:
        assert not missing & {path.split(".")[1] for path in table.values()}, table
assert not missing & {command.run.split(".")[1] for command in cli.COMMANDS.values()}
gpu = "musictx.speed.fused"  # it needs Triton
for module in pkgutil.walk_packages(musictx.__path__, "musictx."):
    name = module.name
    if not name.startswith(gpu) and not name.endswith("__main__"):
        if name.split(".")[1] not in components:
            importlib.import_module(name)

def run(*words):
    assert cli.main(words) == 0, words

def refused(*words):
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        assert cli.main(words) == 2, words
    (line,) = errors.getvalue().splitlines()
    return line.removeprefix("musictx: ")

def music_without_bars():
    # The piano model continues music on beats too; it refuses a form and chords in a sentence.
    notes = [(n / 2, n / 2 + 0.4, 60 + n * 5 % 12, 80, 0, False, 0) for n in range(8)]
    formats.write(Score(notes), "tune.mid")
    piano = ("model=piano", "device=cpu", "seed=1", "out=music")
    assert shipped.default_model(in_bars=True).name == "piano"
    run("generate", *piano, "seconds=0.5")
    run("continue", "tune.mid", *piano, "seconds=0.5")
    run("infill", "tune.mid", "from=2s", "to=2.5s", *piano)
    run("accompany", "tune.mid", *piano)
    assert "counts no bars" in refused("generate", *piano, "form=AABA")
    line = refused("accompany", "tune.mid", *piano, "chords=| C | G |")
    assert line == "chords: expected the folder musictx/songs, which is missing", line
    assert "no such command" in refused("chords", "tune.mid")
    assert "expected one of" in refused("train", "midi", "tokenizer=notes")

run("--help")
for command in cli.COMMANDS:
    run(command, "--help=all")
if missing != components:
    sys.exit()
music_without_bars()
for number in range(6):
    notes = [(n / 4, n / 4 + 0.2, 60 + (n * number) % 12, 80, 0, False, 0) for n in range(90)]
    formats.write(Score(notes), f"midi/{number}.mid")
corpus = ("midi", "corpus.shards=shards", "corpus.workers=1")
run("prepare", *corpus)
tiny = ("model=tiny", "model.layers=1", "model.width=16", "model.context=32", "data.batch_size=2")
run("train", *corpus, *tiny, "trainer.max_steps=1", "trainer.accelerator=cpu", "out=run",
    "data.validation_windows=2", "callbacks=quiet", "data.num_workers=0")
run("generate", "midi/1.mid", "model=run", "tokens=20", "out=music", "device=cpu", "seed=1")
assert musictx.log_likelihood("run", "midi/1.mid").total > 0
assert "no such command" in refused("evaluate", "model=run")
try:
    musictx.write(formats.read("midi/1.mid"), "x.wav")
except musictx.UserError as error:
    assert str(error) == "x.wav: cannot write .wav; use .mid or .midi", error
pathlib.Path("x.musicxml").write_text("<score-partwise/>")
assert "expected the folder musictx/musicxml" in refused("generate", "x.musicxml", "model=run")
assert cli.main(("generate", "model=run", "tokens=9", "render=true", "out=sound")) == 2
assert not pathlib.Path("sound").exists() and not pathlib.Path("x.wav").exists()
"""


def test_what_the_registry_and_the_commands_name_exists():
    paths = {path for table in TABLES.values() for path in table.values()}
    paths |= {path for command in ALL_COMMANDS for path in (command.options, command.run)}
    paths |= {idiom_of(build(name)).infill for name in ("performance", *registry.TOKENIZERS)}
    parts = {path.partition(":")[0].split(".")[1] for path in paths}
    assert parts - {"apps", "commands", "config"} == {*NAMES}
    assert all(registry.load(path) is not None for path in paths)
    assert all(folder.is_dir() for folder in (*registry.CONF, *registry.MODELS))


def test_the_import_contracts_keep_components_above_the_core():
    """``lint-imports`` keeps the core from importing what it works without: components lie in upper
    layers, and of the layers above them only the command line is core."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers, command_line = contracts["contracts"][:2]
    upper = [name.strip() for layer in layers["layers"] for name in layer.split("|")]
    upper = upper[: 2 + len(NAMES)]
    assert {*upper} == {"__main__", "cli", *NAMES}
    assert command_line["source_modules"] == ["musictx.__main__", "musictx.cli"]
    assert {*command_line["forbidden_modules"]} == {f"musictx.{name}" for name in NAMES}


@pytest.mark.slow
def test_the_core_works_without_components(tmp_path):
    folders = [tmp_path / "-".join(names) for names in (NAMES[::2], NAMES[1::2], NAMES)]
    for folder in folders:
        skipped = shutil.ignore_patterns("__pycache__", "page", *folder.name.split("-"))
        shutil.copytree(ROOT / "musictx", folder / "musictx", ignore=skipped)
        shutil.copytree(ROOT / "conf", folder / "conf")
    (tmp_path / "here" / "midi").mkdir(parents=True)
    environment = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    done = run_python("-c", PROGRAM, *folders, folder=tmp_path / "here", **environment)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
