"""scripts/reproduce/maestro.py on six short pieces: the table; what is done is only read."""

import csv
import json

import pytest

from musictx import cli
from musictx.errors import UserError
from tests.data.helpers import write_songs


@pytest.fixture
def maestro(tmp_path):
    folder = write_songs(tmp_path / "maestro", range(6), notes=60)
    splits = ["train"] * 4 + ["validation"] * 2
    lines = [f"{split},song-{i:03}.mid" for i, split in enumerate(splits)]
    (folder / "maestro.csv").write_text("split,midi_filename\n" + "\n".join(lines) + "\n")
    return folder


@pytest.mark.slow
def test_a_row_is_trained_and_measured_both_ways(script, maestro, tmp_path, monkeypatch):
    module, ran = script("reproduce/maestro.py"), []

    def run(*words):  # in this process, which is quicker than a new one
        ran.append(words[0])
        assert cli.main(list(words)) in (None, 0)

    monkeypatch.setattr(module, "musictx", run)
    words = [f"path={maestro}", f"out={tmp_path}/runs", "rows=huang", "rehearse=true"]
    words += ["trainer.accelerator=cpu", "corpus.workers=1"]
    path = module.main(words)
    with path.open(newline="") as file:
        first, second = list(csv.DictReader(file))
    assert (first["protocol"], second["protocol"]) == ("end to end", "sliding")
    assert (first["position"], first["steps"], first["window"]) == ("huang", "8", "256")
    assert second["stride"] == "64"
    told = json.loads((path.parent / "huang-seed0" / "validation-sliding.json").read_text())
    assert float(second["nats_per_token"]) == told["nats_per_token"]
    assert ran == ["train", "evaluate", "evaluate"]
    module.main(words)
    assert ran == ["train", "evaluate", "evaluate", "train"], "what is measured is only read"


def test_mistakes_are_told(script, maestro):
    module = script("reproduce/maestro.py")
    with pytest.raises(UserError, match="rows=organ: expected some of"):
        module.main([f"path={maestro}", "rows=organ"])
    with pytest.raises(UserError, match="path: expected path=FOLDER"):
        module.main([])
    with pytest.raises(UserError, match="fast: expected name=value"):
        module.main([f"path={maestro}", "fast"])
