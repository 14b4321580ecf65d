"""docs/training.md: options of its table that no other test covers, and the file for SLURM."""

import os
import shutil
import sys

import pytest

from musictx import cli
from musictx.training import checkpoint
from tests import programs
from tests.data.helpers import write_songs

TINY = ["model=tiny", "model.layers=1", "model.width=16", "model.context=32", "data.batch_size=2"]
TINY += ["data.validation_windows=2", "trainer.accelerator=cpu", "corpus.workers=1"]


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
    assert cli.main(["train", tunes, *TINY, *steps, *words.split(), "out=run"]) == 0
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
    script = programs.ROOT / "docs" / "slurm" / "train.sbatch"
    words = ["tunes", "corpus.shards=shards", *TINY, "callbacks=quiet", "out=run"]
    words += ["trainer.max_steps=2"]
    done = programs.run("bash", script, *words, folder=here, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 steps of 4 x 32 tokens on 2 x cpu" in done.stdout
    assert checkpoint.read(here / "run" / "last.ckpt")["global_step"] == 2
