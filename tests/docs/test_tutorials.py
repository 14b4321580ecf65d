"""Tutorials, notebooks, examples and the page of HTTP: files are saved and commands run as written
there, with less training and less music, and have the output that is shown; options of the table of
training that no other test covers, and the file for SLURM."""

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
import warnings
from pathlib import Path

import pytest
import torch

import musictx
from musictx import cli, shipped
from musictx.studio.app import Studio
from musictx.studio.config import StudioConfig
from musictx.training import checkpoint
from tests import untrained
from tests.browser.served import ROOT, Served
from tests.data.helpers import write_songs
from tests.programs import run, run_python

BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
#: A listing whose first line is the name of its file.
NAMED = re.compile(r"# (\w+\.py)\n")
#: Lines of a shell, and the output that the page shows below them, if any. Commands that stand
#: indented instead need files of the reader's.
TYPED = re.compile(r"```console\n(.*?)```\n(?:(?:(?!```).)*```text\n(.*?)```)?", re.DOTALL)
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
#: Text of a cell -> what runs instead: without IPython, with fewer steps and less music.
INSTEAD = {
    "from IPython.display import Audio": "Audio = Path.read_bytes",
    'Audio("piano.wav")': 'Audio(Path("piano.wav"))',
    "STEPS = 60": "STEPS = 4",
    "seconds=8": "seconds=1",
}


def without_numbers(line: str) -> str:
    """Replace the numbers of a line and the keys of run folders."""
    line = re.sub(r"-[0-9a-f]{8}\b", "-KEY", line)
    return " ".join(re.sub(r"\d[\d.,]*", "N", line).split())


TUTORIALS = ROOT / "docs" / "tutorials"
TINY = ["model=tiny", "model.layers=1", "model.width=16", "model.context=32", "data.batch_size=2"]
TINY += ["data.validation_windows=2", "trainer.accelerator=cpu", "corpus.workers=1"]
#: Options that make a command take a second or two.
SHORTER = {
    "prepare": ["corpus.workers=1"],
    "train": ["init=null", *TINY, "trainer.max_steps=2", "callbacks=quiet"],
    "generate": ["seconds=1", "samples=2"],
    "continue": ["seconds=1"],
    "compare": ["seconds=1"],
}
#: Page -> files that its commands write.
MADE = {
    "experiment": ["multirun/**/results.csv"],
    "position-scheme": ["generated/*.mid"],
    "own-music": ["check/*.png", "runs/mine/model/model.safetensors", "generated/*.wav"],
    "first-song": ["with-bass.mid"],
}
MADE["own-music"].append("generated/song-001-continued-1-1.mid")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", MADE)
def test_the_commands_of_a_tutorial_print_what_it_shows(name, tmp_path, monkeypatch, capsys):
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "musictx" / "examples", tmp_path / "musictx" / "examples")
    shutil.copy(ROOT / "musictx" / "examples" / "ode_to_joy.mid", tmp_path / "first-song.mid")
    write_songs(tmp_path / "my_music", range(6))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for code in BLOCK.findall(page):
        Path(NAMED.match(code)[1]).write_text(code, encoding="utf-8")
    for lines, shown in TYPED.findall(page):
        for line in re.findall(r"^\$ (.+)$", lines, re.M):
            assert run_words(shlex.split(line), monkeypatch) == 0, line
        printed = {without_numbers(line) for line in capsys.readouterr().out.splitlines()}
        assert {without_numbers(line) for line in shown.splitlines()} <= printed
    assert all(list(tmp_path.glob(pattern)) for pattern in MADE[name])


def run_words(words: list[str], monkeypatch) -> int:
    """Return the exit status of a command, which may begin with environment variables. Commands of
    musictx run with the options of SHORTER."""
    with monkeypatch.context() as here:
        while re.match(r"\w+=", words[0]):
            here.setenv(*words.pop(0).split("=", 1))
        if words == ["musictx", "studio"]:
            return 0  # it would serve until Ctrl-C
        if words[0] == "musictx":
            shorter = SHORTER.get(words[1], [])
            names = {word.partition("=")[0] for word in shorter}
            return cli.main([w for w in words[1:] if w.partition("=")[0] not in names] + shorter)
        assert words[0] == "pytest"
        done = run_python("-m", "pytest", "-p", "no:cacheprovider", *words[1:])
        print(re.sub(r" in .*", "", done.stdout))
        return done.returncode


def test_names_of_buttons_in_the_tutorial_are_on_the_page():
    """All words in italics, except the name of a track, begin a text of the studio's page."""
    folder = ROOT / "musictx" / "studio" / "page"
    files = [folder / "index.html", *sorted(folder.glob("js/**/*.js"))]
    code = "".join(path.read_text("utf-8") for path in files)
    text = (TUTORIALS / "first-song.md").read_text("utf-8")
    names = " > ".join(re.findall(r"(?<!\*)\*([A-Z][^*]+)\*", text)).split(" > ")
    assert len(names) > 5
    assert {name for name in names if not re.search(f'[">]{re.escape(name)}', code)} <= {"Bass"}


@pytest.mark.slow
@pytest.mark.usefixtures("short_examples")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch):
    import matplotlib  # music21 of the extra bach brings it

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            for line, other in INSTEAD.items():
                source = source.replace(line, other)
            exec(compile(source, f"{notebook.name} {cell['id']}", "exec"), names)
    names["plt"].close("all")


@pytest.mark.slow
def test_the_exported_network_makes_music(tmp_path, monkeypatch):
    """The model is small; the export of a large one differs only in numbers."""
    small = musictx.load(untrained.saved(tmp_path / "small", layers=2, context=96))
    monkeypatch.setattr(musictx, "load", lambda name: small, raising=False)
    monkeypatch.chdir(tmp_path)
    example = ROOT / "docs" / "examples" / "export.py"
    with warnings.catch_warnings(action="ignore"):
        exec(compile(example.read_text("utf-8"), str(example), "exec"), {})
    assert (tmp_path / "piano.pt2").is_file()
    assert len(musictx.read(tmp_path / "exported.mid")) > 5


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("callbacks.mine._target_=my_module.MyCallback +callbacks.mine.option=3", "option 3"),
        ("callbacks=none logger=none", "trained 1 step"),
        ("callbacks=quiet seed=3 trainer.precision=bf16-mixed", "trained 1 step"),
        ("callbacks=quiet trainer.deterministic=true", "trained 1 step"),
        ("callbacks=quiet trainer=debug trainer.max_steps=10", "trained 10 steps"),
    ],
)
def test_options_of_the_table_work(words, printed, here, capsys):
    steps = ["trainer.max_steps=1"] * ("max_steps" not in words)
    tunes = str(write_songs(here / "tunes", range(6)))
    status = cli.main(["train", tunes, *TINY, *steps, *words.split(), "out=run"])
    torch.use_deterministic_algorithms(False)  # or it would stay so for the tests after this one
    assert status == 0
    assert printed in capsys.readouterr().out
    assert (here / "run" / "model" / "model.safetensors").is_file()
    if "logger=none" in words:
        assert {p.name for p in (here / "run").iterdir()} == {"run.yaml", "status.json", "model"}


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2 or not shutil.which("bash"), reason="two cores")
def test_the_file_for_slurm_trains_with_the_processes_of_srun(here):
    """A script in place of srun starts two processes with its environment variables."""
    write_songs(here / "tunes", range(6))
    srun = 'for r in 0 1; do SLURM_PROCID=$r SLURM_LOCALID=$r "$@" & done; wait -n; wait -n\n'
    (here / "bin").mkdir()
    for name, text in ("srun", srun), ("musictx", f'exec {sys.executable} -m musictx "$@"\n'):
        (here / "bin" / name).write_text(f"#!/bin/bash\n{text}")
        (here / "bin" / name).chmod(0o755)
    slurm = {"JOB_ID": "7", "JOB_NAME": "musictx", "NTASKS": "2", "NNODES": "1", "NODEID": "0"}
    slurm |= {"NTASKS_PER_NODE": "2", "NODELIST": "127.0.0.1", "JOB_NODELIST": "127.0.0.1"}
    environment = {f"SLURM_{name}": value for name, value in slurm.items()}
    environment |= {"PATH": f"{here / 'bin'}:{os.environ['PATH']}", "MASTER_ADDR": "127.0.0.1"}
    script = ROOT / "docs" / "slurm" / "train.sbatch"
    words = ["tunes", "corpus.shards=shards", *TINY, "callbacks=quiet", "out=run"]
    words += ["trainer.max_steps=2"]
    done = run("bash", script, *words, folder=here, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 steps of 4 x 32 tokens on 2 x cpu" in done.stdout
    assert checkpoint.read(here / "run" / "last.ckpt")["global_step"] == 2


PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")


def test_the_table_has_exactly_the_routes_of_the_studio(tmp_path):
    async def routes():
        studio = Studio(StudioConfig(folder=str(tmp_path)))
        return {f"{route.method} {plain(route.path)}" for route in studio.routes()}

    def plain(path: str) -> str:
        path = re.sub("{session:", "{id:", path)
        return re.sub(r"\{(\w+):(?:[^{}]|\{[^{}]*\})*\}", r"{\1}", path)

    documented = re.findall(r"^\| `([A-Z]+ /api/[^`?]+)(?:\?[^`]*)?`", PAGE, flags=re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == asyncio.run(routes())


@pytest.mark.slow
def test_the_examples_of_the_page_of_http_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("ode.mid").write_bytes(shipped.examples()["ode_to_joy"].read_bytes())
    studio = Served(tmp_path / "pieces").start()
    try:
        names = {"STUDIO": studio.url}
        for block in BLOCK.findall(PAGE):
            exec(compile(block, "docs/http.md", "exec"), names)
        assert names["take"]["state"] == "done"
        assert len(musictx.read("longer.mid")) == len(names["piece"]["notes"])
        assert names["piece"]["duration"] > musictx.read("ode.mid").duration
    finally:
        studio.stop()
