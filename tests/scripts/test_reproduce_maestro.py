"""scripts/reproduce/maestro.py on a few tunes: the table, resuming, the quick corpus."""

import csv
import importlib.util
from pathlib import Path

import pytest

from musictx import bundle
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate
from tests.data.helpers import write_songs

FILE = Path(__file__).resolve().parents[2] / "scripts" / "reproduce" / "maestro.py"
spec = importlib.util.spec_from_file_location("reproduce_maestro", FILE)
reproduce = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reproduce)

TINY = ["model.layers=1", "model.width=16", "model.context=32", "trainer.steps=2"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Twelve tunes with a table like MAESTRO's, the last ones held out."""
    folder = write_songs(tmp_path_factory.mktemp("corpus") / "midi", range(14), 30)
    rows = [
        {
            "midi_filename": f"song-{i:03}.mid",
            "split": "train" if i < 10 else "validation" if i < 13 else "test",
            "duration": 100 - i,
        }
        for i in range(14)
    ]
    reproduce.protocol.write_table(folder / "maestro-v3.0.0.csv", rows)
    return folder


def test_the_table_holds_both_protocols_of_every_row_and_seed(corpus, tmp_path, monkeypatch):
    words = [f"path={corpus}", f"out={tmp_path}/runs", "quick=true", *TINY]
    path = reproduce.main([*words, "rows=none,huang", "seeds=0,1"])
    with path.open() as file:
        table = list(csv.DictReader(file))
    assert [(r["row"], r["seed"], r["protocol"]) for r in table] == [
        (name, seed, way)
        for name in ("none", "huang")
        for seed in ("0", "1")
        for way in ("end to end", "sliding")
    ]
    assert {r["steps"] for r in table} == {"2"}
    assert int(table[-1]["parameters"]) > int(table[0]["parameters"])  # the table of distances

    folder = tmp_path / "runs-quick"
    shards = Shards(folder / "shards")
    assert shards.totals("train").pieces == 8
    assert shards.totals("validation").pieces == 2
    assert {p.name for p in shards.pieces()} == {
        f"song-{i:03}.mid" for i in (*range(2, 10), 11, 12)
    }
    model = bundle.load(folder / "huang-seed1").model
    assert float(table[-2]["nats_per_token"]) == evaluate(model, shards).nats_per_token

    def never(*args, **kwargs):
        raise AssertionError("measured again")

    monkeypatch.setattr(reproduce, "WAYS", dict.fromkeys(reproduce.WAYS, never))
    before = path.read_text()
    assert reproduce.main([*words, "rows=none,huang", "seeds=0,1"]).read_text() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rows=plain", "path=x"], "rows=plain: expected some of best, huang"),
        ([], "path: expected"),
        (["path=x", "quick"], "quick: expected NAME=VALUE"),
        (["path=/nowhere", "quick=true"], "expected a folder with maestro-v3.0.0.csv"),
    ],
)
def test_a_mistake_gets_one_sentence(words, message, tmp_path):
    with pytest.raises(UserError, match=message):
        reproduce.main([f"out={tmp_path}/runs", *words])
