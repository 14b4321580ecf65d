"""A batch that cannot fit is refused before the first step, and one that can never is."""

from pathlib import Path

import pytest
import torch

from musictx import cli
from musictx.errors import ConfigError
from musictx.model.transformer import MusicTransformer
from musictx.train import memory
from tests.apps.train_driver import write_corpus

CPU = torch.device("cpu")


def network(**options):
    sizes = {"layers": 2, "width": 32, "heads": 2, "feedforward": 64, "context": 60}
    return MusicTransformer(90, **{**sizes, **options})


@pytest.mark.parametrize("options", [{}, {"layers": 5}, {"feedforward": 512}, {"gates": True}])
def test_a_step_keeps_no_less_than_was_said(options):
    model, kept = network(**options), {}
    ids = torch.randint(4, 90, (3, 60))

    def keep(tensor):
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(ids).square().mean()
    loss.backward()
    assert 0 < memory.least(model.config, 3) <= sum(kept.values())


def test_a_batch_beyond_the_memory_is_refused_with_what_would_fit(monkeypatch):
    config = network().config
    monkeypatch.setattr(memory, "available", lambda device: 10 * memory.least(config, 1) + 5)
    memory.check(config, 10, CPU)
    with pytest.raises(ConfigError, match=r"data\.batch_size=11: .*; expected 10 at most"):
        memory.check(config, 11, CPU)
    monkeypatch.setattr(memory, "available", lambda device: None)
    memory.check(config, 11, CPU)


def test_a_training_is_refused_before_its_folder_is_left(tmp_path, monkeypatch, capsys):
    write_corpus(tmp_path / "midi")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "available", lambda device: 1000)
    words = ["train", "corpus.path=midi", "corpus.workers=1", "init=null", "model=tiny"]
    assert cli.main([*words, "trainer.accelerator=cpu", "data.batch_size=9", "out=run"]) == 2
    assert "data.batch_size=9: a step takes at least" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="there is no /proc/meminfo")
def test_what_this_machine_has_is_what_its_kernel_says():
    words = Path("/proc/meminfo").read_text().split()
    assert memory.available(CPU) == 1024 * int(words[words.index("MemTotal:") + 1])


def test_of_other_devices_nothing_is_assumed():
    assert memory.available(torch.device("meta")) is None
