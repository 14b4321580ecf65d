"""NLL by position: against a plain loop over whole windows; measured once, refused where unfair."""

import csv

import pytest
import torch

from musictx import bundle
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT

pytest.importorskip("matplotlib")


@pytest.fixture
def run(script, models, corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = f"models=[{models / 'huang'},{models / 'sinusoidal'}]"

    def run(*words):
        return script("nll_by_position").main([both, f"corpus={corpus}", "device=cpu", *words])

    return run


def in_a_loop(model, shards, window):
    """Mean nats at each place over the whole windows of the validation split."""
    nats, windows = torch.zeros(window, dtype=torch.float64), 0
    for piece in shards.pieces("validation"):
        events = torch.from_numpy(shards.tokens(piece.number).astype(int))
        for start in range(0, len(events) - window + 1, window):
            targets = events[start : start + window]
            first = torch.tensor([CUT if start else BOS])
            with torch.no_grad():
                chances = model(torch.cat([first, targets[:-1]])[None])[0].double()
            nats -= chances.log_softmax(-1)[torch.arange(window), targets]
            windows += 1
    return (nats / windows).tolist()


@pytest.mark.parametrize("words", [[], ["window=40"]])
def test_curves_equal_a_plain_loop(run, models, tmp_path, words):
    curves = run("out=curves", *words)
    shards = Shards(next((tmp_path / "data" / "shards").iterdir()))
    window = 40 if words else 48  # twice the context
    for name in ("huang", "sinusoidal"):
        wanted = in_a_loop(bundle.load(models / name).model, shards, window)
        assert curves[name] == pytest.approx(wanted, abs=1e-5)
    with (tmp_path / "curves" / "nll_by_position.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["position", "huang", "sinusoidal"]
    assert [int(row[0]) for row in rows] == list(range(window))
    assert [float(row[1]) for row in rows] == curves["huang"]
    assert (tmp_path / "curves" / "nll_by_position.png").stat().st_size > 5000


def test_a_second_run_reads_what_was_measured(run, script, monkeypatch):
    first = run("out=curves")
    monkeypatch.setattr(script("nll_by_position"), "evaluate", None)
    assert run("out=curves", "smooth=4") == first
    with pytest.raises(TypeError):
        run("out=curves", "window=32")


def test_fewer_pieces_are_spread_over_the_split(script, run, tmp_path):
    run("out=curves")
    folder = next((tmp_path / "data" / "shards").iterdir())
    module = script("nll_by_position")
    names = [p.name for p in module.WholeWindows(folder, 8, 2).pieces("validation")]
    everything = [p.name for p in Shards(folder).pieces("validation")]
    assert names == [everything[1], everything[3]]
    assert all(p.tokens % 8 == 0 for p in module.WholeWindows(folder, 8, 0).pieces("validation"))


def test_smoothing_is_a_mean_of_neighbours(script):
    x, y = script("nll_by_position").smoothed([1.0, 2.0, 6.0, 3.0], 3)
    assert x.tolist() == [1, 2]
    assert y.tolist() == pytest.approx([3, 11 / 3])
    assert script("nll_by_position").smoothed([1.0, 2.0], 9)[1].tolist() == [1.5]


def test_what_cannot_be_is_told(run, script, models, tmp_path):
    with pytest.raises(UserError, match="window=99999: no piece of split=validation"):
        run("window=99999")
    with pytest.raises(UserError, match="models: missing"):
        script("nll_by_position").main([])
    tokenizer = build(name="performance", low=40, high=84)
    shape = {"layers": 1, "width": 8, "heads": 2, "feedforward": 8, "context": 8}
    other = bundle.save(
        tmp_path / "other", MusicTransformer(tokenizer.size, **shape), tokenizer, {}
    )
    with pytest.raises(UserError, match="vocabularies differ"):
        script("nll_by_position").main([f"models={models / 'huang'},{other}"])
