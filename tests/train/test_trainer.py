"""What is asked of Lightning."""

import torch

from musictx.config import TrainerConfig
from musictx.train.quiet import quiet_lightning
from musictx.train.trainer import build_trainer, describe_device, precision


def test_the_precision_is_bf16_only_where_the_machine_has_it(monkeypatch):
    assert precision("auto", "cpu") == "32-true"
    assert precision("bf16", "cpu") == "bf16-mixed"
    assert precision("32", "gpu") == "32-true"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert precision("auto", "auto") == "bf16-mixed"
    assert precision("auto", "cpu") == "32-true"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert precision("auto", "gpu") == "32-true"


def test_the_trainer_leaves_batches_and_files_to_us():
    with quiet_lightning():
        trainer = build_trainer(TrainerConfig(accelerator="cpu", devices="1", accumulate=3))
    assert trainer.accumulate_grad_batches == 3
    assert trainer.max_epochs == -1
    assert not trainer.checkpoint_callbacks
    assert not trainer.loggers
    assert describe_device(trainer) == "cpu"
