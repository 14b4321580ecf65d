"""The command as people meet it: help, exit statuses, lightness."""

import glob
import shlex
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml

from musictx import __version__, cli
from musictx.config import checks
from musictx.errors import WriteError
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
