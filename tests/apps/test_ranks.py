"""Two processes learn what one learns from the same global batch, and stop together."""

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from musictx.apps import train
from tests.apps.train_driver import CHECKOUT, ENVIRONMENT, config, driver, write_corpus

STEPS = ("max_steps=4", "val_check_interval=4", "dropout=0")


def losses(folder: Path) -> list[tuple[float, float]]:
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    return [(float(r["train/loss"]), float(r["train/grad_norm"])) for r in rows] + [
        (float(rows[-1]["val/loss"]), float(rows[-1]["train/tokens"]))
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("ranks")
    write_corpus(root / "midi")
    steps = {"max_steps": 4, "val_check_interval": 4, "accumulate_grad_batches": 1}
    train.run(config(root, "one", batch_size=4, dropout=0.0, **steps))
    return root


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of its own on Linux")
@pytest.mark.parametrize("launcher", ["torchrun", "by hand"])
def test_two_nodes_on_two_addresses_give_the_losses_of_one(launcher, root):
    """Each node is a launcher of one process; the second one is at 127.0.0.2."""
    port, nodes = free_port(), []
    name = "nodes-" + launcher.replace(" ", "-")
    for rank in (0, 1):
        words = [sys.executable]
        options = ["devices=auto"]
        environment = ENVIRONMENT
        if launcher == "torchrun":
            words += ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
            words += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=1"]
            # Heartbeats may be late on a busy machine: torchrun is to wait for them.
            words += ["--rdzv-conf=keep_alive_max_attempt=100"]
            words += [f"--local-addr=127.0.0.{rank + 1}"]
        else:
            options = ["devices=1", "num_nodes=2", "strategy=ddp"]
            environment = {**ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            environment |= {"NODE_RANK": str(rank)}
        words += driver(root, f"run={name}", "batch_size=2", *options, *STEPS)[1:]
        node = subprocess.Popen(
            words, cwd=CHECKOUT, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        nodes.append(node)
    outputs = [node.communicate(timeout=300)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(outputs)
    # torchrun numbers the nodes in the order in which they connect
    assert sorted(one.count("on 2 x cpu") for one in outputs) == [0, 1], "\n".join(outputs)
    assert sorted(one.count("best    ") for one in outputs) == [0, 1], "\n".join(outputs)
    for two, one in zip(losses(root / name), losses(root / "one"), strict=True):
        assert two == pytest.approx(one, rel=1e-4)


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_two_processes_saves_the_state_and_keeps_its_status(number, status, root):
    words = driver(root, f"run=stopped-{status}", "batch_size=2", "devices=2", "strategy=ddp")
    with subprocess.Popen(
        [*words, "max_steps=1000000"], cwd=CHECKOUT, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as parent:  # fmt: skip
        try:
            deadline = time.monotonic() + 180
            while not (root / f"stopped-{status}" / "last.ckpt").is_file():
                assert time.monotonic() < deadline
                assert parent.poll() is None
                time.sleep(0.05)
            if number == signal.SIGINT:
                os.killpg(parent.pid, number)  # as a terminal does, to all of them
            else:
                parent.send_signal(number)
            out, err = parent.communicate(timeout=180)
        finally:
            with suppress(ProcessLookupError):  # all have ended, as they should
                os.killpg(parent.pid, signal.SIGKILL)
    assert parent.returncode == status, err
    assert err.strip() == "stopping after this step ... (Ctrl-C again: at once)"
    assert out.count("stopped; the state at step") == 1
