"""Generation by an earlier commit of musictx, in a process of its own, to measure against.

python scripts/bench/earlier.py FILE    (within that commit; decode.py calls it)
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import torch

#: Arguments of a network that every commit knows.
SHAPE = ("layers", "width", "heads", "feedforward", "context", "tied", "position", "attention")


def measured(
    commit: str, model: torch.nn.Module, ids: torch.Tensor, count: int
) -> tuple[torch.Tensor | None, list[float]]:
    """The continuation of ``ids`` with seeds 0, 1, ... by the engine of ``commit``, and sorted
    milliseconds a step. The ids are None where that commit does not know all that ``model`` has:
    then an untrained network of the same shape was timed. ``OSError`` where git has no such commit.
    """
    config = {name: model.config[name] for name in SHAPE}
    known = set(model.config) <= {*SHAPE, "vocab_size", "dropout"}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(__file__).resolve().parents[2]
        command = ["git", "-C", str(root), "archive", commit, "musictx"]
        packed = subprocess.run(command, capture_output=True, check=False)
        if packed.returncode:
            raise OSError(packed.stderr.decode().strip())
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        file = Path(folder) / "job.pt"
        state = model.state_dict() if known else None
        given = {"vocab": model.config["vocab_size"], "config": config, "state": state}
        torch.save(given | {"ids": ids.cpu(), "count": count}, file)
        environment = os.environ | {"PYTHONPATH": folder}
        subprocess.run(
            [sys.executable, __file__, str(file)], env=environment, cwd=folder, check=True
        )
        found = torch.load(file)
    return (found["drawn"] if known else None), found["times"]


def main(file: str) -> None:
    """Within the earlier commit: do the job of ``file`` and write what was found there."""
    from musictx.model.transformer import MusicTransformer
    from musictx.sampling import engine

    job = torch.load(file)
    model = MusicTransformer(job["vocab"], **job["config"]).eval()
    if job["state"] is not None:
        model.load_state_dict(job["state"])
    rows = len(job["ids"])

    class NeverEnd:
        mask = torch.ones(rows, job["vocab"], dtype=torch.bool)
        mask[:, : engine.CUT + 1] = False

        def allowed(self) -> torch.Tensor:
            return self.mask

        def advance(self, ids: torch.Tensor) -> None: ...

        def done(self) -> torch.Tensor:
            return torch.zeros(rows, dtype=torch.bool)

    steps = engine.generate(
        model, job["ids"], rows=rows, max_tokens=job["count"],
        constraint=NeverEnd(), seeds=range(rows),
    )  # fmt: skip
    drawn, times = [next(steps)], []
    for _ in range(job["count"] - 1):
        begin = time.perf_counter()
        drawn.append(next(steps))
        times.append(1e3 * (time.perf_counter() - begin))
    torch.save({"drawn": torch.stack(drawn, dim=1), "times": sorted(times)}, file)


if __name__ == "__main__":
    main(sys.argv[1])
