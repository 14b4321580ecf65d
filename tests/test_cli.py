"""The command as people meet it: help, exit statuses, lightness."""

import glob
import re
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


def raiser(error):
    def raising(*_):
        raise error

    return raising


def run(*words: str, capsys) -> tuple[int, str, str]:
    status = cli.main(list(words))
    out = capsys.readouterr()
    return status, out.out, out.err


def test_help_names_every_command(capsys):
    status, out, _ = run("--help", capsys=capsys)
    assert status == 0
    for command in cli.COMMANDS:
        assert f"  {command} " in out
    assert run(capsys=capsys)[1] == out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_of_a_command_lists_every_option_with_its_default(command, capsys):
    status, out, _ = run(command, "--help=all", capsys=capsys)
    assert status == 0
    spoken = {"begin": "from", "end": "to"} if command == "infill" else {}
    for name, field in checks.options(cli.COMMANDS[command].config):
        assert f"  {spoken.get(name, name)} " in out
        assert (told := field.metadata["help"]).split()[0] in out
        assert "..." in told or all(str(c) in told for c in field.metadata["choices"]), name
    assert max(len(line) for line in out.splitlines()) <= 120
    short = run(command, "--help", capsys=capsys)[1]
    assert len(short.splitlines()) < 70
    assert "--help=all" in short


def test_the_short_help_of_train_has_a_dozen_options(capsys):
    out = run("train", "--help", capsys=capsys)[1]
    shown = out.partition("\noptions:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  (\S+) ", shown, re.MULTILINE)
    assert 7 <= len(names) <= 14
    assert {"corpus.path", "init", "out", "seed", "optim.lr"} <= set(names)


def test_help_shows_the_options_of_the_scheme_that_is_named(capsys):
    out = run("train", "--help=all", "position=huang_local", capsys=capsys)[1]
    assert "  position.block " in out
    assert "  position.max_distance " not in out


def test_help_names_what_comes_with_musictx(capsys):
    assert "ode_to_joy" in run("harmonise", "--help", capsys=capsys)[1]
    assert "mozart_k545" in run("generate", "--help", capsys=capsys)[1]
    assert "piano" in run("train", "--help", capsys=capsys)[1]


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
    assert set(ran) == {words[0]}


def test_version(capsys):
    assert run("--version", capsys=capsys)[1] == f"musictx {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["compose"], "compose: no such command; did you mean musictx generate?"),
        (["harmonize", "x.mid"], "harmonize: no such command; did you mean musictx harmonise?"),
        (["help", "compose"], "compose: no such command; did you mean musictx generate?"),
        (["gui"], "gui: no such command; did you mean musictx studio?"),
        (["convert", "x.mid"], "convert: no such command; did you mean musictx render?"),
        (["train", "--seed", "5"], "--seed: options are written name=value; write seed=5"),
        (["train", "--model=tiny"], "--model=tiny: options are written name=value; write model=ti"),
        (["train", "-x"], "-x: no such flag; the flags are --help, --cfg"),
        (["train", "--cfg", "-m"], "--cfg --multirun: expected only one of them"),
        (["train", "--cfg=some"], "--cfg=some: expected one of job, hydra, all"),
        (["train", "--config-dir", "nowhere"], "--config-dir=nowhere: no such folder"),
        (["train", "--config-dir"], "--config-dir: expected a value"),
        (
            ["generate", "--cfg=all"],
            "--cfg=all: expected job; Hydra has no part in musictx generate",
        ),
        (["generate", "-m", "seed=1,2"], "--multirun: a flag of musictx train"),
        (["generate", "-m"], "samples=N writes several pieces"),
        (["generate", "seed=1,2"], "seed=1,2: expected a whole number or null, one value alone"),
        (["doctor", "~seed"], "~seed: expected name=value"),
        (["train", "--resolve"], "--resolve: has an effect only with --cfg"),
    ],
)
def test_a_mistake_exits_with_2_and_one_sentence(words, sentence, capsys):
    status, out, err = run(*words, capsys=capsys)
    assert status == 2
    assert out == ""
    assert sentence in err
    assert err.startswith("musictx: ")
    assert err.count("\n") == 1


def test_cfg_prints_the_configuration_and_runs_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "_run", lambda *_: pytest.fail("ran"))
    (tmp_path / "a b.mid").touch()
    monkeypatch.chdir(tmp_path)
    for flag in (["--cfg"], ["--cfg", "job"], ["-c", "all"]):
        status, out, _ = run("train", *flag, "seed=7", "corpus.path=a b.mid", capsys=capsys)
        assert status == 0
        assert "seed: 7" in out
        assert "path: a b.mid" in out
        assert ("sweeper:" in out) == ("all" in flag)
    for flag in (["--cfg"], ["-c", "job"]):
        status, out, _ = run("generate", *flag, "seed=7", "primer=a b.mid", capsys=capsys)
        assert status == 0
        assert yaml.safe_load(out)["primer"] == "a b.mid"
    status, out, _ = run("train", "--cfg", "hydra", capsys=capsys)
    assert (status, "seed:" in out) == (0, False)
    status, out, _ = run("train", "--cfg", "--package", "model", "model=tiny", capsys=capsys)
    assert out.splitlines()[:2] == ["# @package model", "layers: 4"]
    assert run("train", "--cfg", "--package", "nothing", capsys=capsys)[0] == 2


def test_control_c_exits_with_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["render", "x.mid"]) == 130
    monkeypatch.setattr(cli, "_run", raiser(WriteError("x.wav: no space left")))
    assert cli.main(["render", "x.mid"]) == 1
    monkeypatch.setattr(cli, "_run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # a fault of ours shows itself
        cli.main(["render", "x.mid"])
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "allocate",
    [lambda _: bytearray(2**62), lambda _: np.zeros(2**57), lambda _: torch.zeros(2**57)],
)
def test_too_little_memory_is_one_sentence(allocate, monkeypatch, capsys):
    monkeypatch.setattr(render, "run", allocate)
    assert cli.main(["render", "x.mid"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("musictx: not enough memory;")
    assert said.count("\n") == 1


def test_import_and_help_stay_light():
    """A fresh interpreter: neither import nor help may load anything heavy."""
    code = (
        "import sys, musictx, musictx.cli\n"
        "assert musictx.cli.main(['train', '--help']) == 0\n"
        "heavy = {'torch', 'pytorch_lightning', 'hydra', 'triton', 'matplotlib', 'aiohttp',"
        " 'symusic', 'pretty_midi', 'mido', 'PIL', 'miditok', 'music21'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_the_extras_doctor_has_its_page_and_commands_say_what_to_install():
    code = (
        "import sys\n"
        "for name in ('aiohttp', 'mcp', 'music21', 'rtmidi', 'matplotlib', 'huggingface_hub'):\n"
        "    sys.modules[name] = None\n"
        "from musictx import cli, registry\n"
        "assert all(registry.load(path)() for path in registry.CHECKS.values())\n"
        "assert [cli.main([name]) for name in ('studio', 'mcp')] == [2, 2]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pip install 'musictx[") == 2


def test_hydra_is_loaded_only_where_it_composes():
    code = (
        "import sys, musictx.cli\n"
        "for command in sys.argv[1:]:\n"
        "    assert musictx.cli.main([command, '--cfg', 'job']) == 0\n"
        "    if 'hydra' in sys.modules: sys.exit(command)"
    )
    composed = sorted(cli.COMMANDS, key=lambda command: command == "train")
    done = subprocess.run([sys.executable, "-c", code, *composed], capture_output=True, text=True)
    assert done.stderr == "train\n"


def test_a_command_that_loads_triton_ends_without_a_page_about_it(tmp_path):
    pytest.importorskip("triton", reason="Triton is not installed")
    code = (
        "import sys, types, triton, musictx.cli\n"
        "app = types.ModuleType('musictx.apps.generate')\n"
        "app.run = lambda config: print('ran')\n"
        "sys.modules[app.__name__] = app\n"
        f"sys.exit(musictx.cli.main(['generate', 'out={tmp_path}/x.mid']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_the_package_offers_its_names_lazily():
    import musictx

    assert musictx.Score.__name__ == "Score"
    assert "generate" in dir(musictx)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = musictx.nonsense
