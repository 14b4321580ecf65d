"""The command as people meet it: help, exit statuses, lightness; streams that are full or gone; a
system without what POSIX alone has."""

from __future__ import annotations

import ast
import dataclasses
import glob
import os
import shlex
import subprocess
import sys
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from musictx import __version__, cli, midi
from musictx.cli import help
from musictx.compose import compose
from musictx.config import checks
from musictx.errors import WriteError
from musictx.notes import Score
from musictx.render import app as render


def run(*words: str, capsys) -> tuple[int, str, str]:
    status = cli.main(list(words))
    out = capsys.readouterr()
    return status, out.out, out.err


def fresh(code: str, *words: str) -> subprocess.CompletedProcess:
    """``code`` in an interpreter of its own."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_help_names_every_command_and_what_comes_with_musictx(capsys):
    status, out, _ = run("--help", capsys=capsys)
    assert status == 0
    assert all(f"  {command} " in out for command in cli.COMMANDS)
    assert run(capsys=capsys)[1] == out
    assert run("--version", capsys=capsys)[1] == f"musictx {__version__}\n"
    for command, name in (("harmonise", "ode_to_joy"), ("generate", "mozart"), ("train", "piano")):
        assert name in run(command, "--help", capsys=capsys)[1]


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_of_a_command_lists_every_option_with_its_default(command, capsys):
    status, out, _ = run(command, "--help=all", capsys=capsys)
    assert status == 0
    typed = {"begin": "from", "end": "to"} if command == "infill" else {}
    for name, field in checks.options(cli.COMMANDS[command].config):
        assert f"  {typed.get(name, name)} " in out
        assert (text := field.metadata["help"]).split()[0] in out
        assert "..." in text or all(str(c) in text for c in field.metadata["choices"]), name
    assert max(len(line) for line in out.splitlines()) <= 120
    short = run(command, "--help", capsys=capsys)[1]
    assert len(short.splitlines()) < 70
    assert "--help=all" in short
    if command == "train":  # the options of the scheme that is named
        out = run("train", "--help=all", "position=huang_local", capsys=capsys)[1]
        assert "  position.block " in out
        assert "  position.max_distance " not in out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_shows_the_defaults_that_a_command_takes(command):
    made = compose() if command == "train" else cli.COMMANDS[command].config()
    spoken = cli.COMMANDS[command].aliases()
    for shown, field in help._options(command, "huang"):
        # A choice of files, which help lists; what help says in words, since it hangs on init=.
        if shown not in ("callbacks", "logger", "model.dropout"):
            value = reduce(getattr, spoken.get(shown, shown).split("."), made)
            factory = field.default_factory
            default = field.default if factory is dataclasses.MISSING else factory()
            assert value == default, shown
    if command == "train":
        assert made.position.name == "huang"  # relative attention, not a plain transformer


@pytest.mark.parametrize("example", [e for c in cli.COMMANDS.values() for e in c.examples])
def test_the_examples_in_the_help_run(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("midi/x", "more/x", "my_pieces/x", "runs/bach-1a2b3c4d/model/x"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("melody.mid", "tune.mid", "song.mid"):
        (tmp_path / name).touch()
    ran = []
    monkeypatch.setattr(cli, "_run", lambda command, config: ran.append(command))
    words = [w for word in shlex.split(example)[1:] for w in (glob.glob(word) or [word])]
    assert cli.main(words) == 0
    assert set(ran) == {{"continue": "generate"}.get(words[0], words[0])}


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("compose", "compose: musictx generate"),
        ("harmonize x.mid", "harmonize: musictx harmonise"),
        ("help compose", "compose: musictx generate"),
        ("gui", "gui: musictx studio"),
        ("convert x.mid", "convert: musictx render"),
        ("train --seed 5", "--seed: seed=5"),
        ("train --model=tiny", "--model=tiny: model=ti"),
        ("train -x", "-x: --help"),
        ("train --cfg=some", "--cfg=some: job"),
        ("train --config-dir nowhere", "--config-dir=nowhere:"),
        ("train --config-dir", "--config-dir:"),
        ("generate --cfg=all", "--cfg=all: job"),
        ("generate -m seed=1,2", "--multirun: train"),
        ("generate -m", "samples=N"),
        ("generate seed=1,2", "seed=1,2:"),
        ("doctor ~seed", "~seed: name=value"),
    ],
)
def test_a_mistake_exits_with_2_and_one_sentence(typed, parts, capsys):
    status, out, err = run(*typed.split(), capsys=capsys)
    assert status == 2
    assert out == ""
    assert all(part in err for part in parts.split()), err
    assert err.startswith("musictx: ")
    assert err.count("\n") == 1


def test_cfg_prints_the_configuration_and_runs_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "_run", lambda *_: pytest.fail("ran"))
    (tmp_path / "a b.mid").touch()
    monkeypatch.chdir(tmp_path)
    for flag in (["--cfg"], ["-c", "job"], ["--cfg", "all"]):
        _, out, _ = run("train", *flag, "seed=7", "corpus.path=a b.mid", capsys=capsys)
        assert "seed: 7" in out
        assert "path: a b.mid" in out
        assert ("sweeper:" in out) == ("all" in flag)
        if "all" not in flag:  # there is no Hydra in other commands
            _, out, _ = run("generate", *flag, "seed=7", "primer=a b.mid", capsys=capsys)
            assert yaml.safe_load(out)["primer"] == "a b.mid"
    assert "seed:" not in run("train", "--cfg", "hydra", capsys=capsys)[1]


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), 130), (SystemExit(143), 143), (WriteError("x.wav: no space left"), 1)],
)
def test_the_status_says_how_a_command_ended(error, status, monkeypatch, capsys):
    def fail(*_):
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    assert cli.main(["render", "x.mid"]) == status
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setattr(cli, "_run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # a fault of ours shows itself
        cli.main(["render", "x.mid"])


@pytest.mark.parametrize(
    "allocate",
    [lambda _: bytearray(2**62), lambda _: np.zeros(2**57), lambda _: torch.zeros(2**57)],
)
def test_too_little_memory_is_one_sentence(allocate, monkeypatch, capsys):
    monkeypatch.setattr(render, "run", allocate)
    assert cli.main(["render", "x.mid"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("musictx: not enough memory;")
    assert err.count("\n") == 1


def test_import_and_help_stay_light():
    """Neither import nor help loads anything heavy, and Hydra composes train alone."""
    done = fresh(
        "import sys, musictx, musictx.cli\n"
        "assert musictx.cli.main(['train', '--help']) == 0\n"
        "heavy = {'torch', 'pytorch_lightning', 'hydra', 'triton', 'matplotlib', 'aiohttp',"
        " 'symusic', 'pretty_midi', 'mido', 'PIL', 'miditok', 'music21'} & set(sys.modules)\n"
        "if heavy: sys.exit(f'loaded {heavy}')\n"
        "for command in sys.argv[1:]:\n"
        "    assert musictx.cli.main([command, '--cfg', 'job']) == 0\n"
        "    if 'hydra' in sys.modules: sys.exit(command)",
        *sorted(cli.COMMANDS, key=lambda command: command == "train"),
    )
    assert done.stderr == "train\n"


def test_without_the_extras_doctor_has_its_page_and_commands_say_what_to_install():
    done = fresh(
        "import sys\n"
        "for name in ('aiohttp', 'mcp', 'music21', 'rtmidi', 'matplotlib', 'huggingface_hub'):\n"
        "    sys.modules[name] = None\n"
        "from musictx import cli, registry\n"
        "assert all(registry.load(path)() for path in registry.CHECKS.values())\n"
        "assert [cli.main([name]) for name in ('studio', 'mcp')] == [2, 2]"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pip install 'musictx[") == 2


def test_a_command_that_loads_triton_ends_without_a_page_about_it(tmp_path):
    pytest.importorskip("triton", reason="Triton is not installed")
    done = fresh(
        "import sys, types, triton, musictx.cli\n"
        "app = types.ModuleType('musictx.apps.generate')\n"
        "app.run = lambda config: print('ran')\n"
        "sys.modules[app.__name__] = app\n"
        f"sys.exit(musictx.cli.main(['generate', 'out={tmp_path}/x.mid']))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


ABSENT = "hydra mido symusic pretty_midi miditok music21"
LEAN = """
musictx.config musictx.tokens.build musictx.data.shards musictx.data.windows musictx.data.draw
musictx.data.module musictx.model.transformer musictx.speed.fused musictx.bundle
musictx.likelihood musictx.data.statistics musictx.sampling.composer
musictx.training.lit musictx.training.callbacks musictx.training.checkpoint musictx.apps.train
"""


def test_training_and_measuring_need_no_hydra_and_no_midi_library():
    done = fresh(f"""
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
""")
    assert done.returncode == 0, done.stderr


ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COMMAND = f"{sys.executable} -m musictx render tune.mid out=x.png"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    midi.write(Score([(0.0, 1.0, 60, 80, 0, False, 0)]), tmp_path / "tune.mid")
    return tmp_path


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("streams", [">/dev/full", ">&- 2>&- <&-", "| true"])
def test_the_file_is_written_whatever_becomes_of_what_is_printed(folder, streams) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} {streams}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert (folder / "x.png").stat().st_size > 100
    assert done.stderr == ""


def test_a_mistake_keeps_its_status_where_nobody_listens(folder) -> None:
    done = subprocess.run(["bash", "-c", f"{COMMAND} wrong=1 2>&-"], cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 2


#: What Windows lacks, but for signals that Lightning asks for by the name of the system.
MODULES = "fcntl grp posix pwd pty resource syslog termios tty"
FUNCTIONS = "fork getuid geteuid getpgid killpg setsid mkfifo getloadavg sched_getaffinity"
SIGNALS = "SIGALRM SIGQUIT setitimer alarm"
PROGRAM = f"""
import importlib, os, pkgutil, shutil, signal, subprocess, sys
import ctypes, multiprocessing, selectors, socket, tempfile, torch, pytorch_lightning, hydra
for name in {FUNCTIONS.split()!r}:
    if hasattr(os, name):
        delattr(os, name)
for name in {SIGNALS.split()!r}:
    if hasattr(signal, name):
        delattr(signal, name)
for name in {MODULES.split()!r}:
    sys.modules[name] = None
import musictx
from musictx import cli
for module in pkgutil.walk_packages(musictx.__path__, "musictx."):
    kernel = module.name.startswith("musictx.speed.fused.")
    if not kernel and module.name != "musictx.__main__":
        importlib.import_module(module.name)
musictx.apps.doctor.SECONDS = 0.1
for words in (
    ["--help"],
    ["chords", "ode_to_joy"],
    ["prepare", "midi", "corpus.workers=1", "tokenizer=notes"],
    ["train", "midi", "model=tiny", "trainer.max_steps=1", "out=run", "data.num_workers=0",
     "callbacks=quiet", "data.batch_size=1", "tokenizer=notes"],
    ["generate", "model=run/model", "seconds=1", "out=made.mid", "render=true"],
    ["accompany", "ode_to_joy", "model=song", "out=band.mid"],
    ["evaluate", "model=run/model", "corpus.path=midi"],
    ["doctor"],
):
    assert cli.main(words) == 0, words
"""


@pytest.mark.slow
def test_the_command_line_works_without_the_modules_of_posix(tmp_path):
    (tmp_path / "midi").mkdir()
    examples = ROOT / "musictx/examples"
    for n, tune in enumerate(("ode_to_joy", "frere_jacques", "au_clair_de_la_lune")):
        (tmp_path / f"midi/{n}.mid").write_bytes((examples / f"{tune}.mid").read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def test_modules_of_posix_are_imported_where_their_absence_is_met():
    """In a ``try``: never at the top of a module."""
    for path in (ROOT / "musictx").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [n.name for n in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not set(names) & set(MODULES.split()), path
