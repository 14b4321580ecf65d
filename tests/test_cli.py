"""The command line: help, exit statuses, what it imports, output streams that are full or closed,
and a system without the modules and functions that POSIX alone has."""

import glob
import importlib.util
import os
import shlex
import shutil
import sys
from functools import reduce
from unittest.mock import Mock

import pytest
import torch
import yaml

import musictx
from musictx import __version__, cli
from musictx.apps.train import Trained
from musictx.cli import help
from musictx.config import checks
from musictx.errors import WriteError
from musictx.hydra_config import compose
from musictx.render import app as render
from tests import programs
from tests.pieces import line


def run(*words: str, capsys) -> tuple[int, str, str]:
    return cli.main(list(words)), *capsys.readouterr()


def test_help_names_every_command(capsys):
    status, out, _ = run("--help", capsys=capsys)
    assert status == 0
    assert all(f"  {command} " in out for command in cli.COMMANDS)
    assert run(capsys=capsys)[1] == out
    assert run("--version", capsys=capsys)[1] == f"musictx {__version__}\n"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_lists_every_option_with_the_default_that_the_command_takes(command, capsys):
    out = run(command, "--help=all", capsys=capsys)[1]
    assert max(len(line) for line in out.splitlines()) <= 120
    assert len(run(command, "--help", capsys=capsys)[1].splitlines()) < 70
    config = compose() if command == "train" else cli.COMMANDS[command].config()
    aliases = cli.COMMANDS[command].aliases()
    for shown, field in help._options(command, "huang"):
        assert f"  {shown} " in out
        assert field.metadata["help"]
        # The first two choose a file that help lists; the default of the third depends on init=.
        if shown not in ("callbacks", "logger", "model.dropout"):
            *groups, name = aliases.get(shown, shown).split(".")
            group = reduce(getattr, groups, config)
            value = group[name] if isinstance(group, dict) else getattr(group, name)
            assert value == checks.default_of(field), shown


@pytest.mark.parametrize("example", [e for c in cli.COMMANDS.values() for e in c.examples])
def test_the_examples_in_the_help_run(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("midi/x", "more/x", "my_pieces/x", "runs/bach-1a2b3c4d/model/x"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("melody.mid", "tune.mid", "song.mid"):
        (tmp_path / name).touch()
    ran, done = [], Trained(None, None, 0)
    monkeypatch.setattr(cli, "_run", lambda command, config: ran.append(command) or done)
    words = [w for word in shlex.split(example)[1:] for w in (glob.glob(word) or [word])]
    assert cli.main(words) == 0
    assert set(ran) == {{"continue": "generate"}.get(words[0], words[0])}


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("compose", "compose: expected generate"),
        ("harmonize x.mid", "harmonize: musictx harmonise"),
        ("contineu x.mid", "contineu: musictx continue"),
        ("continue seed=1", "primer: song.mid"),
        ("train --seed 5", "--seed: name=value"),
        ("train --model=tiny", "--model=tiny: name=value"),
        ("train --cfg=some", "--cfg: 'some' 'job'"),
        ("train --config-dir nowhere", "--config-dir=nowhere:"),
        ("train --config-dir", "--config-dir: expected"),
        ("generate --cfg=all", "--cfg: 'all' 'job'"),
        ("generate -m seed=1,2", "-m: generate"),
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
    out = run("train", "--cfg", "all", "seed=7", "corpus.path=a b.mid", capsys=capsys)[1]
    assert all(text in out for text in ("seed: 7", "path: a b.mid", "sweeper:"))
    out = run("generate", "-c", "job", "primer=a b.mid", capsys=capsys)[1]
    assert yaml.safe_load(out)["primer"] == "a b.mid"


@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(143), 143, ""),
        (WriteError("x.wav: no space left"), 1, "x.wav: no space left"),
        (lambda _: bytearray(2**62), 1, "not enough memory;"),
        (lambda _: torch.zeros(2**57), 1, "not enough memory;"),
    ],
)
def test_the_status_says_how_a_command_ended(fault, status, line, monkeypatch, capsys):
    monkeypatch.setattr(render, "run", Mock(side_effect=fault))
    assert cli.main(["render", "x.mid"]) == status
    err = capsys.readouterr().err
    assert err.count("\n") <= 1
    assert line in err
    monkeypatch.setattr(render, "run", lambda config: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # an error of the program is not hidden
        cli.main(["render", "x.mid"])


def test_import_and_help_stay_light():
    """Import and help load no heavy package, and Hydra composes train alone."""
    done = programs.run_python(
        "-c",
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


def test_without_the_extras_doctor_checks_and_commands_name_what_to_install():
    done = programs.run_python(
        "-c",
        "import sys\n"
        "for name in ('aiohttp', 'mcp', 'music21', 'rtmidi', 'matplotlib', 'huggingface_hub'):\n"
        "    sys.modules[name] = None\n"
        "from musictx import cli, registry\n"
        "assert all(registry.load(path)() for path in registry.CHECKS.values())\n"
        "assert [cli.main([name]) for name in ('studio', 'mcp')] == [2, 2]",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pip install 'musictx[") == 2


COMMAND = f"PYTHONIOENCODING=ascii {sys.executable} -m musictx render tune.mid out=♪.png"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("streams", "status"),
    [(">log", 0), (">/dev/full", 0), (">&- 2>&- <&-", 0), ("| true", 0), ("wrong=1 2>&-", 2)],
)
def test_a_file_is_written_whatever_the_output_streams_accept(tmp_path, streams, status):
    musictx.write(line(60), tmp_path / "tune.mid")
    shell_line = f"{COMMAND} {streams}; exit ${{PIPESTATUS[0]}}"
    done = programs.run("bash", "-c", shell_line, folder=tmp_path)
    assert (done.returncode, done.stderr) == (status, "")
    assert (tmp_path / "♪.png").is_file() == (status == 0)


#: What Windows lacks, except signals that Lightning uses unless the system is named Windows.
MODULES = "fcntl grp posix pwd pty resource syslog termios tty"
FUNCTIONS = "fork getuid geteuid getpgid killpg setsid mkfifo getloadavg sched_getaffinity"
SIGNALS = "SIGALRM SIGQUIT setitimer alarm"
PROGRAM = f"""
import importlib, os, pkgutil, shutil, signal, subprocess, sys
import ctypes, filelock, multiprocessing, selectors, socket, tempfile
import torch, pytorch_lightning, hydra
for name in {FUNCTIONS.split()!r}:
    vars(os).pop(name, None)
for name in {SIGNALS.split()!r}:
    vars(signal).pop(name, None)
for name in {MODULES.split()!r}:
    sys.modules[name] = None
import musictx
from musictx import cli
for module in pkgutil.walk_packages(musictx.__path__, "musictx."):
    kernel = module.name.startswith("musictx.speed.fused.")
    if not kernel and module.name != "musictx.__main__":
        importlib.import_module(module.name)
musictx.apps.doctor.SECONDS = 0.1

def forbid(event, arguments):  # but not connections to files of this machine
    address = event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple)
    if address or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        print("a connection:", event, *arguments[1:], file=sys.stderr, flush=True)
        os._exit(99)

sys.addaudithook(forbid)
for words in (
    ["--help"],
    ["chords", "ode_to_joy"],
    ["prepare", "midi", "corpus.workers=1", "tokenizer=notes"],
    ["train", "midi", "model=tiny", "trainer.max_steps=1", "out=run", "data.num_workers=0",
     "callbacks=quiet", "data.batch_size=1", "tokenizer=notes"],
    ["generate", "model=run/model", "seconds=1", "out=made.mid", "render=true"],
    ["generate", "seconds=1", "seed=1"],
    ["infill", "ode_to_joy", "from=3", "to=3", "seed=1"],
    ["accompany", "ode_to_joy", "model=song", "out=band.mid"],
    ["evaluate", "model=run/model", "corpus.path=midi"],
    ["doctor"],
):
    assert cli.main(words) == 0, words
cli.main(["generate", "model=hf:nobody/nothing", "seconds=1"])
"""


@pytest.mark.slow
def test_the_command_line_works_without_the_modules_of_posix_and_without_connections(tmp_path):
    """No command connects to another machine unless one is named (docs/reliability.md); the last
    line shows that a connection would be noticed."""
    shutil.copytree(programs.ROOT / "musictx" / "examples", tmp_path / "midi")
    done = programs.run_python("-c", PROGRAM, folder=tmp_path)
    connects = importlib.util.find_spec("huggingface_hub") is not None
    expected = (99, True) if connects else (0, False)
    output = done.stdout[-1000:] + done.stderr[-3000:]
    assert (done.returncode, "a connection" in done.stderr) == expected, output
