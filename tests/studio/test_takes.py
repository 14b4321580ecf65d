"""Takes: the command of a take composes the same notes; random requests."""

import dataclasses
import json
import shlex
import shutil
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import musictx
from musictx import cli, options, shipped
from musictx.config import ModelFolder
from musictx.errors import UserError
from musictx.studio.change import Change
from musictx.studio.config import StudioConfig
from musictx.studio.errors import validate
from musictx.studio.models import TASKS, Models, options_json
from musictx.studio.request import Request, command_line, parse_request
from musictx.studio.takes import Proposal, acceptance_change
from tests.studio.composers import rounded

pytestmark = pytest.mark.usefixtures("only_tiny")

REQUESTS = [
    {"task": "new", "seconds": 2.5, "samples": 2},
    {"task": "new", "bars": 2, "model": "chorale"},
    {"task": "new", "seconds": 2, "model": "pop", "controls": {"density": 8, "register": 70}},
    {"task": "continue", "seconds": 3, "samples": 2, "sampling":
     {"temperature": 1.1, "key": "F#m"}},
    {"task": "continue", "end": 5.0, "bars": 2, "tracks": [0], "quantise": "16"},
    {"task": "replace", "begin": 3.75, "end": 5.0, "samples": 2, "controls": {"loudness": 70}},
    {"task": "replace", "begin": 1.1, "end": 2.6, "tracks": [1], "model": "pop"},
    {"task": "vary", "begin": 3.75, "end": 5.625, "keep": 0.4},
    {"task": "accompany", "tracks": [0], "begin": 0, "end": 2, "model": "pop", "samples": 2},
    {"task": "accompany", "end": 2.5, "sampling": {"low": "C2", "high": "C5"}},
    {"task": "harmonise", "tracks": [0], "begin": 0, "end": 2.5, "sampling": {"key": "C"}},
]  # fmt: skip


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r["task"])
def test_the_command_of_a_take_composes_its_notes(request_, studio, session, monkeypatch, capsys):
    session.apply(Change(lock=(20, 21)), 0)
    before = session.document
    takes = session.folder / "takes"
    files_exist = []

    def check_files(_, kind, data):  # files are written before a proposal is published
        if kind == "proposal":
            stem, number = f"{data['take']:04d}", data["proposal"]["number"]
            saved = json.loads((takes / f"{stem}.json").read_text())
            assert saved["proposals"][number - 1]["state"] == "done"
            files_exist.append((takes / f"{stem}-{number}.mid").exists())

    studio.on_message = check_files
    take = studio.compose(session, seed=5, revision=1, **request_)
    count = request_.get("samples", 1)
    assert files_exist == [True] * count
    assert take["seed"] == 5
    monkeypatch.chdir(takes)
    words = shlex.split(take["command"])[1:]
    assert cli.main([*words, "out=again"]) == 0, capsys.readouterr()
    results = sorted((takes / "again").glob("*.mid"))
    assert len(results) == count
    for result, proposal in zip(results, take["proposals"]):
        again = musictx.read(result)
        assert again == musictx.read(takes / f"0001-{proposal['number']}.mid")
        assert proposal["notes"]
        document = session.document.copy()
        accepted = acceptance_change(document, 1, validate(Proposal, proposal))
        document.apply(document.check(accepted, studio.limits))
        if request_["task"] in ("replace", "vary"):
            assert rounded(row[1:] for row in document.rows()) == rounded(again.notes.tolist())
        elif request_["task"] == "new":  # it begins at a bar line after the end
            assert min(row[0] for row in proposal["notes"]) >= before.duration
        else:
            assert rounded(proposal["notes"]) <= rounded(again.notes.tolist())
        if request_["task"] in ("new", "harmonise"):
            assert len(proposal["notes"]) == len(again)
        if request_["task"] == "harmonise":
            assert [t["name"] for t in proposal["tracks"]] == ["Soprano", "Alto", "Tenor", "Bass"]
        if request_["task"] in ("accompany", "harmonise"):
            assert {row[4] for row in proposal["notes"]} == {t["id"] for t in proposal["tracks"]}
        locked = {before.notes[n] for n in (20, 21)} & set(document.notes.values())
        assert len(locked) == 2 or request_["task"] == "harmonise"
    notes = [data for data in studio.published(session, "note") if data["proposal"] == 1]
    assert take["at_end"] == (not notes)
    if request_["task"] != "harmonise":
        events = [event for data in notes for event in data["events"]]
        ons = Counter((round(e[1], 2), e[2], e[4]) for e in events if e[0] == "on")
        # Without the notes that sounded into the selection and are shortened.
        rows = [r for r in take["proposals"][0]["notes"] if r[1] > take["begin"] + 1e-3]
        assert ons == Counter((round(r[0], 2), r[2], r[4]) for r in rows)


def test_the_values_that_a_page_offers_are_accepted():
    for name, option in options_json().items():
        ends = [option[end] for end in ("low", "high") if end in option]
        for value in [*ends, *option["words"], *option["words"].values(), *option["choices"]]:
            if name == "keep":
                assert 0 <= value < 1
            else:
                options.make_config("generate", {name: value})
        assert option["sentence"].count(".") == 1


FIELDS = [field.name for field in dataclasses.fields(Request)] + ["seed", "model", "x"]
DATA = st.dictionaries(
    st.sampled_from(FIELDS),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
        | st.sampled_from(["density", "key", "any", "piano", "16"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
            st.sampled_from(["density", "temperature", "key", "top_p", "low", "temperatures"]),
            inner, max_size=2),
        max_leaves=4,
    ),
)  # fmt: skip


def test_random_data_of_a_page_is_a_request_or_gets_a_sentence(tiny):
    models, outcomes = Models(StudioConfig()), Counter()

    @given(DATA, st.sampled_from(TASKS))
    def send(data, task):
        try:
            request, model = parse_request(data | {"task": task}, models, 10.0)
            config = request.config(model)
        except UserError:
            outcomes["refused"] += 1
            return
        assert shlex.split(command_line(request, config))[0] == "musictx"
        json.dumps(dataclasses.asdict(request), allow_nan=False)
        outcomes["valid"] += 1

    send()
    assert min(outcomes["valid"], outcomes["refused"]) > 5, outcomes


def test_the_command_of_a_take_finds_a_users_own_model(tiny, tmp_path, monkeypatch):
    def command(config):
        request, model = parse_request({"task": "new", "seconds": 1}, Models(config), 0.0)
        return command_line(request, request.config(model, seconds=1.0))

    def model_path(line):
        return options.parse("generate", shlex.split(line)[2:])["model"]

    folder = shutil.copytree(tiny["plain"], tmp_path / "runs" / "mine" / "model")
    (tmp_path / "studio" / "x" / "takes").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    line = command(StudioConfig())
    monkeypatch.chdir(tmp_path / "studio" / "x" / "takes")
    assert model_path(line) == "../../../runs/mine/model"
    line = command(
        StudioConfig(folder=str(tmp_path / "s"), model=ModelFolder(str(tmp_path / "runs" / "mine")))
    )
    (tmp_path / "s" / "x" / "takes").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "s" / "x" / "takes")
    assert shipped.locate(model_path(line)).resolve() == folder
