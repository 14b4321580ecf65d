"""Training from the page, with a process that only writes the files of a training."""

import shutil
import sys
from pathlib import Path

import pytest

from musictx import shipped
from musictx.studio import training
from musictx.studio.config import StudioConfig
from musictx.studio.errors import Refused
from musictx.studio.training import Training
from tests.browser.served import wait_for

#: Stands in for ``musictx train corpus.path=FOLDER out=RUN``. Writes a row of losses every 10 ms,
#: and a sample and a model after the second; ends by SIGTERM, as training does, or after 500 steps.
TRAIN = """
import json, pathlib, shutil, signal, sys, time
corpus, out = (word.partition("=")[2] for word in sys.argv[2:])
if pathlib.Path(corpus, "refuse").exists():
    sys.exit("corpus.path=" + corpus + ": all 3 files are damaged")
run = pathlib.Path(out)
(run / "samples").mkdir(parents=True, exist_ok=True)
status = run / "status.json"
step = json.loads(status.read_text())["step"] if status.exists() else 0
def save(finished):
    status.write_text(json.dumps({"step": step, "seconds": 1.0, "finished": finished}))
def end(*_):
    save(False)
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
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
save(True)
"""


@pytest.fixture
def music(tmp_path) -> Path:
    """A folder with two files on beats, a performance, and files that are no music."""
    folder = tmp_path / "my midi (live), 2"
    (folder / "more").mkdir(parents=True)
    for name in ("ode_to_joy", "frere_jacques"):
        shutil.copy(shipped.examples()[name], folder / "more" / f"{name}.mid")
    shutil.copy(shipped.examples()["mozart_k545"], folder / "mozart.mid")
    (folder / "notes.txt").write_text("no music")
    (folder / "broken.mid").write_bytes(b"no music either")
    return folder


@pytest.fixture(autouse=True)
def _command(monkeypatch):
    monkeypatch.setattr(training, "MUSICTX", (sys.executable, "-c", TRAIN))


def trainings(tmp_path, **options) -> Training:
    return Training(StudioConfig(folder=str(tmp_path / "studio"), **options))


def test_a_folder_without_music_gets_a_sentence(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "x.mid").write_bytes(b"none")
    for typed, sentence in (
        *((typed, "folder: expected") for typed in (None, "a\0b", "x" * 2000)),
        ("/no/such/folder", '"/no/such/folder": there is no such folder'),
        (f"{tmp_path}/damaged/x.mid", "there is no such folder"),
        (f"{tmp_path}/damaged", "none of the files"),
    ):
        with pytest.raises(Refused, match=sentence):
            trainings(tmp_path).look(typed)
    (tmp_path / "damaged" / "x.mid").unlink()
    with pytest.raises(Refused, match="there is no MIDI or MusicXML file"):
        trainings(tmp_path).look(f"{tmp_path}/damaged")
    for host in ("0.0.0.0", "::", "192.168.1.5"):  # other machines must not read folders
        studio = trainings(tmp_path, host=host)
        for method in (studio.look, studio.start):
            with pytest.raises(Refused, match="other machines cannot reach"):
                method(str(tmp_path))


def test_a_training_is_stopped_resumed_and_finished(tmp_path, music):
    studio = trainings(tmp_path)
    assert studio.json() == {"state": "none"}
    with pytest.raises(Refused, match="no model yet"):
        studio.model()
    assert studio.start(str(music))["state"] == "training"
    with pytest.raises(Refused, match="already running"):
        studio.start(str(music))
    wait_for(lambda: studio.json()["step"] > 4)
    studio.stop()
    wait_for(lambda: studio.json()["state"] == "stopped")
    state = studio.json()
    assert state["rows"][1] == (2, 2.998, 2.5)
    assert state["samples"] == [2]
    score, name = studio.sample(2)
    assert (len(score) > 0, name) == (True, "after step 2")
    with pytest.raises(Refused, match="no sample of step 3"):
        studio.sample(3)
    assert studio.models() == {state["model"]: studio.model()}

    restarted = trainings(tmp_path)
    assert restarted.json() == state
    restarted.start(str(music))
    wait_for(lambda: restarted.json()["step"] > state["step"])
    restarted.stop()
    wait_for(lambda: restarted.json()["state"] == "stopped")
    (music / "short").touch()
    restarted.start(str(music))
    wait_for(lambda: restarted.json()["state"] == "finished")


def test_a_failed_training_has_an_error_and_a_training_ends_with_its_studio(tmp_path, music):
    studio = trainings(tmp_path)
    (music / "refuse").touch()
    studio.start(str(music))
    wait_for(lambda: studio.json()["state"] == "failed")
    assert studio.json()["error"] == f"corpus.path={music}: all 3 files are damaged"
    (music / "refuse").unlink()
    studio.start(str(music))
    wait_for(lambda: studio.json()["rows"])
    studio.close()
    assert studio.json()["state"] == "stopped"
    assert studio._process.poll() is not None
