"""What a wheel's libraries cost beside the same source compiled here, in processor time, in turns.

    python -m scripts.bench.variants wheel=FILE [repeats=30] [capability=avx2]

Two processes work in turns, one of the unpacked wheel with its prebuilt libraries, one of this
checkout with ``MUSICTX_COMPILE=1``, both under ``ATEN_CPU_CAPABILITY=capability`` (nothing: the
most that this CPU has), torch's libraries MKL and oneDNN too: attention over 1,024 tokens with its
gradients; a step of training of the piano model on 512 tokens, without the optimizer, in the
precision that is fastest there (bfloat16 where the variant has it); 100 steps of decoding with it.
Both draw the same ids. One thread; what else the machine does hardly counts, as the least of many
short times of the processor is taken.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from musictx.errors import UserError
from scripts.words import options, run

ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = {"wheel": "", "repeats": "30", "capability": "avx2"}
TASKS = ("attention", "training", "decoding")
#: The limit that was set: of the compiled one's time.
MOST = 1.1

WORK = """
import sys, time, torch
torch.set_num_threads(1)
from musictx import bundle, shipped
from musictx.attention import RelativeAttention
from musictx.sampling import engine
from musictx.speed import step
from musictx.speed.native import build, library

torch.manual_seed(0)
layer = RelativeAttention(512, 8, implementation="native")
x = torch.randn(1, 1024, 512)
model = bundle.load(shipped.models()["piano"]).model
taught = bundle.load(shipped.models()["piano"]).model.requires_grad_(True)
ids = torch.randint(3, 200, (1, 513))


def attention():
    layer(x).sum().backward()


def training():
    with torch.autocast("cpu", torch.bfloat16, enabled=build.variant() == "x86-64-v4-bf16"):
        logits = taught(ids[:, :-1]).float()
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()


def decoding():
    drawn = engine.generate(model, [1], max_tokens=100, seeds=[0], cache="native")
    return [int(one) for one in drawn]


library.load()
print(build.prebuilt(step.SOURCE), decoding(), flush=True)
for line in sys.stdin:
    begin = time.process_time()
    globals()[line.strip()]()
    print(time.process_time() - begin, flush=True)
"""


def worker(place: Path, capability: str, more: dict[str, str]) -> subprocess.Popen[str]:
    settings = {"PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"} | more
    if capability:
        others = ("MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
        settings |= {"ATEN_CPU_CAPABILITY": capability, **dict.fromkeys(others, capability.upper())}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", WORK], env=os.environ | settings, text=True, cwd=place,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def asked(process: subprocess.Popen[str], task: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(task + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main(words: list[str]) -> None:
    given = options(words, DEFAULTS)
    if not Path(given["wheel"]).is_file():
        raise UserError(f"wheel={given['wheel']}: expected a wheel of make wheels for this machine")
    with tempfile.TemporaryDirectory() as scratch:
        zipfile.ZipFile(given["wheel"]).extractall(scratch)
        workers = {
            "wheel": worker(Path(scratch), given["capability"], {}),
            "compiled": worker(ROOT, given["capability"], {"MUSICTX_COMPILE": "1"}),
        }
        begun = {name: process.stdout.readline() for name, process in workers.items()}
        files, drawn = zip(*(line.split(maxsplit=1) for line in begun.values()))
        assert files[0] != "None"
        assert files[1] == "None"
        print(f"{Path(files[0]).name}: {'the same ids' if len(set(drawn)) == 1 else 'other ids'}")
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(int(given["repeats"])):
            for task in TASKS:
                for name, process in workers.items():
                    times.setdefault((task, name), []).append(asked(process, task))
        for process in workers.values():
            process.kill()
            process.wait()
    print("| what | wheel, ms | compiled here, ms | least by least | medians |")
    print("|---|--:|--:|--:|--:|")
    for task in TASKS:
        mine, other = times[task, "wheel"], times[task, "compiled"]
        least, middle = min(mine) / min(other), statistics.median(mine) / statistics.median(other)
        row = f"{1e3 * min(mine):.1f} | {1e3 * min(other):.1f} | {least:.3f} | {middle:.3f} |"
        print(f"| {task} | {row}{'' if least <= MOST else ' more than a tenth'}")


if __name__ == "__main__":
    run(main)
