"""Nothing of POSIX alone: the command line is whole where its modules are not."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def test_modules_of_posix_are_imported_where_their_absence_is_met():
    """In a ``try``: never at the top of a module."""
    for path in (ROOT / "musictx").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [n.name for n in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not set(names) & set(MODULES.split()), path
