"""The package from Python: music in every form, one request the same notes, and mistakes are one
sentence that names the argument. Options are tried in test_options.py."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import mido
import numpy as np
import pretty_midi
import pytest
import torch

import musictx
from musictx import options, shipped
from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.options import request
from scripts import stub
from tests.untrained import SMALL, saved

PRIMER = Score([(0.5 * i, 0.5 * i + 0.4, 60 + i, 80, 0, False, 0) for i in range(4)])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("m") / "model")


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """The public functions with all that they need, small."""
    folder = tmp_path_factory.mktemp("calls")
    bundle = musictx.load(saved(folder / "model", tokens=SMALL | {"controls": True}))
    path = folder / "x"
    return {
        "generate": partial(musictx.generate, bundle, tokens=4),
        "stream": partial(musictx.stream, bundle, primer=PRIMER),
        "infill": partial(musictx.infill, model=bundle, music=PRIMER, begin=1, end=1),
        "accompany": partial(musictx.accompany, model=bundle, melody=PRIMER),
        "harmonise": partial(musictx.harmonise, melody=PRIMER),
        "render": partial(musictx.render, music=PRIMER, path=path, wav=False),
        "read": musictx.read,
        "to_bytes": musictx.to_bytes,
        "write": partial(musictx.write, path="x.mid"),
        "load": musictx.load,
        "compare": musictx.compare,
        "evaluate": musictx.evaluate,
        "train": musictx.train,
    }


def test_music_is_taken_in_every_form(model, tmp_path):
    """A path as text or not, bytes, mido's and pretty_midi's objects, a score, a sample, a name."""
    path = musictx.write(PRIMER, tmp_path / "p.mid")
    sample = musictx.generate(model, primer=path, tokens=4, seed=1)[0]
    sample = dataclasses.replace(sample, score=musictx.read(path))
    forms = [path, str(path), path.read_bytes(), mido.MidiFile(path), PRIMER, sample]
    forms.append(pretty_midi.PrettyMIDI(str(path)))
    bundle = musictx.load(model)
    takers = {
        "generate": lambda music: musictx.generate(bundle, primer=music, tokens=6)[0].ids.tolist(),
        "stream": lambda music: list(musictx.stream(bundle, primer=music, seconds=0.5)),
        "log_likelihood": lambda music: musictx.log_likelihood(bundle, music).total,
        "render": lambda music: musictx.render(music, tmp_path / "r", wav=False)[0].stat().st_size,
    }
    for name, take in takers.items():
        results = [take(form) for form in forms]
        assert all(one == results[0] for one in results), name
        assert take("mozart_k545") is not None, name
    together = musictx.generate(bundle, primer=forms, tokens=6)
    assert [one.ids.tolist() for one in together] == [takers["generate"](path)] * len(forms)


def test_threads_on_one_model_write_what_one_writes(model):
    bundle = musictx.load(model)

    def make(seed):
        return musictx.generate(bundle, tokens=40, samples=2, seed=seed)[1].ids.tolist()

    alone = [make(seed) for seed in range(6)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(make, range(6))) == alone


def test_sampling_is_a_preset_a_dict_or_a_dataclass():
    """As on the command line, and no two presets are the same."""
    names = ("free", "safe", "wild", "greedy")
    made = [request("generate", {"sampling": name}).sampling for name in names]
    typed = [options.parse("generate", [f"sampling={name}"]) for name in names]
    assert made == [request("generate", one).sampling for one in typed]
    assert all(one not in made[:place] for place, one in enumerate(made))
    assert made[-1].temperature == 0
    given = request("generate", {"sampling": {"temperatures": {"note_on": 0.5}}}).sampling
    assert given.temperatures == {**SamplingConfig().temperatures, "note_on": 0.5}
    alone = SamplingConfig(temperatures={"note_on": 0.5})
    assert request("generate", {"sampling": alone}).sampling == alone
    dense = request("generate", {"density": "dense"})
    assert dense == request("generate", {"sampling": {"density": 13.5}})


def test_no_seed_is_a_fresh_one_that_is_printed(model, capsys):
    first = musictx.generate(model, tokens=12, seed=None)[0]
    seed = int(capsys.readouterr().out.removeprefix("seed: "))
    again = musictx.generate(model, tokens=12, seed=seed)[0]
    assert np.array_equal(first.ids, again.ids)


NO_MUSIC = (float("nan"), 10**400, {"a": 5}, 5j, b"5", 3, "none.mid", "~nobody.mid", "\0.mid")
NO_FUNCTION = (float("nan"), True, object(), "1_0")
NO_FUNCTIONS = (*NO_FUNCTION, None, [5], print)
NO_BOOL = (float("nan"), 1, "1_0", [5], object(), np.array([1, 2]))
NO_MODEL = (None, 3, object(), "9" * 5000, "\0", "nothing")
#: (function, argument) -> values that it cannot have; what is an option is in test_options.py.
WRONG = {
    **{(name, "progress"): NO_FUNCTION for name in ("generate", "infill", "accompany")},
    **{(name, "on_event"): NO_FUNCTION for name in ("generate", "infill", "accompany")},
    **{(name, "constraints"): NO_FUNCTIONS for name in ("generate", "stream")},
    **{(name, "processors"): NO_FUNCTIONS for name in ("generate", "stream")},
    **{(name, "primer"): NO_MUSIC for name in ("generate", "stream")},
    ("infill", "music"): NO_MUSIC,
    ("infill", "begin"): (True, object(), [], float("nan"), 4.2, "4.2"),
    ("accompany", "melody"): NO_MUSIC,
    ("harmonise", "melody"): NO_MUSIC,
    ("harmonise", "progress"): NO_FUNCTION,
    ("render", "wav"): NO_BOOL,
    ("render", "png"): NO_BOOL,
    ("render", "title"): NO_FUNCTION[:3],
    ("render", "path"): NO_FUNCTION[:3],
    ("generate", "model"): NO_MODEL[1:],
    ("load", "model"): NO_MODEL,
    ("generate", "sampling"): ("mild", 3, {"heat": 1}, {"top_p": 2}, {"temperatures": 1}),
    ("generate", "seed"): ([1, 2], "x", 2.5, 10**400, np.float64("nan")),
    ("generate", "primer_seconds"): (2,),  # without a primer
    ("generate", "include_primer"): (False, *NO_BOOL),
    **{("generate", name): (1,) for name in ("heat", "out", "limits.notes")},
    **{("stream", name): (True, [], {"a": 5}, float("inf")) for name in ("seed", "seconds")},
}


@pytest.mark.parametrize(("function", "name"), WRONG)
def test_a_wrong_argument_is_one_sentence_that_names_it(function, name, calls):
    for value in WRONG[function, name]:
        call = partial(calls[function], **{name: value})
        if name == "model":
            call = partial(getattr(musictx, function), value)
        with pytest.raises(UserError) as caught:
            call()
        assert name in str(caught.value), value
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 600


def test_music_in_place_of_a_model_leads_to_the_primer(tmp_path):
    for name in ("song.mid", musictx.write(PRIMER, tmp_path / "Song.MID")):
        with pytest.raises(UserError, match="primer="):
            musictx.generate(name)


def test_other_mistakes_are_one_sentence(calls, tmp_path):
    path = musictx.write(PRIMER, tmp_path / "x.mid")
    for name in ("limits", "repairs"):
        for wrong in (5, "x", [], True):
            with pytest.raises(UserError, match=f"{name}="):
                musictx.read(path, **{name: wrong})
    for wrong in (10**400, {"a": 5}, 5j, b"5", object()):
        for name in ("read", "to_bytes", "write"):
            with pytest.raises(UserError):
                calls[name](wrong)
    for device in (5, 10**400, np.array([1, 2]), object(), "\0", "meta"):
        with pytest.raises(UserError, match="device="):
            musictx.load("piano", device)
    deep: list = []
    for _ in range(100_000):  # Python itself cannot show it
        deep = [deep]
    with pytest.raises(UserError, match="begin="):
        musictx.infill(PRIMER, begin=deep, end=1)
    with pytest.raises(UserError, match="nonsense"):
        musictx.train("nonsense=1")
    with pytest.raises(UserError, match="evaluate"):
        musictx.evaluate(3)


def test_numbers_may_be_numpys_and_a_grid_a_number(calls):
    given = {"primer": PRIMER, "tokens": np.int64(8), "seconds": np.float32(9)}
    first, again = (calls["generate"](**given, quantise=grid)[0].score for grid in (16, "16"))
    assert first == again
    both = calls["generate"](samples=np.int64(2), guidance=np.float32(1), density=np.float32(4))
    assert len(both) == 2
    assert calls["accompany"](melody_track=1, density=0.5)


def test_what_a_function_of_the_caller_gives_is_not_blamed_on_the_model(calls):
    for wrong in (
        lambda ids, logits: logits * float("nan"),
        lambda ids, logits: logits[:, :3],
        lambda ids, logits: logits - float("inf"),
        lambda ids, logits: None,
        lambda ids, logits: logits.long(),
        lambda ids, logits: logits + 1j,
        lambda ids, logits: logits.to("meta"),
    ):
        with pytest.raises(UserError, match=r"processors\[1\]"):
            calls["generate"](processors=[lambda ids, logits: logits, wrong])
    for wrong in (lambda states, past: np.zeros(3), lambda states, past: np.nan):
        with pytest.raises(UserError, match=r"constraints\[0\]"):
            calls["generate"](constraints=[wrong])


def test_a_name_too_long_for_any_file_is_one_sentence(calls):
    """As of options in test_options.py."""
    takers = {"generate": "primer", "infill": "music", "render": "path", "load": "folder"}
    for name in ("a" * 300 + ".mid", "a" * 5000 + ".mid", "a/" * 2500 + "b.mid"):
        ways = [partial(calls[function], **{option: name}) for function, option in takers.items()]
        ways += [partial(musictx.load, Path(name)), partial(musictx.write, PRIMER, Path(name))]
        ways += [partial(musictx.read, name)]
        for call in ways:
            with pytest.raises(UserError) as caught:
                call()
            assert caught.value.status == 2
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 700


def test_the_likelihood_of_a_piece_is_the_sum_over_its_tokens(model):
    loaded = musictx.load(model)
    ids = loaded.tokenizer.encode(PRIMER).astype(np.int64)
    row = torch.tensor([[1, *ids.tolist()]])
    with torch.no_grad():
        logits = loaded.model(row)[0].double().log_softmax(-1)
    expected = [-float(logits[i, token]) for i, token in enumerate(ids)]
    likelihood = musictx.log_likelihood(model, PRIMER)
    assert likelihood.nats.tolist() == pytest.approx(expected, abs=1e-4)
    assert likelihood.ids.tolist() == ids.tolist()
    assert likelihood.total == pytest.approx(sum(expected), abs=1e-4)


def test_the_package_offers_its_names_lazily_and_its_packages_can_be_called(tmp_path):
    assert musictx.Score is Score
    assert "generate" in dir(musictx)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = musictx.nonsense
    (path,) = musictx.render(PRIMER, tmp_path / "a.png", wav=False)
    assert path == tmp_path / "a.png"
    from musictx.render import audio

    assert audio.__name__ == "musictx.render.audio"


def test_notes_and_progress_are_reported_and_an_error_in_the_listener_stops_composing(tmp_path):
    controls = {"name": "performance", "low": 40, "high": 90, "controls": True}
    steered = musictx.load(saved(tmp_path / "s", tokens=controls, context=96))
    chorale = musictx.load(saved(tmp_path / "c", tokens={"name": "chorale"}, context=400))
    tune = musictx.read(shipped.examples()["ode_to_joy"])
    tune = tune.with_notes(tune.notes[tune.notes["start"] < 4.0])
    ways = {
        "generate": partial(musictx.generate, steered, seconds=1.0, samples=2),
        "continue": partial(musictx.generate, steered, primer=tune, seconds=1.0),
        "infill": partial(musictx.infill, tune, steered, begin="1s", end="2s"),
        "accompany": partial(musictx.accompany, tune, steered),
        "harmonise": partial(musictx.harmonise, tune, chorale, particles=2),
    }
    for name, call in ways.items():
        events, shares = [], []
        listeners = {"progress": lambda *done, to=shares: to.append(done[-1])}
        if name != "harmonise":
            listeners["on_event"] = lambda number, event, to=events: to.append((number, event))
        samples = call(**listeners)
        assert [sample.score for sample in samples] == [sample.score for sample in call()]
        assert shares == sorted(shares)
        assert shares[-1] > 0.9
        strikes = sum(event.on for _, event in events)
        assert strikes == sum(sample.notes for sample in samples) or name == "harmonise"

        def stop(*_):
            raise ZeroDivisionError

        for listener in listeners:
            with pytest.raises(ZeroDivisionError):
                call(**{listener: stop})


def test_primers_with_a_seed_each_are_continued_as_alone(tmp_path):
    model = musictx.load(saved(tmp_path / "m", context=64))
    tune = musictx.read(shipped.examples()["mozart_k545"])
    both = musictx.generate(model, primer=[tune, tune], seed=[4, 9], seconds=1.0)
    alone = [musictx.generate(model, primer=tune, seed=n, seconds=1.0)[0] for n in (4, 9)]
    assert [one.score for one in both] == [one.score for one in alone]
    with pytest.raises(UserError, match="seed="):
        musictx.generate(model, seconds=1.0, seed=[1], primer=[tune, tune])


def test_the_types_for_editors_are_what_the_dataclasses_make():
    """Else: python -m scripts.stub. Mypy reads them in public_types.py."""
    assert stub.STUB.read_text(encoding="utf-8") == stub.text()
