"""Hydra composes the options of train: every file of conf/, the model that training on a folder
begins with, Hydra's command-line syntax, YAML files of the user, sweeps."""

import dataclasses
import itertools
import os
import re
import shutil
import string
import sys
from pathlib import Path

import hydra
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx import bundle, cli, formats, options
from musictx import hydra_config as c
from musictx.apps.train import Trained
from musictx.commands import conf_dir, groups
from musictx.config import SamplingConfig
from musictx.config.position import HuangConfig
from musictx.errors import UserError
from musictx.hydra_config import finetuning
from musictx.hydra_config.overrides import normalise, quote, split
from musictx.notes import Score
from musictx.tokens.build import build


def files_of_conf():
    """Return command lines that together name every file of conf/ but experiments, which
    tests/e2e/test_recipes.py trains: each has a file of every group."""
    every = {name: choices for name, choices in groups("train").items() if name != "experiment"}
    words = ([f"{group}={choice}" for choice in choices] for group, choices in every.items())
    return [[*filter(None, row)] for row in itertools.zip_longest(*words)]


@pytest.mark.parametrize("named", files_of_conf(), ids=" ".join)
def test_every_file_under_conf_composes_and_only_sets_declared_options(named):
    c.compose(named)


@pytest.mark.slow
@settings(max_examples=8)
@given(st.text(st.sampled_from(string.printable.strip() + " "), min_size=1, max_size=12))
def test_any_printable_file_name_survives(name):
    prefixed = "d/" + name.replace("${", "$")  # which is the value of an option
    assert c.compose([f"out={prefixed}"]).out == prefixed
    quoted = ",".join(map(quote, split(prefixed)))
    assert normalise([f"out={prefixed}"], sweep=True) == [f"out={quoted}"]


def corpus(folder, *programs, beats=False):
    """Write a file of eight notes for each program (None for drums), on ``beats`` or between."""
    folder.mkdir(exist_ok=True)
    for number, program in enumerate(programs):
        starts = [i if beats else i + 0.057 * (i % 3) for i in range(8)]
        rest = (80, program or 0, program is None, 0)
        notes = [(start, start + 0.5, 60 + i, *rest) for i, start in enumerate(starts)]
        formats.write(Score(notes=notes), folder / f"{number}.mid")
    return str(folder)


def prepared(word):
    """Return the tokenizer of ``musictx prepare WORD``."""
    given, _ = finetuning.prepare_options(options.parse("prepare", [word]))
    return options.make_config("prepare", given).tokenizer


def test_your_own_piano_music_begins_with_the_piano_model(tmp_path):
    path = f"corpus.path={corpus(tmp_path, 0, 1, 7, 0, 56)}"  # four of five are pianos'
    words = [path, "data.batch_size=3"]
    made = c.compose(words)
    assert (made.init, made.optim.name, made.data.batch_size) == ("piano", "muon", 3)
    assert made == c.compose([*words, "experiment=own", "init=piano"])
    assert "piano" in finetuning.train_overrides(words)[1]
    assert prepared(path).low == 21
    nothing = c.compose([*words, "init=null"])
    assert (nothing.init, nothing.optim.name) == (None, "adamw")
    for decided in ("model=tiny", "model.width=64", "tokenizer=ensemble", "corpus=maestro"):
        assert finetuning.train_overrides([*words, decided]) == ([*words, decided], None)
    assert c.compose(["corpus=bach"]).init is None
    assert "no notes" in finetuning.nearest_model(finetuning.contents_of([]))[1]


def test_music_on_beats_begins_with_the_song_model(tmp_path):
    songs = corpus(tmp_path / "songs", 0, None, 24, 24, beats=True)
    assert c.compose([f"corpus.path={songs}"]).init == "song"
    assert "song" in finetuning.train_overrides([f"corpus.path={songs}"])[1]
    tokens = prepared(f"corpus.path={songs}")
    stored = bundle.load("song").tokenizer.without_controls
    assert build(**dataclasses.asdict(tokens)).fingerprint == stored.fingerprint
    for several in ([songs], f"[{songs}]"):
        assert prepared(f"corpus.path=[{songs}]") == tokens
        assert finetuning.prepare_options({"corpus.path": several})[1] is not None
    asked = {"corpus.path": songs, "tokenizer": "performance"}
    assert finetuning.prepare_options(asked) == (asked, None)


def test_other_music_begins_with_nothing_and_a_line_gives_the_reason(tmp_path):
    band, piano = corpus(tmp_path / "a", 0, None, 24, 24), corpus(tmp_path / "b, c", 0)
    (tmp_path / "a/broken.mid").write_bytes(b"MThd")
    for words, reason in (
        ([f"corpus.path={band}"], "75 % of the notes in 4 files"),
        ([f"corpus.path=[{band},'{piano}']"], "60 % of the notes in 5 files"),  # in one training
        ([f"corpus.path={band},'{piano}'"], "60 % of the notes in 5 files"),  # in two
    ):
        given, line = finetuning.train_overrides(words)
        assert given == words
        assert reason in line
    assert finetuning.prepare_options({"corpus.path": band}) == ({"corpus.path": band}, None)


TINY = ["model=tiny", "corpus=bach"]


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Collect the configurations of commands, which do not run; the current folder is empty."""
    seen = []

    def runs(command, config):
        seen.append(config)
        seed = getattr(config, "seed", 0)
        errors = {13: UserError("seed=13: expected luck"), 14: KeyError("x")}
        errors |= {130: KeyboardInterrupt()}
        if seed in errors:
            raise errors[seed]
        return Trained(Path("runs/x/model"), 1.0 / (1 + seed), 1234)

    monkeypatch.setattr(cli, "_run", runs)
    monkeypatch.chdir(tmp_path)
    return seen


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


@pytest.fixture
def own_files():
    mine = "defaults:\n  - override /model: slim\n  - override /position: mine\nseed: 4\n"
    write("my/experiment/mine.yaml", f"# @package _global_\n{mine}optim:\n  lr: 0.5\n")
    write("my/model/slim.yaml", "layers: 1\nwidth: 8\nheads: 2\n")
    write("my/position/mine.yaml", "_target_: my_module.Mine\nradius: 3\nperiods: [4]\n")
    write("my/position/near.yaml", "defaults:\n  - huang\nmax_distance: 7\n")
    write("my/optim/mine.yaml", "_target_: m.Own\nspeed: 3\nparams:\n  betas: [0.5, 0.6]\n")
    write("my/plan.yaml", "defaults:\n  - train\n  - _self_\nseed: 9\n")
    write("my/alone.yaml", "seed: 9\n")
    Path("my/model/bytes.yaml").write_bytes(b"layers: \xff\n")
    write("my/model/number.yaml", "5\n")
    write("my/model/header.yaml", "# @package\nlayers: 1\n")
    write("my/model/wrong.yaml", "layres: 2\n")
    write("my/hparams/wide.yaml", "# @package _global_\nmodel:\n  width: 64\n")


@pytest.mark.slow
def test_yaml_and_schemes_of_ones_own_compose(ran, own_files, capsys):
    for flag in (["-cd", "my"], [f"hydra.searchpath=[file://{os.getcwd()}/my]"]):
        assert cli.main(["train", *flag, "experiment=mine", "corpus=bach"]) == 0
        assert (ran[-1].model.width, ran[-1].seed, ran[-1].optim.lr) == (8, 4, 0.5)
        assert ran[-1].position["radius"] == 3
    for words, value in (
        (["position=mine", "position.radius=5"], lambda c: c.position["radius"] == 5),
        (["position._target_=my.Own", "position.radius=5"], lambda c: c.position["radius"] == 5),
        (["position.name=my:Own", "position.radius=5"], lambda c: c.position["radius"] == 5),
        (["position=near", "position.shared=true"],
         lambda c: c.position == dataclasses.asdict(HuangConfig(max_distance=7, shared=True))),
        (["optim=mine"], lambda c: c.optim.params == {"speed": 3, "betas": [0.5, 0.6]}),
        (["+hparams=wide"], lambda c: c.model.width == 64),
        (["--config-name", "plan"], lambda c: c.seed == 9),
    ):  # fmt: skip
        assert cli.main(["train", "-cd", "my", *words, *TINY]) == 0
        assert value(ran[-1]), words
    os.mkdir("midi")  # for which experiment=own is the default, without a file of the user
    assert cli.main(["train", "-cd", "my", "--config-name", "plan", "corpus.path=midi"]) == 0
    assert ran[-1].init is None
    for words, name in {
        "--config-name alone": "train among its defaults",
        "--config-name nothing": "'nothing'",
        "model=wrong": "model.layres: ",
        "model=slimm": "model=slimm",
        "model=bytes": "'utf-8' codec",
        "model=number": "Invalid loaded object",
        "model=header": "Expected header",
        "position.radius=2": "position.radius:",
        "position=mine position.radius=[1": "position.radius=[1",
        "position=my:Own": "position.name=my:Own",
        "position=mine,near": "; add -m",
    }.items():
        corpus = ["corpus=bach"] * ("alone" not in words)
        assert cli.main(["train", "-cd", "my", *corpus, *words.split()]) == 2
        err = capsys.readouterr().err
        assert name in err
        assert err.count("\n") == 1


def test_commands_without_hydra_read_presets_of_the_user(ran, own_files, capsys):
    write("my/sampling/mine.yaml", "temperature: 0.5\nlow: C2\n")
    words = ["generate", "-cd", "my", "sampling=mine", "top_p=0.3", "low=C3", "seed=1"]
    assert cli.main(words) == 0
    assert ran[0].sampling == SamplingConfig(temperature=0.5, low="C3", top_p=0.3)
    for text, name in (
        ("low: [\n", "mine.yaml"),
        ("- 5\n", "my/sampling/mine.yaml"),
        ("lowe: C2\n", "sampling.lowe"),
    ):
        write("my/sampling/mine.yaml", text)
        assert cli.main(words) == 2
        assert name in capsys.readouterr().err


def test_a_sweep_takes_words_literally_and_ends_with_a_table(ran, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("midi", "my midi (live), 2"):
        Path(name).mkdir()
    words = ["corpus.path=~/midi,'my midi (live), 2'", "seed=1,3", "optim.betas=[0.9,0.95]"]
    assert cli.main(["train", "-m", *words]) == 0
    paths = (f"{tmp_path}/midi", "my midi (live), 2")
    assert [(c.corpus.path, c.seed) for c in ran] == [(p, seed) for p in paths for seed in (1, 3)]
    assert {c.out for c in ran} == {None}  # by default in runs/
    rows = re.findall(r"^ *(0\.\d+) +(0\.\d+)?", capsys.readouterr().out, re.M)
    assert [loss for loss, _ in rows] == ["0.2500"] * 2 + ["0.5000"] * 2 + ["0.3750"] * 2
    assert [sd for _, sd in rows[4:]] == [f"{0.25 / 2**0.5:.4f}"] * 2
    (rows,) = Path("multirun").rglob("results.csv")
    head = "run,loss,steps,model,options,error\n1,0.25,1234,runs/x/model,"
    assert rows.read_text().startswith(head)


def test_out_may_have_the_values_of_options(ran, capsys):
    assert c.compose(["out=it's/${seed}-${model.width}", "model.width=64"]).out == "it's/0-64"
    assert cli.main(["train", "-m", "seed=1,2", "out=S\udcfc/${seed}", *TINY]) == 0  # no UTF-8
    assert [config.out for config in ran] == ["S\udcfc/1", "S\udcfc/2"]
    assert " 2 seeds" in capsys.readouterr().out
    with pytest.raises(UserError, match="seeds"):
        c.compose(["out=S/${seeds}"])


def test_each_run_of_a_sweep_can_have_a_folder_that_out_may_not_name(ran, capsys):
    for words, name in (
        (["-m", "hydra.sweep.dir=S", "out=there"], "both name the run folder"),
        (["hydra.run.dir=here"], "out= names the run"),
    ):
        assert cli.main(["train", *words, *TINY]) == 2
        assert name in capsys.readouterr().err
    assert not any(Path().iterdir())
    words = ["hydra.sweep.dir=S", "hydra.sweep.subdir=seed-${seed}"]
    Path("S/mine").mkdir(parents=True)  # an empty folder of the user stays
    assert cli.main(["train", "--multirun", "seed=1,2", *words, *TINY]) == 0
    assert [c.out for c in ran] == ["S/seed-1", "S/seed-2"]
    assert {path.name for path in Path("S").rglob("*")} == {"mine", "multirun.yaml", "results.csv"}


@pytest.mark.slow
def test_a_failed_run_of_a_sweep_is_reported_after_the_others(ran, capsys):
    assert cli.main(["train", "-m", "seed=13,1", *TINY]) == 2
    out, err = capsys.readouterr()
    assert err == "musictx: seed=13: expected luck (run 0 of the sweep)\n"
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["0.5000", "nan"]
    assert cli.main(["train", "-m", "seed=14,1", *TINY]) == 2
    out, err = capsys.readouterr()
    assert "KeyError: 'x'" in err
    assert "0.5000" in out
    shutil.rmtree("multirun")
    assert cli.main(["train", "-m", "model.heads=7,9", *TINY]) == 2
    assert "model.heads=7: expected a divisor" in capsys.readouterr().err
    assert not Path("multirun").exists()
    assert cli.main(["train", "-m", "seed=1,13,130", *TINY]) == 130
    assert "0.5000" in capsys.readouterr().out


def test_further_processes_of_a_run_have_the_options_of_that_run_alone(ran, monkeypatch):
    seen, done = [], Trained(None, None, 0)
    monkeypatch.setattr(cli, "_run", lambda command, config: seen.append(sys.argv[1:]) or done)
    before = list(sys.argv)
    assert cli.main(["train", "-m", "seed=1,2", "hydra.sweep.dir=S", *TINY]) == 0
    assert seen[1] == ["train", "seed=2", *TINY, "out=S/1"]
    rank = ['hydra.run.dir="."', "hydra.job.name=rank", "hydra.output_subdir=null"]
    assert cli.main(seen[1] + rank) == 0
    assert seen[2][:3] == ["train", "seed=2", "model=tiny"]
    assert sys.argv == before


def test_a_program_that_uses_hydra_itself_may_train():
    with hydra.initialize_config_dir(str(conf_dir()), version_base="1.3"):
        assert c.compose(["corpus=bach", "seed=3"]).seed == 3
        assert hydra.compose("train", ["seed=4"]).seed == 4


def test_plus_and_tilde(ran):
    assert cli.main(["train", "+seed=3", "++optim.lr=0.1", "+experiment=quick", *TINY]) == 0
    assert (ran[0].seed, ran[0].optim.lr, ran[0].model.layers) == (3, 0.1, 2)
    assert cli.main(["train", "~experiment", "+logger.mine={run_folder}/x", *TINY]) == 0
    assert cli.main(["prepare", "tokenizer.name=my:Own", "tokenizer.params.use_chords=true"]) == 0
    assert ran[-1].tokenizer.params == {"use_chords": True}
    assert cli.main(["train", "~experimnt", *TINY]) == 2
