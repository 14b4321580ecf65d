"""The table of numbers: one row a step, and none from a future that a kill undid."""

import csv

from musictx.train.metrics import COLUMNS, CsvLog, Metrics
from tests.train.fakes import FakeData, fake_training, fit


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_is_logged_at_one_step_is_one_row(tmp_path):
    path = tmp_path / "metrics.csv"
    log = CsvLog(path)
    log.log_metrics({"train_nll": 3.0, "tokens": 5}, step=1)
    log.log_metrics({"train_nll": 2.0, "tokens": 9}, step=2)
    log.log_metrics({"validation_nll": 2.5}, step=2)
    log.finalize("success")
    first, second = rows(path)
    assert tuple(first) == COLUMNS
    assert (first["step"], first["train_nll"], first["validation_nll"]) == ("1", "3", "")
    assert (second["train_nll"], second["validation_nll"], second["tokens"]) == ("2", "2.5", "9")


def test_rows_after_the_checkpoint_are_dropped_on_resume_and_none_comes_twice(tmp_path):
    path = tmp_path / "metrics.csv"
    log = CsvLog(path)
    for step in (1, 2, 3):
        log.log_metrics({"train_nll": float(step)}, step=step)
    log.save()
    log = CsvLog(path, keep_to=2)
    log.log_metrics({"train_nll": 20.0}, step=2)
    log.log_metrics({"train_nll": 30.0}, step=3)
    log.save()
    assert [(r["step"], r["train_nll"]) for r in rows(path)] == [
        ("1", "1"),
        ("2", "2"),
        ("3", "30"),
    ]


def test_a_fresh_run_begins_a_fresh_table(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,whatever\n1,2\n")
    CsvLog(path)
    assert path.read_text() == ",".join(COLUMNS) + "\n"


def test_training_and_validation_loss_are_logged_at_fixed_steps(tmp_path):
    log = CsvLog(tmp_path / "metrics.csv")
    metrics = Metrics(validate_every=40)  # a row every second step
    fit(fake_training(steps=7), FakeData(), every=4, callbacks=[metrics], loggers=[log])
    found = rows(log.path)
    assert [r["step"] for r in found] == ["2", "4", "6", "7"]
    assert [bool(r["train_nll"]) for r in found] == [True, True, True, False]
    assert [bool(r["validation_nll"]) for r in found] == [False, True, False, True]
    assert int(found[1]["tokens"]) > int(found[0]["tokens"]) > 0
    assert float(found[0]["gradient_norm"]) > 0
