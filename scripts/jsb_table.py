"""The chorale table as file, Markdown and curves: what the scripts that train its rows share.

scripts/reproduce/jsb.py trains them by musictx commands, scripts/gpu/jsb.py without Hydra on a GPU.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

#: What Huang et al. (2018), table 1, report for the validation split (as other papers cite it).
PAPER = {
    "plain": 0.417,
    "sinusoids": 0.398,
    "labels": 0.370,
    "relative": 0.357,
    "relative_labels": 0.347,
    "pitch_time": 0.335,
}
#: The files of conf/experiment/jsb, in the order of the table.
ROWS = [*PAPER, "best"]
COLUMNS = (
    "row",
    "transposition",
    "seed",
    "validation_nats",
    "test_nats",
    "parameters",
    "steps",
    "tokens_seen",
    "minutes",
    "best_step",
    "device",
    "torch",
    "command",
)
#: What makes two lines the same measurement.
SAME = ("row", "transposition", "seed")


def run_name(row: str, transposition: str, seed: str) -> str:
    """The folder of a run."""
    return f"{row}-{'transposed' if transposition == 'true' else 'as-is'}-{seed}"


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of the table at ``path``, none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """``lines`` as the table at ``path``, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.writing")
    with beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(lines)
    os.replace(beside, path)


def record(path: Path, line: dict[str, Any]) -> list[dict[str, Any]]:
    """``line`` in the table at ``path``, in place of an older one of the same row; all lines."""
    lines = [old for old in read(path) if any(old[key] != str(line[key]) for key in SAME)]
    lines.append(line)
    write(path, lines)
    return lines


def base(row: str) -> str:
    """The experiment of a row; what follows a dash is a remark on how it was changed."""
    return row.partition("-")[0]


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Markdown: a line for each row and transposition, the paper's figure beside it. Of several
    seeds the mean, and the standard deviation after +-."""
    groups: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["row"], line["transposition"] == "true"), []).append(line)
    rows = [
        "| row | paper | transposed | seeds | validation | test | parameters | tokens seen | min |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = {name: number for number, name in enumerate(ROWS)}
    for row, transposed in sorted(
        groups, key=lambda n: (not n[1], order.get(base(n[0]), len(ROWS)), n[0])
    ):
        mine = groups[row, transposed]

        def average(column: str, mine: list[Mapping[str, Any]] = mine) -> float:
            return mean(float(line[column]) for line in mine)

        rows.append(
            f"| {row} | {PAPER.get(base(row), '')} | {'yes' if transposed else 'no'} | "
            f"{','.join(sorted((str(line['seed']) for line in mine), key=int))} | "
            f"{_nats(mine, 'validation_nats')} | {_nats(mine, 'test_nats')} | "
            f"{average('parameters') / 1e6:.2f} M | {average('tokens_seen') / 1e6:.1f} M | "
            f"{average('minutes'):.1f} |"
        )
    return "\n".join(rows)


def _nats(lines: list[Mapping[str, Any]], column: str) -> str:
    values = [float(line[column]) for line in lines if line[column]]
    if len(values) < len(lines):
        return "-"
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{mean(values):.4f} +- {stdev(values):.4f}"


def learning_curve(log: Iterable[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Millions of tokens seen, and validation nats, of a run's metrics.csv. A validation between
    two rows about training has no count of its own: it gets that of the row before."""
    x, y, seen = [], [], 0.0
    for line in log:
        if line.get("tokens"):
            seen = int(line["tokens"]) / 1e6
        if line.get("validation_nll"):
            x.append(seen)
            y.append(float(line["validation_nll"]))
    return x, y


def curves(runs: Path, path: Path) -> None:
    """Validation nats by tokens seen of every run under ``runs``: a PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for log in sorted(runs.glob("*/metrics.csv")):
        if log.parent.name.endswith("-quick"):
            continue
        x, y = learning_curve(read(log))
        axes.plot(x, y, label=log.parent.name, linewidth=1.2)
    axes.set(xlabel="tokens seen, millions", ylabel="validation, nats per note", ylim=(0.25, 0.8))
    if axes.lines:
        axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
