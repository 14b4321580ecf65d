"""The package from Python: typed, lazy, and mistakes are said in a sentence."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import mido
import numpy as np
import pretty_midi
import pytest
import torch

import musictx
from musictx import cli, shipped
from musictx.compose import compose
from musictx.config import SamplingConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.options import request
from tests.untrained import saved

PRIMER = Score([(0.5 * i, 0.5 * i + 0.4, 60 + i, 80, 0, False, 0) for i in range(4)])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("m") / "model")


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
        found = [take(form) for form in forms]
        assert all(one == found[0] for one in found), name
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


def test_a_call_is_cancelled_by_what_its_progress_raises(model):
    bundle, calls = musictx.load(model), []

    class Stop(Exception):
        pass

    def progress(*_):
        calls.append(1)
        if len(calls) == 5:
            raise Stop

    with pytest.raises(Stop):
        musictx.generate(bundle, tokens=500, progress=progress)
    assert len(calls) == 5
    assert musictx.generate(bundle, tokens=8)[0].notes >= 0


def test_sampling_is_a_preset_a_dict_or_a_config(model):
    def ids(sampling):
        return musictx.generate(model, tokens=12, sampling=sampling, seed=1)[0].ids.tolist()

    greedy = ids("greedy")
    assert greedy == ids({"temperature": 0.0}) == ids(musictx.SamplingConfig(temperature=0.0))


def test_a_density_is_one_thing_wherever_it_is_said(tmp_path):
    said = musictx.generate("piano", seconds=2, seed=3, density=4.0)[0].score
    of_sampling = musictx.generate("piano", seconds=2, seed=3, sampling={"density": 4.0})[0].score
    words = ["generate", "model=piano", "seconds=2", "seed=3", "sampling.density=4"]
    assert cli.main([*words, f"out={tmp_path / 'x.mid'}"]) == 0
    typed = musictx.read(tmp_path / "x.mid")
    assert (
        musictx.read(musictx.write(said, tmp_path / "y.mid")).notes.tolist() == typed.notes.tolist()
    )
    assert of_sampling.notes.tolist() == said.notes.tolist()


def test_no_seed_is_a_fresh_one_that_is_printed(model, capsys):
    first = musictx.generate(model, tokens=12, seed=None)[0]
    seed = int(capsys.readouterr().out.removeprefix("seed: "))
    again = musictx.generate(model, tokens=12, seed=seed)[0]
    assert np.array_equal(first.ids, again.ids)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "nothing"}, "nothing: no such model folder"),
        ({"model": 3}, "model: int is no model; expected a loaded one"),
        ({"primer": "none.mid"}, r"primer: none\.mid: cannot be opened"),
        ({"primer": "~nobody.mid"}, r"primer: ~nobody\.mid: cannot be opened"),
        ({"primer_seconds": 2}, "primer_seconds=2: expected with a primer"),
        ({"include_primer": False}, "include_primer=false: expected with a primer"),
        ({"primer": 3}, "primer: read: cannot read int; expected a path"),
        ({"sampling": "mild"}, "sampling=mild: expected one of free, greedy, safe, wild"),
        ({"sampling": {"heat": 1}}, r"sampling\.heat: no such option"),
        ({"heat": 1}, "heat: no such option of musictx generate"),
        ({"out": "x.mid"}, "out: no such option here"),
        ({"limits.notes": 5}, "limits.notes: no such option here"),
        ({"sampling": {"temperature": "hot"}}, r"sampling\.temperature=hot: expected a number"),
        ({"sampling": {"key": 5}}, r"sampling\.key=5: expected a key such as C"),
        ({"sampling": {"top_p": 2}}, r"sampling\.top_p=2.*: expected a number above 0"),
        ({"sampling": 3}, "sampling=3: expected values by their names"),
        ({"seed": "x"}, "seed=x: expected a whole number"),
        ({"samples": 0}, "samples=0: expected a whole number from 1"),
        ({"seconds": "long"}, "seconds=long: expected a number"),
        ({"seconds": float("nan")}, "seconds=nan: expected a number above 0"),
        ({"tokens": 2.5}, r"tokens=2\.5: expected a whole number"),
        ({"bars": 1.5, "primer": PRIMER}, r"bars=1\.5: expected a whole number"),
        ({"guidance": "x"}, "guidance=x: expected a number"),
        ({"density": [1]}, r"density=\[1\]: expected a number of notes a second"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments, words, model):
    with pytest.raises(UserError, match=words) as caught:
        musictx.generate(**({"model": model, "tokens": 4} | arguments))
    assert "\n" not in str(caught.value)


def test_numbers_may_be_numpys_and_a_grid_a_number(model):
    given = {"model": model, "primer": PRIMER, "tokens": np.int64(8), "seconds": np.float32(9)}
    found, again = (musictx.generate(**given, quantise=grid)[0].score for grid in (16, "16"))
    assert found == again


def test_the_likelihood_of_a_piece_is_the_sum_over_its_tokens(model):
    loaded = musictx.load(model)
    ids = loaded.tokenizer.encode(PRIMER).astype(np.int64)
    row = torch.tensor([[1, *ids.tolist()]])
    with torch.no_grad():
        logits = loaded.model(row)[0].double().log_softmax(-1)
    expected = [-float(logits[i, token]) for i, token in enumerate(ids)]
    found = musictx.log_likelihood(model, PRIMER)
    assert found.nats.tolist() == pytest.approx(expected, abs=1e-4)
    assert found.ids.tolist() == ids.tolist()
    assert found.total == pytest.approx(sum(expected), abs=1e-4)


def test_options_of_train_and_evaluate_are_those_of_the_command_line(model):
    with pytest.raises(UserError, match="no such option"):
        musictx.train("nonsense=1")
    with pytest.raises(UserError, match=r"evaluate: 3 is no option; write them as"):
        musictx.evaluate(3)


def test_a_package_can_be_called_and_still_be_imported_from(tmp_path):
    (path,) = musictx.render(PRIMER, tmp_path / "a.png", wav=False)
    assert path == tmp_path / "a.png"
    from musictx.render import audio

    assert audio.__name__ == "musictx.render.audio"


def test_every_preset_of_sampling_can_be_named():
    """It is what the command line makes of it, and no two are the same."""
    names = ("free", "safe", "wild", "greedy")
    made = [request("generate", {"sampling": name}).sampling for name in names]
    assert made == [compose("generate", [f"sampling={name}"]).sampling for name in names]
    assert all(one not in made[:place] for place, one in enumerate(made))
    assert made[-1].temperature == 0


def test_temperatures_by_kind_can_be_given_as_a_dict():
    given = request("generate", {"sampling": {"temperatures": {"note_on": 0.5}}}).sampling
    assert given.temperatures == {**SamplingConfig().temperatures, "note_on": 0.5}
    alone = SamplingConfig(temperatures={"note_on": 0.5})
    assert request("generate", {"sampling": alone}).sampling == alone
    with pytest.raises(UserError, match=r"sampling.temperatures=1: expected values by their names"):
        request("generate", {"sampling": {"temperatures": 1}})


def test_notes_and_progress_are_told_and_an_error_in_what_is_told_stops_composing(tmp_path):
    controls = {"name": "performance", "low": 40, "high": 90, "controls": True}
    steered = musictx.load(saved(tmp_path / "s", tokens=controls, context=96))
    chorale = musictx.load(saved(tmp_path / "c", tokens={"name": "chorale"}, context=400))
    tune = musictx.read(shipped.examples()["ode_to_joy"])
    tune = tune.with_notes(tune.notes[tune.notes["start"] < 4.0])
    calls = {
        "generate": lambda **told: musictx.generate(steered, seconds=1.0, samples=2, **told),
        "continue": lambda **told: musictx.generate(steered, primer=tune, seconds=1.0, **told),
        "infill": lambda **told: musictx.infill(tune, steered, begin="1s", end="2s", **told),
        "accompany": lambda **told: musictx.accompany(tune, steered, **told),
        "harmonise": lambda **told: musictx.harmonise(tune, chorale, particles=2, **told),
    }
    for name, call in calls.items():
        events, shares = [], []
        told = {"progress": lambda *done, to=shares: to.append(done[-1])}
        if name != "harmonise":
            told["on_event"] = lambda number, event, to=events: to.append((number, event))
        samples = call(**told)
        assert [sample.score for sample in samples] == [sample.score for sample in call()]
        assert shares == sorted(shares)
        assert shares[-1] > 0.9
        strikes = sum(event.on for _, event in events)
        assert strikes == sum(sample.notes for sample in samples) or name == "harmonise"

        def stop(*_):
            raise ZeroDivisionError

        for way in told:
            with pytest.raises(ZeroDivisionError):
                call(**{way: stop})


def test_primers_with_a_seed_each_are_continued_as_alone(tmp_path):
    model = musictx.load(saved(tmp_path / "m", context=64))
    tune = musictx.read(shipped.examples()["mozart_k545"])
    both = musictx.generate(model, primer=[tune, tune], seed=[4, 9], seconds=1.0)
    alone = [musictx.generate(model, primer=tune, seed=n, seconds=1.0)[0] for n in (4, 9)]
    assert [one.score for one in both] == [one.score for one in alone]
    for wrong in ({"seed": [1, 2]}, {"seed": [1], "primer": [tune, tune]}):
        with pytest.raises(UserError, match=r"seed=.*, or a list with one for each"):
            musictx.generate(model, seconds=1.0, **wrong)


@pytest.mark.parametrize("word", ["dense", "sparse", "any"])
def test_a_density_is_said_in_words_wherever_it_is_said(word, tmp_path):
    number = {"dense": 13.5, "sparse": 2.4, "any": 0}[word]
    (said,) = musictx.generate("piano", seconds=1, seed=3, density=number)
    assert musictx.generate("piano", seconds=1, seed=3, density=word)[0].score == said.score
    (other,) = musictx.generate("piano", seconds=1, seed=3, sampling={"density": word})
    assert other.score == said.score
    words = ["generate", "model=piano", "seconds=1", "seed=3", f"out={tmp_path / 'x.mid'}"]
    assert cli.main([*words, f"density={word}"]) == 0
    written, same = musictx.read(tmp_path / "x.mid"), musictx.write(said.score, tmp_path / "y.mid")
    assert written.notes.tolist() == musictx.read(same).notes.tolist()
    assert next(iter(musictx.stream("piano", seed=3, sampling={"density": word}))).on
