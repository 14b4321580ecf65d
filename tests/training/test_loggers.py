"""The table of a run that is stopped, killed and gone on with."""

import csv

from musictx.training.loggers import MetricsTable


def rows(folder) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_is_logged_at_one_step_is_one_row(tmp_path):
    table = MetricsTable(tmp_path)
    table.log_metrics({"train/loss": 2.0, "epoch": 0}, 0)
    table.log_metrics({"train/loss": 1.5, "epoch": 0}, 1)
    table.log_metrics({"val/loss": 1.75}, 1)
    table.save()
    assert rows(tmp_path) == [
        {"step": "1", "train/loss": "2", "val/loss": ""},
        {"step": "2", "train/loss": "1.5", "val/loss": "1.75"},
    ]


def test_rows_of_steps_that_were_lost_are_replaced(tmp_path):
    killed = MetricsTable(tmp_path)
    for step in range(5):
        killed.log_metrics({"loss": float(step)}, step)
    killed.save()
    resumed = MetricsTable(tmp_path)
    resumed.log_metrics({"loss": 9.0}, 2)
    resumed.log_metrics({"lr": 0.5}, 2)
    resumed.finalize("success")
    assert [(r["step"], r["loss"], r["lr"]) for r in rows(tmp_path)] == [
        ("1", "0", ""), ("2", "1", ""), ("3", "9", "0.5"),
    ]  # fmt: skip


def test_a_kill_loses_only_the_rows_since_the_last_flush(tmp_path):
    table = MetricsTable(tmp_path, flush_logs_every_n_steps=4)
    for step in range(7):
        table.log_metrics({"loss": float(step)}, step)
    assert [r["step"] for r in rows(tmp_path)] == ["1", "2", "3", "4"]


def test_a_garbled_table_is_no_harm(tmp_path):
    for content in (b"step,loss\n1,2\n3\n2,\xff,4,5\nx\n", b"\0\1 no table"):
        (tmp_path / "metrics.csv").write_bytes(content)
        table = MetricsTable(tmp_path)
        table.log_metrics({"loss": 1.0}, 8)
        table.save()
        assert [r["step"] for r in rows(tmp_path)][-1] == "9"
