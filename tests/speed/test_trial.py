"""A kernel that is wrong, slow, or fails is not taken; the answer is remembered."""

from __future__ import annotations

import re
import sys
import time

import pytest
import torch

from musictx.attention import api
from musictx.speed import fused, trial

ONES = torch.ones(8)


def late(seconds: float, result: torch.Tensor = ONES) -> trial.Pass:
    def run():
        time.sleep(seconds)
        return [result]

    return run


def raises():
    raise RuntimeError("out of\nregisters")


@pytest.mark.parametrize(
    ("fast", "taken", "said"),
    [
        (late(0.001), True, "taken: right, and [1-9].* times as fast"),
        (late(0.03), False, "right, but .* times as slow"),
        (late(0.0, 1.05 * ONES), False, r"wrong here, by 5\.0%"),
        (late(0.0, ONES * torch.nan), False, "wrong here"),
        (late(0.0, torch.ones(3)), False, "it failed"),
        (raises, False, r"it failed \(out of registers\)"),
    ],
)
def test_what_is_right_and_faster_is_taken(fast, taken, said):
    found = trial.judged(fast, late(0.01), bool)
    assert found["taken"] is taken
    assert re.search(said, str(found["said"])), found


def test_a_process_that_dies_hangs_or_babbles_is_an_answer_too():
    def answer(program: str) -> str:
        return str(trial.answer([sys.executable, "-c", program], seconds=5)["said"])

    assert "illegal memory" in answer("import sys; sys.exit('illegal memory access')")
    assert "exit status" in answer("import os; os.abort()")
    assert "it failed" in answer("print('no json')")
    assert "no answer in 0.1" in str(
        trial.answer([sys.executable, "-c", "import time; time.sleep(9)"], seconds=0.1)["said"]
    )
    assert answer("""print('{"taken": true, "said": "good"}')""") == "good"


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The programs that were run to try it, all of which fail; as on a GPU that was never met."""
    monkeypatch.setenv("MUSICTX_CACHE", str(tmp_path))
    trial.why_not.cache_clear()
    tried = []

    def answer(command):
        tried.append(command[-2:])
        return {"taken": False, "said": "not taken: wrong"}

    monkeypatch.setattr(trial, "answer", answer)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "GPU 1")
    yield tried
    trial.why_not.cache_clear()


def test_an_answer_is_said_once_and_remembered_by_gpu(asked, monkeypatch, capsys):
    assert trial.why_not() == "not taken: wrong"
    assert "musictx: fused: not taken: wrong" in capsys.readouterr().err
    trial.why_not.cache_clear()  # as in the next process
    assert trial.why_not() == "not taken: wrong"
    assert capsys.readouterr().err == ""
    assert asked == [["musictx.speed.trying", "fused"]]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "GPU 2")
    trial.why_not.cache_clear()
    trial.why_not()
    assert len(asked) == 2
    (folder := trial.build.cache_folder() / "trials.json").write_text("damaged")
    trial.why_not.cache_clear()
    assert trial.why_not()
    assert len(asked) == 3
    assert folder.read_text().startswith("{")


def test_auto_goes_on_without_it_and_who_names_it_gets_it(asked, monkeypatch):
    monkeypatch.setattr(api, "_CHOSEN", {})
    monkeypatch.setattr(api.capabilities, "why_not", lambda can, job: None)
    job = api.AttentionJob(
        *(1, False, True, True, 0), *[False] * 4, True, True, "square", False, "cuda"
    )
    assert fused.CAN.unwanted() == "not taken: wrong"
    assert api.chosen("auto", job) == "chunked"
    assert api.chosen("fused", job) == "fused"
