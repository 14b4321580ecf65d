"""Training from the page, with a process that only writes what a training writes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from musictx import shipped
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused
from musictx.studio.training import Trainings
from tests.browser.served import wait_for

#: What stands in for ``musictx train corpus.path=FOLDER out=RUN``: a row of losses every moment, a
#: sample and a model with the second; it ends by SIGTERM as training does, or after 500 steps.
TRAIN = """
import json, pathlib, shutil, signal, sys, time
corpus, out = (word.partition("=")[2] for word in sys.argv[2:])
if pathlib.Path(corpus, "refuse").exists():
    sys.exit("corpus.path=" + corpus + ": all 3 files are damaged")
run = pathlib.Path(out)
(run / "samples").mkdir(parents=True, exist_ok=True)
(run / ".lock").write_text("process " + str(__import__("os").getpid()) + " on here")
status = run / "status.json"
step = json.loads(status.read_text())["step"] if status.exists() else 0
def keep(finished):
    status.write_text(json.dumps({"step": step, "seconds": 1.0, "finished": finished}))
def leave(*_):
    keep(False)
    sys.exit(143)
signal.signal(signal.SIGTERM, leave)
table = run / "metrics.csv"
if not table.exists():
    table.write_text("step,train/loss,val/loss,lr\\n")
while step < (500 if not pathlib.Path(corpus, "short").exists() else 3):
    step += 1
    with table.open("a") as rows:
        print(step, 3 - step / 1000, 2.5 if step == 2 else "", 0.1, sep=",", file=rows)
    if step == 2:
        example = next(pathlib.Path(corpus).rglob("*.mid"))
        shutil.copy(example, run / "samples" / "step-000002.mid")
        (run / "model").mkdir(exist_ok=True)
        (run / "model" / "config.json").write_text("")
    time.sleep(0.01)
keep(True)
"""


@pytest.fixture
def music(tmp_path) -> Path:
    """A folder with two pieces that keep to their beats, one that is played, and something else."""
    folder = tmp_path / "my midi (live), 2"
    (folder / "more").mkdir(parents=True)
    for name in ("ode_to_joy", "frere_jacques"):
        shutil.copy(shipped.examples()[name], folder / "more" / f"{name}.mid")
    shutil.copy(shipped.examples()["mozart_k545"], folder / "mozart.mid")
    (folder / "notes.txt").write_text("no music")
    (folder / "broken.mid").write_bytes(b"no music either")
    return folder


SCRIPTED = (sys.executable, "-c", TRAIN)


def made(tmp_path, **options) -> Trainings:
    return Trainings(StudioConfig(folder=str(tmp_path / "studio"), **options), SCRIPTED)


def test_what_is_no_folder_of_music_is_said(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "x.mid").write_bytes(b"none")
    for typed, sentence in (
        *((none, "folder: expected") for none in (None, "a\0b", "x" * 2000)),
        ("/no/such/folder", "/no/such/folder: there is no such folder"),
        (f"{tmp_path}/damaged/x.mid", "there is no such folder"),
        (f"{tmp_path}/damaged", "none of the files"),
    ):
        with pytest.raises(Refused, match=sentence):
            made(tmp_path).look(typed)
    (tmp_path / "damaged" / "x.mid").unlink()
    with pytest.raises(Refused, match="there is no MIDI or MusicXML file"):
        made(tmp_path).look(f"{tmp_path}/damaged")
    for host in ("0.0.0.0", "::", "192.168.1.5"):  # a studio for other machines reads no folders
        one = made(tmp_path, host=host)
        for ask in (one.look, one.start):
            with pytest.raises(Refused, match="other machines cannot reach"):
                ask(str(tmp_path))


def test_a_training_is_stopped_gone_on_with_and_finished(tmp_path, music):
    one = made(tmp_path)
    assert one.json() == {"state": "none"}
    with pytest.raises(Refused, match="no model yet"):
        one.model()
    assert one.start(str(music))["state"] == "training"
    with pytest.raises(Refused, match="under way already"):
        one.start(str(music))
    wait_for(lambda: one.json()["step"] > 4)
    one.stop()
    wait_for(lambda: one.json()["state"] == "stopped")
    state = one.json()
    assert state["rows"][1] == (2, 2.998, 2.5)
    assert state["samples"] == [2]
    score, name = one.sample(2)
    assert (len(score) > 0, name) == (True, "after step 2")
    with pytest.raises(Refused, match="no sample of step 3"):
        one.sample(3)
    assert one.models() == {state["model"]: one.model()}

    again = made(tmp_path)  # a studio that was started anew
    assert again.json() == state
    again.start(str(music))
    wait_for(lambda: again.json()["step"] > state["step"])
    kept = made(tmp_path)  # and one that was killed while its training went on
    assert kept.json()["state"] == "training"
    kept.stop()
    wait_for(lambda: again.json()["state"] == "stopped")
    assert kept.json()["state"] == "stopped"
    (music / "short").touch()
    again.start(str(music))
    wait_for(lambda: again.json()["state"] == "finished")


def test_a_training_that_fails_says_why_and_one_ends_with_its_studio(tmp_path, music):
    one = made(tmp_path)
    (music / "refuse").touch()
    one.start(str(music))
    wait_for(lambda: one.json()["state"] == "failed")
    assert one.json()["error"] == f"corpus.path={music}: all 3 files are damaged"
    (music / "refuse").unlink()
    one.start(str(music))
    wait_for(lambda: one.json()["rows"])
    one.close()
    assert one.json()["state"] == "stopped"
    pid = json.loads((tmp_path / "studio" / "training" / "current.json").read_text())["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
