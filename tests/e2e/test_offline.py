"""No command connects to another machine unless one is named (docs/reliability.md)."""

import pytest

from musictx import formats, shipped
from tests.programs import run_python

#: Runs the commands of musictx in its arguments, and ends at a connection. Connections to files of
#: this machine, which Python uses between processes, are allowed.
FORBID = """
import os, sys

def forbid(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname") or (
        event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple)
    ):
        print("a connection:", event, *arguments[1:], file=sys.stderr, flush=True)
        os._exit(99)

sys.addaudithook(forbid)
from musictx import cli
if __name__ == "__main__":
    for line in sys.argv[1:]:
        print("status", cli.main(line.split()), flush=True)
"""


def test_nothing_connects_to_another_machine_and_a_connection_would_be_noticed(tmp_path):
    pytest.importorskip("huggingface_hub")
    (tmp_path / "midi").mkdir()
    for name, path in shipped.examples().items():
        formats.write(formats.read(path), tmp_path / "midi" / f"{name}.mid")
    small = "model=tiny model.layers=1 model.width=16 model.context=32"
    lines = (
        f"train midi {small} trainer.max_steps=2 corpus.workers=2 out=run",
        "evaluate model=run/model",
        "generate seconds=1 seed=1 render=true",
        "infill ode_to_joy from=3 to=3 seed=1",
        "generate model=hf:nobody/nothing seconds=1",
    )
    done = run_python("-c", FORBID, *lines, folder=tmp_path)
    statuses = [line for line in done.stdout.splitlines() if line.startswith("status")]
    assert statuses == ["status 0"] * 4, (done.stdout, done.stderr)
    assert (done.returncode, "a connection" in done.stderr) == (99, True)
