"""Compile the fused kernel for a GPU that is not there, and read what the compiler says.

Triton carries the assembler of CUDA, so registers, spilled bytes and shared memory are known
without a device. What is slow before it runs is found here: spills, lost matrix instructions.
Needs a process in which ``TRITON_INTERPRET`` was not set.
"""

from __future__ import annotations

import re
import subprocess
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

from musictx.attention.decode import ring_kernel as static_kernel
from musictx.attention.fused import gather, gather_key, gather_query, panel, panel_backward
from musictx.attention.fused.config import Config, Tile

TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
_FLOATS = {"BIASES", "LSE", "DELTA", "FACTOR", "DE", "DBIAS", "DA"}
_CODES = {"QUERY_CODES", "KEY_CODES"}
_INTEGERS = {
    "KEY_FIRST", "KEY_STOP", "QUERY_FIRST", "QUERY_STOP", "ROW_RANDOM", "COLUMN_RANDOM"
}  # fmt: skip
_INPUTS = {"Q", "P", "K", "V", "E", "A", "OUT", "DO", "DQ", "DP", "DK", "DV", "GRADIENTS"}
_NUMBERS = {"scale", "natural", "inverse_share"}
_KERNELS = {
    "forward": {"gather": gather.forward, "panel": panel.forward},
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
    """Compile the two kernels of ``attention/static_kernel.py``: many parts, and their join."""
    kind, sizes = "*" + TYPES[dtype], {"D": head_dim}
    types = {
        **dict.fromkeys(("q", "k", "v", "out"), kind),
        **dict.fromkeys(("relative", "maximum", "total", "mean"), "*fp32"),
        **dict.fromkeys(("position", "first"), "*i64"),
        "scale": "fp32",
    }
    asked = {"BLOCK": static_kernel.BLOCK, "RELATIVE": relative, "WHOLE": False, "SPLITS": 16}
    reports = []
    for kernel in (static_kernel.parts, static_kernel.join):
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
