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
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from musictx.errors import UserError
from musictx.files import write_table
from scripts.words import musictx, run, with_rest

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
ROWS = [*PAPER, "best", "calibrated"]
COLUMNS = (
    "row", "transposition", "seed", "validation_nats", "test_nats", "parameters", "steps",
    "tokens_seen", "minutes", "best_step", "device", "torch", "command",
)  # fmt: skip
#: What makes two lines the same measurement.
SAME = ("row", "transposition", "seed")
DEFAULTS = {
    "path": "",
    "rows": ",".join(ROWS),
    "transposition": "true,false",
    "seeds": "0",
    "runs": "runs/jsb",
    "csv": str(Path(__file__).with_suffix(".csv")),
    "rehearse": "false",
}
REHEARSAL = [
    *("trainer.max_steps=6", "trainer.val_check_interval=6", "data.validation_windows=2"),
    *("model.width=32", "model.heads=2", "model.feedforward=32", "model.layers=2"),
]


def options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options of this script, and the words with a dot, which are for ``musictx train``."""
    given, rest = with_rest(words, DEFAULTS)
    if not Path(given["path"]).is_file():
        raise UserError(f"path={given['path']}: expected the JSON file of the chorales")
    for row in given["rows"].split(","):
        if row not in ROWS:
            raise UserError(f"rows={row}: expected some of {','.join(ROWS)}")
    if given["rehearse"] == "true" and given["csv"] == DEFAULTS["csv"]:
        given["csv"] = str(Path(given["runs"], "rehearsal.csv"))  # not among the real ones
    return given, rest


def train(
    row: str, transposed: str, seed: str, folder: Path, given: Mapping[str, str]
) -> list[str]:
    """The words of the training of a row."""
    words = ["train", f"experiment=jsb/{row}", f"corpus.path={given['path']}", f"seed={seed}"]
    words += [f"corpus.shards={given['runs']}/shards", f"out={folder}"]
    words += ["corpus.augment.transpose=0"] if transposed == "false" else []
    return words + (REHEARSAL if given["rehearse"] == "true" else [])


def evaluate(split: str, folder: Path, given: Mapping[str, str]) -> list[str]:
    """The words of its measurement: whole pieces, of which the longest has 2560 notes."""
    corpus = ["corpus=jsb", f"corpus.path={given['path']}", f"corpus.shards={given['runs']}/shards"]
    out = folder.with_name(folder.name + f"-{split}.json")
    return ["evaluate", f"model={folder}", *corpus, f"split={split}", "window=2560", f"out={out}"]


def calibrate(model: Path, transposed: str, given: Mapping[str, str], rest: Sequence[str]) -> Path:
    """The calibrated copy of a model folder; the sibling is trained once for all seeds."""
    words = [f"path={given['path']}", f"models={model}"]
    words += [f"runs={given['runs']}/siblings-{transposed}", *rest]
    words += ["corpus.augment.transpose=0"] if transposed == "false" else []
    words += ["held=1", *REHEARSAL] if given["rehearse"] == "true" else []
    command = [sys.executable, "-m", "scripts.reproduce.calibrate", *words]
    if status := subprocess.run(command).returncode:
        sys.exit(status)
    return model.with_name(model.name + "-calibrated")


def measure(
    row: str, transposed: str, seed: str, given: Mapping[str, str], rest: list[str]
) -> dict[str, Any]:
    """Train and evaluate one row; the line for the table."""
    recipe = "best" if row == "calibrated" else row
    how = "transposed" if transposed == "true" else "as-is"
    folder = Path(given["runs"], f"{recipe}-{how}-{seed}")
    if given["rehearse"] == "true":
        folder = folder.with_name(folder.name + "-rehearsal")
    command = [*train(recipe, transposed, seed, folder, given), *rest]
    musictx(*command)
    model = folder / "model"
    if row == "calibrated":
        model = calibrate(model, transposed, given, rest)
    splits = ["validation"]
    splits += ["test"] if json.loads(Path(given["path"]).read_text()).get("test") else []
    found = {}
    for split in splits:
        musictx(*evaluate(split, model, given))
        found[split] = json.loads(model.with_name(f"{model.name}-{split}.json").read_text())
    status = json.loads((folder / "status.json").read_text())
    card = json.loads((folder / "model" / "config.json").read_text())["card"]
    return {
        "row": row,
        "transposition": transposed,
        "seed": seed,
        "validation_nats": f"{found['validation']['nats_per_token']:.4f}",
        "test_nats": f"{found['test']['nats_per_token']:.4f}" if "test" in found else "",
        "parameters": found["validation"]["parameters"],
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
    order = {name: number for number, name in enumerate(ROWS)}
    for row, transposed in sorted(groups, key=lambda g: (g[1] != "true", order.get(g[0], 99), g)):
        mine = groups[row, transposed]
        average = {
            name: mean(float(line[name]) for line in mine)
            for name in ("parameters", "tokens_seen", "minutes")
        }
        seeds = ",".join(sorted((str(line["seed"]) for line in mine), key=int))
        rows.append(
            f"| {row} | {PAPER.get(row, '')} | {'yes' if transposed == 'true' else 'no'} | {seeds} "
            f"| {nats(mine, 'validation_nats')} | {nats(mine, 'test_nats')} | "
            f"{average['parameters'] / 1e6:.2f} M | {average['tokens_seen'] / 1e6:.1f} M | "
            f"{average['minutes']:.1f} |"
        )
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
        if not log.parent.name.endswith("-rehearsal"):
            axes.plot(*curve(read(log)), label=log.parent.name, linewidth=1.2)
    axes.set(xlabel="tokens seen, millions", ylabel="validation, nats per note", ylim=(0.25, 0.8))
    if axes.lines:
        axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(words: list[str]) -> None:
    given, rest = options(words)
    target = Path(given["csv"])
    lines: list[dict[str, Any]] = []
    for transposed in given["transposition"].split(","):
        for row in given["rows"].split(","):
            for seed in given["seeds"].split(","):
                lines = record(target, measure(row, transposed, seed, given, rest))
    draw(Path(given["runs"]), target.with_suffix(".png"))
    print(f"\n{target}\n\n{table(lines)}")


if __name__ == "__main__":
    run(main)
