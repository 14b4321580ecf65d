"""Options of Lightning's Trainer, devices and processes; the line that shows progress."""

import dataclasses
import inspect
import io
import re

import pytest
import pytorch_lightning as pl
import torch

from musictx.config import TrainerConfig
from musictx.config.trainer import LIGHTNING_FLAGS
from musictx.errors import ConfigError, UserError
from musictx.hydra_config import compose
from musictx.hydra_config.overrides import normalise
from musictx.training import ranks
from musictx.training.progress import Progress, compact
from musictx.training.trainer import build_trainer, describe_device, precision, quiet
from tests.training.fakes import fake_training, fit, trainer_options


def test_the_precision_is_bf16_only_where_the_machine_is_fast_in_it(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    for gpu, widest, on_gpu, on_cpu in (
        ((9, 0), "AVX512", "bf16-mixed", "bf16-mixed"),
        ((7, 5), "AVX2", "32-true", "32-true"),
        (None, "AVX512", "bf16-mixed", "bf16-mixed"),
        (None, "DEFAULT", "32-true", "32-true"),  # torch may be held to less than the CPU has
    ):
        monkeypatch.setattr(torch.cuda, "is_available", lambda it=gpu: it is not None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda it=gpu: it)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda it=widest: it)
        assert precision("fast", "auto") == on_gpu
        assert precision("fast", "cpu") == on_cpu
        assert precision("auto", "cpu") == "32-true"
        assert precision("auto", "auto") == (on_gpu if gpu else "32-true")
        assert precision("bf16-mixed", "cpu") == "bf16-mixed"  # as asked


def test_flags_reach_lightnings_trainer(tmp_path):
    flags = {"accumulate_grad_batches": 3, "val_check_interval": 6, "gradient_clip_val": 0.5}
    flags |= {"max_steps": 7, "limit_val_batches": 2, "num_sanity_val_steps": 1, "min_steps": 2}
    options = trainer_options(accelerator="cpu", devices="1", profiler="simple", **flags)
    with quiet():
        trainer = build_trainer(options, tmp_path)
    assert {name: getattr(trainer, name) for name in flags} == flags
    assert isinstance(trainer.profiler, pl.profilers.SimpleProfiler)
    assert "Clock" in [c.state_key for c in trainer.callbacks]  # as in older checkpoints
    assert describe_device(trainer) == "cpu"
    assert trainer.default_root_dir == str(tmp_path)


def test_every_flag_of_lightnings_but_ten_is_an_option_or_passed_on():
    theirs = set(inspect.signature(pl.Trainer.__init__).parameters) - {"self"}
    ours = {field.name for field in dataclasses.fields(TrainerConfig)}
    assert {*ours, *LIGHTNING_FLAGS} - theirs == {"flags"}
    missing = theirs - {*ours, *LIGHTNING_FLAGS}
    assert len(missing) == 10  # as docs/training.md says
    for name in missing:
        with pytest.raises(ConfigError, match=f"trainer.{name}: no such option"):
            normalise([f"trainer.{name}=1"])


def test_flags_that_are_passed_on_are_typed_as_the_others():
    given = dict.fromkeys(LIGHTNING_FLAGS, 7) | {"fast_dev_run": 1}
    made = compose([f"trainer.{name}={value}" for name, value in given.items()]).trainer
    assert made == trainer_options(**given)
    for limit in ("limit_train_batches", "overfit_batches"):  # epochs that end are steps
        made = trainer_options(**{limit: 4}, max_epochs=3, accumulate_grad_batches=2)
        assert (made.max_steps, made.flags["max_epochs"]) == (6, -1)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"deterministic": "soon"}, r"^trainer\.deterministic=soon: expected .*warn"),
        ({"log_every_n_steps": 1.5}, r"^trainer\.log_every_n_steps=1\.5: expected .*int"),
        ({"detect_anomaly": "yes"}, r"^trainer\.detect_anomaly=yes: expected bool"),
        ({"profiler": "watch"}, r"trainer\.profiler=watch: not possible .*only be one of"),
        ({"limit_val_batches": -1}, r"trainer\.limit_val_batches=-1: not possible .*invalid value"),
    ],
)
def test_a_value_that_lightning_does_not_take_is_one_sentence(flags, sentence):
    assert build_trainer(trainer_options(deterministic="warn", accelerator="cpu"))
    torch.use_deterministic_algorithms(False)  # or it would stay so for the tests after this one
    with pytest.raises(UserError, match=sentence):
        build_trainer(trainer_options(accelerator="cpu", **flags))


TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
SLURM = {"SLURM_PROCID": "0", "SLURM_NTASKS": "6", "SLURM_NNODES": "3", "SLURM_JOB_NAME": "train"}


def test_numbers_have_three_digits_and_a_unit():
    numbers = (0.5, 812, 999.6, 12_345, 999_400, 999_600, 4.561e6)
    expected = ["0.5", "812", "1k", "12.3k", "999k", "1M", "4.56M"]
    assert [compact(number) for number in numbers] == expected


def test_a_launcher_says_how_many_processes_train_together():
    for environment, nodes in ((TORCHRUN, 2), (SLURM, 3)):
        flags = ranks.from_environment(TrainerConfig(), environment)
        assert (flags.devices, flags.flags["num_nodes"], flags.strategy) == ("2", nodes, "ddp")
        same = trainer_options(devices="2", num_nodes=nodes)
        assert ranks.from_environment(same, environment) == flags
        with pytest.raises(ConfigError, match=r"trainer\.devices=8: expected 2"):
            ranks.from_environment(TrainerConfig(devices="8"), environment)
    options = TrainerConfig(accelerator="cpu")
    others = [SLURM | {"SLURM_JOB_NAME": "bash"}, SLURM | {"SLURM_NTASKS": "1"}]
    for environment in ({}, {"WORLD_SIZE": "2", "LOCAL_RANK": "1"}, *others):
        assert ranks.from_environment(options, environment) == options


def test_the_second_machine_of_a_run_started_by_hand_is_not_the_first(monkeypatch):
    for rank, environment, first in ((0, {}, True), (0, {"NODE_RANK": "1"}, False), (1, {}, False)):
        monkeypatch.setattr(ranks.rank_zero_only, "rank", rank, raising=False)
        assert ranks.is_first(environment) == first


@pytest.mark.parametrize("accelerator", ["cpu", "auto"])
def test_more_devices_than_there_are_is_refused(accelerator, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    many = TrainerConfig(accelerator=accelerator, devices="9999")
    with pytest.raises(ConfigError, match=r"trainer\.devices=9999: expected at most \d+"):
        ranks.from_environment(many, {})


def test_without_a_terminal_there_are_plain_lines_with_everything():
    out = io.StringIO()
    fit(fake_training(), callbacks=[Progress(every=0.0, file=out)])
    lines = out.getvalue().splitlines()
    assert len(lines) == 12
    values = r"train/loss \d\.\d{3}  lr [\de.-]+(  val/loss [\d.]+)?(  .*/s)?"
    assert all(re.fullmatch(rf"step \d+/12  {values}  \d+ s left", line) for line in lines), lines
    assert "val/loss" in lines[-1]


def test_on_a_terminal_there_is_one_bar_and_words_stand_above_it(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    progress = Progress(file=out)
    progress.interval = 0.0
    fit(fake_training(), callbacks=[progress])
    assert "\n" not in out.getvalue().strip()
    assert "100%" in out.getvalue()
    progress.print("a sentence")
    assert out.getvalue().endswith("a sentence\n")
