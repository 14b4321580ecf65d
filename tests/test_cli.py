"""The command as people meet it: help, completion, exit statuses, lightness."""

import subprocess
import sys

import pytest

from musictx import __version__, cli


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
    status, out, _ = run(command, "--help", capsys=capsys)
    assert status == 0
    for name, field in cli.options(cli.COMMANDS[command]):
        assert f"  {name} " in out
        assert field.metadata["help"].split()[0] in out
    assert max(len(line) for line in out.splitlines()) <= 120


@pytest.mark.parametrize("example", [e for _, examples in cli.ABOUT.values() for e in examples])
def test_the_examples_in_the_help_compose(example):
    _, command, *words = example.split()
    cli.compose(command, [cli._positional(command, w) for w in words])


def test_version(capsys):
    assert run("--version", capsys=capsys)[1] == f"musictx {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["compose"], "compose: no such command; expected one of prepare, train"),
        (["train", "--steps", "5"], "--steps: no such flag; options are written name=value"),
        (["train", "sed=1"], "did you mean seed?"),
        (["generate", "seed=one"], "seed=one: expected a whole number"),
        (["completion", "tcsh"], "completion tcsh: expected one of bash"),
    ],
)
def test_a_mistake_exits_with_2_and_one_sentence(words, sentence, capsys):
    status, out, err = run(*words, capsys=capsys)
    assert status == 2
    assert out == ""
    assert sentence in err
    assert err.startswith("musictx: ")
    assert err.count("\n") == 1


def test_cfg_prints_the_configuration_and_runs_nothing(capsys, monkeypatch):
    monkeypatch.setattr(cli, "_run", lambda *_: pytest.fail("ran"))
    status, out, _ = run("generate", "--cfg", "seed=7", "primer=a b.mid", capsys=capsys)
    assert status == 0
    assert "seed: 7" in out
    assert "primer: a b.mid" in out


def test_a_bare_word_is_the_file_to_render(monkeypatch):
    seen = []
    monkeypatch.setattr(cli, "_run", lambda command, config: seen.append(config.midi))
    assert cli.main(["render", "my song.mid"]) == 0
    assert seen == ["my song.mid"]


def test_control_c_exits_with_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["render", "x.mid"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_relaunched_rank_finds_its_command(monkeypatch):
    seen = []
    monkeypatch.setenv(cli.COMMAND_VARIABLE, "render")
    monkeypatch.setattr(cli, "_run", lambda command, config: seen.append(command))
    assert cli.main(["midi=x.mid"]) == 0
    assert seen == ["render"]


def test_multirun_runs_every_combination(tmp_path):
    code = (
        "import sys; from musictx import cli\n"
        "cli._run = lambda command, config: print(command, config.seed, config.model.name)\n"
        "sys.exit(cli.main(['train', '-m', 'seed=1,2', 'model=tiny,small', 'trainer=laptop']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("train")]
    assert lines == ["train 1 tiny", "train 1 small", "train 2 tiny", "train 2 small"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["musictx", "tr"], {"train"}),
        (["musictx", "train", "posit"], {"position=", "position.name="}),
        (["musictx", "train", "model=t"], {"model=tiny"}),
        (["musictx", "generate", "render="], {"render=true", "render=false"}),
        (["musictx", "generate", "sampling.te"], {"sampling.temperature="}),
        (["musictx", "completion", "z"], {"zsh"}),
        (["musictx", "nonsense", "a"], set()),
    ],
)
def test_completion(line, expected):
    found = set(cli.complete(line))
    assert expected <= found
    assert found or not expected


def test_bash_completes_through_the_script(tmp_path):
    tool = tmp_path / "musictx"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m musictx "$@"\n')
    tool.chmod(0o755)
    script = f"""
    export PATH="{tmp_path}:$PATH"
    eval "$(musictx completion bash)"
    try() {{ COMP_LINE="$1" COMP_POINT=${{#1}}; _musictx 2>/dev/null; echo "${{COMPREPLY[*]}}"; }}
    try "musictx gen"
    try "musictx train model=t"
    try "musictx "
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "generate",
        "tiny",
        "prepare train generate evaluate render completion",
    ]


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


def test_the_package_offers_its_names_lazily():
    import musictx

    assert musictx.Score.__name__ == "Score"
    assert "generate" in dir(musictx)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = musictx.nonsense
