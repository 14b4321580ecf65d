"""The chorale table of Huang et al. (2018): train and measure every row, one after the other.

    python -m scripts.reproduce.jsb path=Jsb16thSeparated.json
    python -m scripts.reproduce.jsb path=... rows=relative,pitch_time transposition=true seeds=0,1,2
    python -m scripts.reproduce.jsb path=... trainer.accelerator=gpu trainer.max_steps=2400
    python -m scripts.reproduce.jsb path=... rehearse=true       every row for a few steps: minutes

A row is a file of experiment/jsb in musictx/chorale/conf. Each is trained with transposition (up to
so many semitones within the voices' ranges) and without, and measured on the published validation
split, and on the test split if the file has it: nats per note, all four voices, repeats counted,
silence in the vocabulary, ends of pieces not counted, whole pieces, the first token scored from bos
alone. The weights are those of the best validation, those of ``best`` of the last step;
``calibrated`` is ``best`` after scripts/reproduce/calibrate.py. Words with a dot in them go to
every training.

Every step is a musictx command, printed before it runs. What is done is not done again: a stopped
run goes on, a finished one is only read. ``csv`` has a line for each row, transposition and seed;
the learning curves go to the .png beside it, the table is printed last.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from musictx.errors import UserError
from musictx.files import write_table
from scripts.reproduce import calibrate
from scripts.words import musictx, run

#: What Huang et al. (2018), table 1, report for the validation split (as other papers cite it).
PAPER = {
    "plain": 0.417,
    "sinusoids": 0.398,
    "labels": 0.370,
    "relative": 0.357,
    "relative_labels": 0.347,
    "pitch_time": 0.335,
}
#: The files of musictx/chorale/conf/experiment/jsb, in the order of the table.
ROWS = (*PAPER, "best", "calibrated")
COLUMNS = (
    "row", "transposition", "seed", "validation_nats", "test_nats", "parameters", "steps",
    "tokens_seen", "minutes", "best_step", "device", "torch", "command",
)  # fmt: skip
TABLE = Path(__file__).with_suffix(".csv")
#: What makes two lines the same measurement.
SAME = ("row", "transposition", "seed")
REHEARSAL = {
    **{"trainer.max_steps": 6, "trainer.val_check_interval": 6, "data.validation_windows": 2},
    **{"model.width": 32, "model.heads": 2, "model.feedforward": 32, "model.layers": 2},
}


def measure(
    row: str, transposed: str, seed: str, path: Path, runs: Path, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Train and evaluate one row with the options ``more``; the line for the table."""
    recipe = "best" if row == "calibrated" else row
    how = "transposed" if transposed == "true" else "as-is"
    folder, corpus = runs / f"{recipe}-{how}-{seed}", f"corpus.path={path}"
    if transposed == "false":
        more = {"corpus.augment.transpose": 0, **more}
    command = ["train", f"experiment=jsb/{recipe}", corpus, f"seed={seed}"]
    command += [f"corpus.shards={runs}/shards", f"out={folder}"]
    command += [f"{name}={value}" for name, value in more.items()]
    musictx(*command)
    model = folder / "model"
    if row == "calibrated":  # the sibling is trained once for all seeds
        siblings = runs / f"siblings-{transposed}"
        (model,) = calibrate.main(path, [str(model)], runs=siblings, **more)
    splits = ["validation"] + ["test"] * bool(json.loads(path.read_text()).get("test"))
    numbers = {}
    for split in splits:  # whole pieces, of which the longest has 2560 notes
        out = model.with_name(f"{model.name}-{split}.json")
        words = [corpus, f"corpus.shards={runs}/shards", f"split={split}", "window=2560"]
        musictx("evaluate", f"model={model}", "corpus=jsb", *words, f"out={out}")
        numbers[split] = json.loads(out.read_text())
    status = json.loads((folder / "status.json").read_text())
    card = json.loads((folder / "model" / "config.json").read_text())["card"]
    return {
        "row": row,
        "transposition": transposed,
        "seed": seed,
        "validation_nats": f"{numbers['validation']['nats_per_token']:.4f}",
        "test_nats": f"{numbers['test']['nats_per_token']:.4f}" if "test" in numbers else "",
        "parameters": numbers["validation"]["parameters"],
        "steps": status["step"],
        "tokens_seen": card["training"]["tokens seen"],
        "minutes": f"{status['seconds'] / 60:.1f}",
        "best_step": card["numbers"]["of step"] or status["step"],
        "device": card["training"]["device"],
        "torch": card["training"]["torch"],
        "command": "musictx " + shlex.join(command),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a table, none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def record(path: Path, line: dict[str, Any]) -> list[dict[str, Any]]:
    """``line`` in the table at ``path``, in place of an older one of the same row; all lines."""
    lines = [old for old in read(path) if any(old[key] != str(line[key]) for key in SAME)]
    lines.append(line)
    write_table(path, lines, COLUMNS)
    return lines


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Markdown: a line for each row and transposition, the paper's figure beside it. Of several
    seeds the mean, and the standard deviation after +-."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["row"], line["transposition"]), []).append(line)
    rows = [
        "| row | paper | transposed | seeds | validation | test | parameters | tokens seen | min |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for transposed, row in product(("true", "false"), ROWS):
        if mine := groups.get((row, transposed)):
            size, seen, minutes = (
                mean(float(line[name]) for line in mine)
                for name in ("parameters", "tokens_seen", "minutes")
            )
            columns = [row, PAPER.get(row, ""), "yes" if transposed == "true" else "no"]
            columns += [",".join(sorted((str(line["seed"]) for line in mine), key=int))]
            columns += [nats(mine, "validation_nats"), nats(mine, "test_nats")]
            columns += [f"{size / 1e6:.2f} M", f"{seen / 1e6:.1f} M", f"{minutes:.1f}"]
            rows.append(f"| {' | '.join(map(str, columns))} |")
    return "\n".join(rows)


def nats(lines: list[Mapping[str, Any]], column: str) -> str:
    values = [float(line[column]) for line in lines if line[column]]
    if len(values) < len(lines):
        return "-"
    spread = f" +- {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{mean(values):.4f}{spread}"


def curve(log: Iterable[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Millions of tokens seen, and validation nats, of a run's metrics.csv. A validation between
    two rows about training has no count of its own: it gets that of the row before."""
    x, y, seen = [], [], 0.0
    for line in log:
        seen = int(float(line.get("train/tokens") or seen * 1e6)) / 1e6
        if line.get("val/loss"):
            x.append(seen)
            y.append(float(line["val/loss"]))
    return x, y


def draw(runs: Path, path: Path) -> None:
    """Validation nats by tokens seen of every run under ``runs``: a PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for log in sorted(runs.glob("*/metrics.csv")):
        axes.plot(*curve(read(log)), label=log.parent.name, linewidth=1.2)
    axes.set(xlabel="tokens seen, millions", ylabel="validation, nats per note", ylim=(0.25, 0.8))
    if axes.lines:
        axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(
    path: Path,
    rows: Sequence[str] = ROWS,
    transposition: Sequence[str] = ("true", "false"),
    seeds: Sequence[str] = ("0",),
    runs: Path = Path("runs/jsb"),
    csv: Path = TABLE,
    rehearse: bool = False,
    **more: Any,
) -> None:
    if not path.is_file():
        raise UserError(f"path={path}: expected the JSON file of the chorales")
    if unknown := [row for row in rows if row not in ROWS]:
        raise UserError(f"rows={unknown[0]}: expected some of {','.join(ROWS)}")
    if rehearse:  # not among the real ones
        runs, more = runs / "rehearsal", {**REHEARSAL, **more}
        csv = runs / csv.name
    lines: list[dict[str, Any]] = []
    for transposed, row, seed in product(transposition, rows, seeds):
        lines = record(csv, measure(row, transposed, seed, path, runs, more))
    draw(runs, csv.with_suffix(".png"))
    print(f"\n{csv}\n\n{table(lines)}")


if __name__ == "__main__":
    run(main)
