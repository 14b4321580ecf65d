"""Training in processes of its own: two learn what one learns from the same global batch, and a
signal stops all of them."""

import csv
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from musictx import bundle
from musictx.apps import train
from musictx.training import checkpoint, ranks
from tests.apps.train_driver import CHECKOUT, ENVIRONMENT, config, words
from tests.browser.driven import free_port
from tests.browser.served import wait_for

STEPS = ["trainer.max_steps=4", "trainer.val_check_interval=4", "model.dropout=0"]
STEPS.append("trainer.accumulate_grad_batches=1")


def losses(folder: Path) -> list[tuple[float, ...]]:
    rows = [*csv.DictReader((folder / "metrics.csv").read_text().splitlines())]
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    steps = [(float(row["train/loss"]), float(row["train/grad_norm"])) for row in rows]
    return [*steps, (float(rows[-1]["val/loss"]), float(rows[-1]["train/tokens"]))]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of its own on Linux")
def test_two_nodes_on_two_addresses_give_the_losses_of_one(root, tmp_path):
    """Each node is a launcher of one process; the second one is at 127.0.0.2."""
    train.run(config(root, tmp_path / "one", *STEPS, "data.batch_size=4"))
    port, nodes = free_port(), []
    for rank in (0, 1):
        command = ["torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--rdzv-id=1"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]
        # Heartbeats may be late on a busy machine: torchrun is to wait for them.
        command += ["--rdzv-conf=keep_alive_max_attempt=100", f"--local-addr=127.0.0.{rank + 1}"]
        typed = words(root, tmp_path / "two", *STEPS, "trainer.devices=auto")
        node = subprocess.Popen(
            [sys.executable, "-m", *command, "-m", "musictx", "train", *typed],
            cwd=CHECKOUT, env=ENVIRONMENT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        nodes.append(node)
    outputs = [node.communicate(timeout=300)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(outputs)
    # torchrun numbers the nodes in the order in which they connect
    assert sorted(one.count("on 2 x cpu") for one in outputs) == [0, 1], "\n".join(outputs)
    for two, one in zip(losses(tmp_path / "two"), losses(tmp_path / "one"), strict=True):
        assert two == pytest.approx(one, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "number", "status"), [(1, signal.SIGINT, 130), (2, signal.SIGTERM, 143)]
)
def test_a_signal_leaves_checkpoint_model_and_status(devices, number, status, root, tmp_path):
    if devices > ranks.workers.cores():
        pytest.skip("one core")
    more = [f"trainer.devices={devices}", "trainer.max_steps=1000000", *STEPS[1:]]
    more += ["trainer.strategy=ddp"] * (devices > 1)
    with subprocess.Popen(
        [sys.executable, "-m", "musictx", "train", *words(root, tmp_path / "run", *more)],
        cwd=CHECKOUT, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as parent:  # fmt: skip
        try:
            last = tmp_path / "run" / "last.ckpt"
            wait_for(lambda: last.is_file() or parent.poll() is not None, 180)
            assert parent.poll() is None
            if number == signal.SIGINT:
                os.killpg(parent.pid, number)  # as a terminal does, to all of them
            else:
                parent.send_signal(number)
            out, err = parent.communicate(timeout=180)
        finally:
            with suppress(ProcessLookupError):  # all have ended, as they should
                os.killpg(parent.pid, signal.SIGKILL)
    assert parent.returncode == status, err
    lines = ["stopping after this step ... (Ctrl-C again: at once)"]
    assert err.strip().splitlines() == lines + ["musictx: interrupted"] * (status == 130)
    assert out.count("stopped; the state at step") == 1
    assert checkpoint.read(last)["global_step"] >= 4
    bundle.load(tmp_path / "run" / "model")
