"""The chorale table of Huang et al. (2018): train and measure every row, one after the other.

    python scripts/reproduce/jsb.py path=Jsb16thSeparated.json
    python scripts/reproduce/jsb.py path=... rows=relative,pitch_time transposition=true seeds=0,1,2
    python scripts/reproduce/jsb.py path=... quick=true      every row for a few steps: minutes

A row is a file of conf/experiment/jsb. Each is trained once with transposition (up to six semitones
within the voices' ranges) and once without, and measured on the published validation split, and on
the test split if the file has it: nats per note, all four voices, repeats counted, silence in the
vocabulary, ends of pieces not counted, whole pieces, the first token scored from bos alone. The
weights are those of the best validation.

Every step is a musictx command, printed before it runs. What is done is not done again: a stopped
run goes on, a finished one is only read. Results go to ``csv`` (one line for each row,
transposition and seed), learning curves to the .png beside it, the table is printed last.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from musictx.errors import UserError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import jsb_table
import options

HERE = Path(__file__).resolve().parent
DEFAULTS: dict[str, Any] = {
    "path": None,
    "rows": jsb_table.ROWS,
    "transposition": ["true", "false"],
    "seeds": ["0"],
    "steps": 0,  # 0: as the experiment says
    "set": [],  # further options of every training, such as model.dropout=0.3
    "runs": "runs/jsb",
    "csv": str(HERE / "jsb.csv"),
    "quick": False,
}


def run(*words: str) -> None:
    """One musictx command, as a person would type it; stops the script if it fails."""
    print("\n$ musictx " + " ".join(shlex.quote(word) for word in words), flush=True)
    status = subprocess.run([sys.executable, "-m", "musictx", *words]).returncode
    if status:
        sys.exit(status)


def measure(row: str, transposition: str, seed: str, given: dict[str, Any]) -> dict[str, Any]:
    """Train and evaluate one row; the line for the table."""
    name = jsb_table.run_name(row, transposition, seed)
    folder = Path(given["runs"], name + ("-quick" if given["quick"] else ""))
    train = ["train", f"experiment=jsb/{row}", f"corpus.path={given['path']}", f"seed={seed}"]
    train += [f"corpus.shards={given['runs']}/shards", f"out={folder}", *given["set"]]
    if transposition != "true":
        train.append("corpus.augment.transpose=0")
    if given["quick"]:
        train += ["trainer.steps=6", "trainer.validate_every=6", "trainer.validation_windows=2"]
        train += ["model.width=32", "model.heads=2", "model.feedforward=32", "model.layers=2"]
    elif given["steps"]:
        train.append(f"trainer.steps={given['steps']}")
    run(*train)
    nats = {}
    for split in ("validation", "test"):
        if split == "test" and not json.loads(Path(given["path"]).read_text()).get("test"):
            continue
        out = folder / f"{split}.json"
        corpus = ["corpus=jsb", f"corpus.path={given['path']}", f"split={split}"]
        corpus += [f"corpus.shards={given['runs']}/shards", "window=2560"]  # the longest piece
        run("evaluate", f"model={folder}/model", *corpus, f"out={out}")
        nats[split] = json.loads(out.read_text())
    status = json.loads((folder / "status.json").read_text())
    card = yaml.safe_load((folder / "model" / "config.yaml").read_text())["card"]
    return {
        "row": row,
        "transposition": transposition,
        "seed": seed,
        "validation_nats": f"{nats['validation']['nats_per_token']:.4f}",
        "test_nats": f"{nats['test']['nats_per_token']:.4f}" if "test" in nats else "",
        "parameters": nats["validation"]["parameters"],
        "steps": status["step"],
        "tokens_seen": card["training"]["tokens seen"],
        "minutes": f"{status['seconds'] / 60:.1f}",
        "best_step": card["numbers"]["of step"],
        "device": card["training"]["device"],
        "torch": card["training"]["torch"],
        "command": "musictx " + " ".join(train),
    }


def main(words: list[str]) -> None:
    given = options.read(words, DEFAULTS)
    if not given["path"] or not Path(given["path"]).is_file():
        raise UserError(f"path={given['path']}: expected the JSON file of the chorales")
    for row in given["rows"]:
        if row not in DEFAULTS["rows"]:
            raise UserError(f"rows={row}: expected some of " + ",".join(DEFAULTS["rows"]))
    target = Path(given["csv"])
    if given["quick"] and given["csv"] == DEFAULTS["csv"]:
        target = Path(given["runs"], "quick.csv")  # not among the real ones
    lines: list[dict[str, Any]] = []
    for transposition in given["transposition"]:
        for row in given["rows"]:
            for seed in given["seeds"]:
                lines = jsb_table.record(target, measure(row, transposition, seed, given))
    jsb_table.curves(Path(given["runs"]), target.with_suffix(".png"))
    print(f"\n{target}\n\n{jsb_table.table(lines)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
