"""The functions of the package: music is accepted in every form, equal requests give equal notes,
and a mistake is one sentence that names the argument. Tests of options: test_options.py."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path

import mido
import numpy as np
import pytest
import torch

import musictx
from musictx.errors import UserError
from musictx.notes import Score
from scripts import stub
from tests.pieces import line

PRIMER = line(60, 61, 62, 63, length=0.4)


@pytest.fixture(scope="module")
def calls(tiny, tmp_path_factory):
    """Return the public functions, each with arguments of a small request."""
    folder, bundle = tmp_path_factory.mktemp("calls"), musictx.load(tiny["piano"])
    path = folder / "x"
    return {
        "generate": partial(musictx.generate, bundle, tokens=4),
        "stream": partial(musictx.stream, bundle, primer=PRIMER),
        "infill": partial(musictx.infill, model=bundle, music=PRIMER, begin=1, end=1),
        "accompany": partial(musictx.accompany, model=bundle, melody=PRIMER),
        "harmonise": partial(musictx.harmonise, melody=PRIMER),
        "render": partial(musictx.render, music=PRIMER, path=path, wav=False),
        "read": partial(musictx.read, musictx.write(PRIMER, folder / "x.mid")),
        "load": partial(musictx.load, "piano"),
    }


def test_music_is_taken_in_every_form(tiny, tmp_path):
    """A path as text or not, bytes, mido's and pretty_midi's objects, a score, a sample, a name."""
    bundle, path = musictx.load(tiny["plain"]), musictx.write(PRIMER, tmp_path / "p.mid")
    sample = musictx.generate(bundle, primer=path, tokens=4, seed=1)[0]
    sample = dataclasses.replace(sample, score=musictx.read(path))
    forms = [path, str(path), path.read_bytes(), mido.MidiFile(path), PRIMER, sample]
    forms.append(musictx.read(path).to_pretty_midi())
    functions = {
        "generate": lambda music: musictx.generate(bundle, primer=music, tokens=6)[0].ids.tolist(),
        "stream": lambda music: list(musictx.stream(bundle, primer=music, seconds=0.5)),
        "log_likelihood": lambda music: musictx.log_likelihood(bundle, music).total,
        "render": lambda music: musictx.render(music, tmp_path / "r", wav=False)[0].stat().st_size,
    }
    for name, function in functions.items():
        results = [function(form) for form in forms]
        assert all(result == results[0] for result in results), name
        assert function("mozart_k545") is not None, name
    samples = musictx.generate(bundle, primer=forms, tokens=6)
    expected = [functions["generate"](path)] * len(forms)
    assert [sample.ids.tolist() for sample in samples] == expected


def test_threads_that_share_a_model_compose_what_one_thread_composes(calls):
    def compose(seed):
        return calls["generate"](tokens=40, samples=2, seed=seed)[1].ids.tolist()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(compose, range(6))) == [compose(seed) for seed in range(6)]


def test_each_primer_may_have_a_seed_and_a_random_seed_is_printed(tiny, capsys):
    generate = partial(musictx.generate, musictx.load(tiny["plain"]), primer=PRIMER, seconds=1.0)
    both = generate(primer=[PRIMER, PRIMER], seed=[4, 9])
    assert [sample.score for sample in both] == [generate(seed=n)[0].score for n in (4, 9)]
    with pytest.raises(UserError, match="seed="):
        generate(seed=[1], primer=[PRIMER, PRIMER])
    capsys.readouterr()
    first = generate(seed=None)[0]
    seed = int(capsys.readouterr().out.removeprefix("seed: "))
    assert generate(seed=seed)[0].score == first.score


LONG = ("a" * 300 + ".mid", "a/" * 2500 + "b.mid")
NO_MUSIC = (float("nan"), 10**400, {"a": 5}, 5j, b"5", "none.mid", "~nobody.mid", "\0.mid", *LONG)
NO_FUNCTION = (float("nan"), True, object(), "1_0")
NO_FUNCTIONS = (*NO_FUNCTION, None, [5], print)
NO_BOOL = (float("nan"), 1, "1_0", [5], object(), np.array([1, 2]))
NO_MODEL = (None, 3, object(), "9" * 5000, "\0", "nothing", Path(LONG[0]))
#: (function, argument) -> wrong values. Arguments that are options: test_options.py.
WRONG = {
    **{(name, "progress"): NO_FUNCTION for name in ("generate", "infill", "accompany")},
    **{(name, "on_event"): NO_FUNCTION for name in ("generate", "infill", "accompany")},
    **{(n, f): NO_FUNCTIONS for n in ("generate", "stream") for f in ("penalties", "processors")},
    **{(name, "primer"): NO_MUSIC for name in ("generate", "stream")},
    **{(name, "melody"): NO_MUSIC for name in ("accompany", "harmonise")},
    ("infill", "music"): NO_MUSIC,
    ("infill", "begin"): (True, object(), [], float("nan"), 4.2, "4.2", 900),
    ("infill", "end"): ("x", 0),
    ("harmonise", "progress"): NO_FUNCTION,
    **{("render", name): NO_BOOL for name in ("wav", "png")},
    **{("render", name): NO_FUNCTION[:3] for name in ("title", "path")},
    ("generate", "model"): NO_MODEL[1:],
    ("load", "model"): NO_MODEL,
    ("load", "device"): (5, "cuda:63", 10**400, np.array([1, 2]), object(), "\0", "meta"),
    **{("read", name): (5, "x", [], True) for name in ("limits", "repairs")},
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
        assert len(str(caught.value)) < 700
        assert caught.value.status == 2


def test_other_mistakes_are_one_sentence(calls, monkeypatch):
    for wrong in (10**400, {"a": 5}, 5j, b"5", object()):
        for call in (musictx.read, musictx.to_bytes, partial(musictx.write, path="x.mid")):
            with pytest.raises(UserError):
                call(wrong)
    for write in (musictx.write, musictx.render):
        for name in LONG:
            with pytest.raises(UserError):
                write(PRIMER, Path(name))
    deep = reduce(lambda inner, _: [inner], range(100_000), [])  # Python itself cannot show it
    piano = calls["generate"].args[0]
    for call, begins in (
        (partial(musictx.generate, "song.mid"), "song.mid: no such model folder"),
        (partial(musictx.infill, PRIMER, begin=deep, end=1), "begin="),
        (partial(musictx.infill, PRIMER), "begin: missing"),
        (partial(musictx.render, PRIMER, "r.mp3"), "path=r.mp3: "),
        (partial(musictx.evaluate, 3), "3: expected name=value"),
        (partial(musictx.evaluate, model=piano), "model=Bundle"),
        (partial(musictx.harmonise, PRIMER, piano), "model="),
        (partial(musictx.generate, "chorale", primer=PRIMER), "primer: this is one voice"),
        (partial(musictx.generate, "chorale", tempo=60), "tempo=60.*: .*accepts no tempo"),
        (partial(calls["generate"], progress=fill_memory), "not enough memory"),
        (partial(calls["harmonise"], progress=fill_memory), "not enough memory"),
    ):
        with pytest.raises(UserError, match=f"^{begins}"):
            call()
    for name in ("evaluate.app.check_out", "evaluate.compare.check_out", "render.pianoroll.draw"):
        monkeypatch.setattr(f"musictx.{name}", fill_memory)
    for call in (musictx.evaluate, musictx.compare, calls["render"]):
        with pytest.raises(UserError, match=r"^not enough memory"):
            call()


def fill_memory(*_: object, **__: object) -> None:
    bytearray(2**62)


def test_numbers_may_be_of_numpy_and_a_grid_may_be_a_number(calls):
    options = {"primer": PRIMER, "tokens": np.int64(8), "seconds": np.float32(9)}
    first, again = (calls["generate"](**options, quantise=grid)[0].score for grid in (16, "16"))
    assert first == again
    both = calls["generate"](samples=np.int64(2), candidates=np.int64(1), density=np.float32(4))
    assert len(both) == 2
    assert calls["accompany"](melody_track=1, density=0.5)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_of_the_callers_function_is_an_error_that_names_the_argument(calls):
    with pytest.raises(UserError, match="processors="):
        calls["generate"](processors=[lambda ids, logits: logits * float("nan")])
    with pytest.raises(UserError, match="penalties="):
        calls["generate"](penalties=[lambda states, past: np.nan])
    with pytest.warns(FutureWarning, match="penalties"):
        assert calls["generate"](constraints=[lambda states, past: None])  # no id has a cost


@pytest.mark.parametrize("flatten", [torch.zeros_like, torch.Tensor.zero_])
def test_a_processor_cannot_bring_forbidden_ids_back(calls, flatten):
    (piece,) = calls["generate"](processors=[lambda ids, logits: flatten(logits)])
    assert len(piece.ids)  # drawn from the grammar


def test_public_names_are_loaded_lazily_and_render_is_a_function_and_a_package(tmp_path):
    assert musictx.Score is Score
    assert "generate" in dir(musictx)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = musictx.nonsense
    paths = [tmp_path / "new" / name for name in ("a.wav", "a.png")]
    assert musictx.render(PRIMER, paths[0]) == paths
    from musictx.render import audio

    assert audio.__name__ == "musictx.render.audio"


def test_notes_and_progress_are_reported_and_an_error_in_the_listener_stops_composing(calls):
    requests = {"infill": {}, "accompany": {}, "harmonise": {"particles": 2}}
    requests["generate"] = {"tokens": None, "seconds": 1.0, "samples": 2}
    for name, options in requests.items():
        call, events, shares = partial(calls[name], **options), [], []
        listeners = {"progress": lambda *done, to=shares: to.append(done[-1])}
        if name != "harmonise":
            listeners["on_event"] = lambda number, event, to=events: to.append((number, event))
        samples = call(**listeners)
        assert [sample.score for sample in samples] == [sample.score for sample in call()]
        assert shares == sorted(shares)
        assert shares[-1] > 0.9
        strikes = sum(event.on for _, event in events)
        assert strikes == sum(sample.notes for sample in samples) or name == "harmonise"
        for listener in listeners:
            with pytest.raises(ZeroDivisionError):
                call(**{listener: lambda *_: 1 / 0})


def test_the_types_for_editors_are_those_of_the_dataclasses():
    """Where this fails, run python -m scripts.stub. Mypy checks the types in public_types.py."""
    assert stub.STUB.read_text(encoding="utf-8") == stub.text()
