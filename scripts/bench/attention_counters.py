"""Hardware counters of attention's backward kernels, by Nsight Compute, in half a minute.

    python -m scripts.bench.attention_counters [variants=now,balanced]
    python -m scripts.bench.attention_counters rehearse=true    # no GPU: an example's table

A kernel of each variant, 16 rows of 2,048 tokens with all distances. Clocks are left as they are.
Counters that this version of ncu does not have are left out.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.words import options, run

DEFAULTS = {"variants": "now,balanced", "seconds": "60"}
STALLS = (
    *("barrier", "long_scoreboard", "short_scoreboard", "math_pipe_throttle", "mio_throttle"),
    *("lg_throttle", "wait", "gmma", "not_selected", "dispatch_stall", "membar", "no_instruction"),
)
PEAK = ".avg.pct_of_peak_sustained_elapsed"
COUNTERS = [
    "gpu__time_duration.sum",
    *("dram__bytes_read.sum", "dram__bytes_write.sum", f"dram__throughput{PEAK}"),
    *(f"lts__throughput{PEAK}", "lts__t_sector_hit_rate.pct", "lts__t_sectors_op_red.sum"),
    *(f"lts__d_atomic_input_cycles_active{PEAK}", f"lts__t_sectors{PEAK}"),
    *(f"l1tex__throughput{PEAK}", f"l1tex__data_pipe_lsu_wavefronts{PEAK}"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    f"sm__pipe_tensor_cycles_active{PEAK}",
    f"sm__inst_executed_pipe_tensor{PEAK}",
    *("smsp__inst_executed.sum", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
    *(f"smsp__average_warps_issue_stalled_{x}_per_issue_active.ratio" for x in STALLS),
]
EXAMPLE = (
    '"ID","Kernel Name","a.sum","b.pct"\n"","","ns","%"\n"0","x","1,500","7"\n"1","y","2","3"\n'
)


def tool() -> str:
    found = [shutil.which("ncu"), *sorted(Path("/opt/nvidia").glob("nsight-compute/*/ncu"))]
    found += sorted(Path("/usr/local").glob("cuda*/bin/ncu"))
    return str(next(x for x in found if x))


def measured(variants: str, seconds: float) -> str:
    """What ncu writes, as rows of a CSV file."""
    query = [tool(), "--query-metrics", "--chips", "gh100"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=seconds, check=False)
    there = set(re.findall(r"^\w+", done.stdout, re.MULTILINE))
    counters = [x for x in COUNTERS if x.split(".")[0] in there] or list(COUNTERS)
    print("not here:", *(x for x in COUNTERS if x not in counters), flush=True)
    for _ in range(3):
        command = [
            *(tool(), "--clock-control", "none", "--csv", "--page", "raw"),
            *("-k", "regex:relative_(backward|overlapped|balanced)"),
            *("--metrics", ",".join(counters)),
            *(sys.executable, "-m", "scripts.bench.attention_gpu", f"profile={variants}"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        text = done.stdout + done.stderr
        complaints = [line for line in text.split("\n") if "ind metric" in line]
        unknown = {x for x in counters if any(x in line for line in complaints)}
        if '"ID"' in text or not unknown:
            return text
        print("not here:", *sorted(unknown), flush=True)
        counters = [x for x in counters if x not in unknown]
    return text


def table(text: str, variants: list[str]) -> None:
    lines = [line for line in text.split("\n") if line.startswith('"')]
    if not lines:
        print(text[-3000:])
        return
    names, units, *rows = csv.reader(lines)
    print("counter".ljust(64) + "".join(f"{x:>16}" for x in variants[: len(rows)]))
    for i, name in enumerate(names):
        if re.search(r"\.(sum|pct|ratio|avg)", name):
            cells = "".join(f"{row[i]:>16}" for row in rows)
            print(f"{name} {units[i]}".ljust(64) + cells, flush=True)


def main(words: list[str]) -> int:
    given = options(words, DEFAULTS, {})
    if given["rehearse"] == "true":
        table(EXAMPLE, ["now", "balanced"])
        return 0
    table(measured(given["variants"], float(given["seconds"])), given["variants"].split(","))
    return 0


if __name__ == "__main__":
    run(main)
