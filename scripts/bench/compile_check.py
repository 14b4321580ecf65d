"""What the compiler makes of the kernels of attention and decoding for Hopper: no GPU needed.

    python scripts/bench/compile_check.py             # the configurations worth measuring
    python scripts/bench/compile_check.py rehearse=true  # the defaults only

Registers for each thread (255 at most), bytes spilled to memory, shared memory of a program (228
KiB to a multiprocessor), and instructions that tell whether a kernel is what it should be: wgmma
(the matrix units of Hopper), cp.async (loads ahead), shuffles (the gather of plan A), atomic
additions four numbers wide.

Triton carries the assembler of CUDA, so all this is known without a device. What is slow before it
runs is found here: spills, lost matrix instructions. Needs a process in which ``TRITON_INTERPRET``
was not set.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from musictx.attention.decode import kernel as ring_kernel
from musictx.attention.fused.config import Config, Tile, choose
from musictx.attention.fused.gather import forward as gather_forward
from musictx.attention.fused.gather import key as gather_key
from musictx.attention.fused.gather import query as gather_query
from musictx.attention.fused.panel import backward as panel_backward
from musictx.attention.fused.panel import forward as panel_forward

TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
_FLOATS = {"BIASES", "LSE", "DELTA", "FACTOR", "DE", "DBIAS", "DA"}
_CODES = {"QUERY_CODES", "KEY_CODES"}
_INTEGERS = {
    "KEY_FIRST", "KEY_STOP", "QUERY_FIRST", "QUERY_STOP", "ROW_RANDOM", "COLUMN_RANDOM"
}  # fmt: skip
_INPUTS = {"Q", "P", "K", "V", "E", "A", "OUT", "DO", "DQ", "DP", "DK", "DV", "GRADIENTS"}
_NUMBERS = {"scale", "natural", "inverse_share"}
_KERNELS = {
    "forward": {"gather": gather_forward.forward, "panel": panel_forward.forward},
    "backward_query": {
        "gather": gather_query.backward_query,
        "panel": panel_backward.backward_query,
    },
    "backward_key": {"gather": gather_key.backward_key, "panel": panel_backward.backward_key},
}
#: Compile-time constants that are off unless asked for; of the others TABLE and CAUSAL are on.
FEATURES = (
    "BIAS", "BIAS_GRADIENT", "VALUES", "POSITION", "PACKED", "LOCAL", "DROP", "FIXED", "EDGE",
)  # fmt: skip
_ALONE = ("TABLE", "BIAS", "VALUES", "CAUSAL")  # what sends a pass to plan gather
_INSTRUCTIONS = {
    "wgmma": r"wgmma\.mma_async",
    "shfl": r"\bshfl\.sync",
    "atomics": r"\b(?:red|atom)\.",
    "wide_atomics": r"\b(?:red|atom)\.global[a-z.]*\.v4",
    "cp_async": r"cp\.async\.cg|cp\.async\.ca|cp\.async\.bulk",
    "barriers": r"\bbar\.sync",
}


@dataclass(frozen=True)
class Report:
    """What one kernel needs: for each thread registers and bytes spilled to memory (stores and
    loads), for each program bytes of shared memory, and instructions counted in the PTX."""

    kernel: str
    registers: int
    spilled: int
    shared: int
    wgmma: int
    shfl: int
    atomics: int
    wide_atomics: int
    cp_async: int
    barriers: int

    def row(self) -> dict[str, Any]:
        return asdict(self)


def kernels(config: Config, dtype: torch.dtype, head_dim: int, **features: bool) -> Iterator[
    tuple[str, Any, dict[str, Any], Tile]
]:  # fmt: skip
    """(name, kernel, compile-time constants, tile) of the three passes of a configuration."""
    known: dict[str, Any] = dict.fromkeys(FEATURES, False) | {"TABLE": True, "CAUSAL": True}
    known |= features
    panels = [known[x] for x in _ALONE] == [True, False, False, True]
    half = dtype != torch.float32
    known |= {
        "D": head_dim,
        "SEGMENT": config.segment,
        "SKEW": tl.float16 if half else tl.float32,
        "PRECISION": "tf32" if half else "ieee",
    }
    for name, tile in (
        ("forward", config.forward),
        ("backward_query", config.query),
        ("backward_key", config.key),
    ):
        if not panels and tile.plan == "panel":
            side = min(tile.queries, tile.keys)
            tile = Tile(side, side, tile.warps, tile.stages)
        kernel = _KERNELS[name][tile.plan]
        sizes = {"T": tile.queries, "M": tile.queries, "N": tile.keys}
        sizes["C"] = min(64, tile.queries, tile.keys)
        every = known | sizes
        constants = {key: every[key] for key in kernel.arg_names if key in every}
        yield name, kernel, constants, tile


def compile_kernel(
    name: str, kernel: Any, constants: dict[str, Any], tile: Tile, dtype: torch.dtype
) -> Report:
    """Compile one kernel for compute capability 9.0 and assemble it."""
    signature, known, attributes = {}, {}, {}
    for place, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
            known[(place,)] = constants[argument]
        else:
            signature[argument] = _type(argument, dtype, constants)
            sizes = argument in {"TQ", "TK"} or (argument.islower() and len(argument) == 2)
            if signature[argument].startswith("*") or sizes:
                attributes[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, known, attributes)
    return _assembled(name, source, {"num_warps": tile.warps, "num_stages": tile.stages})


def check_decoding(dtype: torch.dtype, head_dim: int, *, relative: bool = True) -> list[Report]:
    """Compile the two kernels of ``attention/decode/kernel.py``: many parts, and their join."""
    kind, sizes = "*" + TYPES[dtype], {"D": head_dim}
    types = {
        **dict.fromkeys(("q", "k", "v", "out"), kind),
        **dict.fromkeys(("relative", "maximum", "total", "mean"), "*fp32"),
        **dict.fromkeys(("position", "first"), "*i64"),
        "scale": "fp32",
    }
    asked = {"BLOCK": ring_kernel.BLOCK, "RELATIVE": relative, "WHOLE": False, "SPLITS": 16}
    reports = []
    for kernel in (ring_kernel.parts, ring_kernel.join):
        constants = {x: (sizes | asked)[x] for x in kernel.arg_names if x in sizes | asked}
        signature, known, attributes = {}, {}, {}
        for place, argument in enumerate(kernel.arg_names):
            if argument in constants:
                signature[argument], known[(place,)] = "constexpr", constants[argument]
                continue
            signature[argument] = types.get(argument, "i32")
            if signature[argument].startswith("*"):
                attributes[(place,)] = [["tt.divisibility", 16]]
        source = ASTSource(kernel, signature, known, attributes)
        reports.append(_assembled(kernel.__name__, source, {"num_warps": 4}))
    return reports


def _assembled(name: str, source: ASTSource, options: dict[str, Any]) -> Report:
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    ptx = compiled.asm["ptx"]
    with tempfile.TemporaryDirectory() as folder:
        source_file, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source_file.write_text(ptx)
        # Triton brings several assemblers; its PTX may be too new for the others.
        command = [get_ptxas(90).path, "-arch=sm_90a", "-v", source_file, "-o", binary]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = max(int(x) for x in re.findall(r"Used (\d+) registers", report))
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    counts = {key: len(re.findall(pattern, ptx)) for key, pattern in _INSTRUCTIONS.items()}
    return Report(
        kernel=name,
        registers=registers,
        spilled=sum(int(x) for pair in spills for x in pair),
        shared=compiled.metadata.shared,
        **counts,
    )


def check(config: Config, dtype: torch.dtype, head_dim: int, **features: bool) -> list[Report]:
    """Compile the three passes of a configuration."""
    return [
        compile_kernel(name, kernel, constants, tile, dtype)
        for name, kernel, constants, tile in kernels(config, dtype, head_dim, **features)
    ]


def _type(argument: str, dtype: torch.dtype, constants: dict[str, Any]) -> str:
    """Triton's name of the type of a kernel's argument."""
    if argument in {"DE", "DBIAS", "DA"} and constants.get("FIXED"):
        return "*i64"
    if argument in _FLOATS:
        return "*fp32"
    if argument in _INTEGERS:
        return "*i32"
    if argument in _CODES:  # int64 only where both pieces and blocks hide keys
        return "*i64" if constants.get("LOCAL") else "*i32"
    if argument in _INPUTS:
        return "*" + TYPES[dtype]
    if argument == "PANEL":
        return "*fp32" if dtype == torch.float32 else "*fp16"
    return "fp32" if argument in _NUMBERS else "i32"


#: Tiles to look at beside the defaults, for each pass, at head_dim 64 in bfloat16.
ALTERNATIVES = {
    "forward": ("panel-64x64w4s3", "panel-128x128w8s2", "gather-64x64w4s3", "gather-64x64w4s2"),
    "backward_query": ("panel-64x64w8s2", "panel-64x64w4s1", "gather-64x64w4s2"),
    "backward_key": ("gather-64x64w8s2", "gather-64x64w4s1", "panel-64x64w4s2"),
}


#: What schemes and options ask of the kernel beside the default, at head_dim 64 in bfloat16.
VARIANTS: dict[str, dict[str, bool]] = {
    "packed+dropout": {"PACKED": True, "DROP": True},
    "deterministic": {"FIXED": True},
    "transformer_xl": {"POSITION": True},
    "local": {"PACKED": True, "LOCAL": True},
    "shaw": {"VALUES": True},
    "full": {"CAUSAL": False, "EDGE": True},
    "full shaw": {"CAUSAL": False, "EDGE": True, "VALUES": True},
    "bias": {"TABLE": False, "BIAS": True, "BIAS_GRADIENT": True},
}


def show(what: str, tile: Tile | str, report: Report) -> None:
    print(
        f"{what:22} {report.kernel:15} {tile!s:20} {report.registers:5} {report.spilled:8} "
        f"{report.shared / 1024:9.1f} {report.wgmma:6} {report.cp_async:9} {report.shfl:8} "
        f"{report.wide_atomics:11}",
        flush=True,
    )


def main() -> None:
    rehearse = "rehearse=true" in sys.argv[1:]
    print(
        f"{'inputs':22} {'kernel':15} {'tile':20} {'regs':>5} {'spilled':>8} {'shared K':>9} "
        f"{'wgmma':>6} {'cp.async':>9} {'shuffles':>8} {'4w atomics':>11}"
    )
    half = torch.bfloat16
    variants = [("", half, 64, {})]
    if not rehearse:
        variants += [("", half, 32, {}), ("", half, 128, {}), ("", torch.float32, 64, {})]
        variants += [(name, half, 64, features) for name, features in VARIANTS.items()]
    for what, dtype, head_dim, features in variants:
        config = choose("", dtype, head_dim, features.get("VALUES", False))
        name = f"{str(dtype).removeprefix('torch.').replace('float', 'f')} {head_dim} {what}"
        for kernel, made, constants, tile in kernels(config, dtype, head_dim, **features):
            show(name, tile, compile_kernel(kernel, made, constants, tile, dtype))
    for report in check_decoding(half, 64):
        show("bf16 64 decoding", "", report)
    for wanted, tiles in {} if rehearse else ALTERNATIVES.items():
        for text in tiles:
            tile = Tile.parse(text)
            for name, kernel, constants, _ in kernels(Config(tile, tile, tile), half, 64):
                if name == wanted:
                    show("bf16 64", tile, compile_kernel(name, kernel, constants, tile, half))


if __name__ == "__main__":
    main()
