"""The kernels of attention compiled by Triton for Hopper: no GPU needed.

Needs a process in which ``TRITON_INTERPRET`` was not set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from musictx.speed.fused import forward, key, query
from musictx.speed.fused.config import choose

#: Compile-time constants that are off unless asked for.
_OFF = ("BIAS", "BIAS_GRADIENT", "PACKED", "DROP", "EDGE")
_TYPES = {
    **dict.fromkeys(("BIASES", "LSE", "DELTA", "DE", "DBIAS"), "*fp32"),
    **dict.fromkeys(("KEY_FIRST", "QUERY_STOP"), "*i32"),
    **dict.fromkeys(("ROW_RANDOM", "COLUMN_RANDOM", "QUERY_CODES", "KEY_CODES"), "*i32"),
    **dict.fromkeys(("Q", "K", "V", "E", "OUT", "DO", "DQ", "DK", "DV"), "*bf16"),
    **{"natural": "fp32", "inverse_share": "fp32"},
}
#: A kernel's bytes of shared memory for each program, and its products by the matrix units.
Report = dict[str, int]


def passes() -> list[Report]:
    """The forward pass and both backward ones as they are chosen for bfloat16, 64 to a head."""
    config = choose(torch.bfloat16, 64)
    known = dict.fromkeys(_OFF, False) | {"TABLE": True, "D": 64}
    known |= {"SKEW": tl.float16, "PRECISION": "tf32"}
    reports = []
    for kernel, tile in (
        (forward.forward, config.forward),
        (query.backward_query, config.query),
        (key.backward_key, config.key),
    ):
        options = {"num_warps": tile.warps, "num_stages": tile.stages}
        reports.append(_compiled(kernel, known | {"T": tile.side}, options))
    return reports


def _compiled(kernel: Any, known: Mapping[str, Any], options: dict[str, int]) -> Report:
    names = kernel.arg_names
    types = {n: "constexpr" if n in known else _TYPES.get(n, "i32") for n in names}
    aligned = {(names.index(n),): [["tt.divisibility", 16]] for n in names if types[n][0] == "*"}
    constants = {(names.index(n),): known[n] for n in names if n in known}
    source = ASTSource(kernel, types, constants, aligned)
    found = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    return {"shared": found.metadata.shared, "wgmma": found.asm["ptx"].count("wgmma.mma_async")}
