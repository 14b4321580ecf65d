"""From a problem of attention to the kernels in CUDA C++: what they can do, and their argument.

``p`` is a ``fused.problem.Problem``, ``tables`` a ``fused.table_gradients.TableGradients``.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from musictx.speed.cuda import driver

BLOCK, THREADS = 128, 256
#: Head sizes of each kernel.
SIZES = {"forward": (32, 64, 128), "backward": (32, 64)}
_DTYPES = (torch.bfloat16, torch.float16)
_POINTERS = (
    *("q", "k", "v", "table", "out", "up", "result", "log_sum", "dk", "dv", "dtable"),
    *("query_codes", "key_codes", "key_first", "row_random", "column_random"),
)
_ROWS = ("q", "k", "v", "out", "up", "result")
_NUMBERS = ("heads", "length", "rows", "table_head", "slots", "threshold")


class Arguments(ctypes.Structure):
    """The kernels' one argument, field by field that of common.cuh."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((f"{name}_{of}", ctypes.c_int) for name in _ROWS for of in ("batch", "head", "row")),
        *((name, ctypes.c_int) for name in _NUMBERS),
        *((name, ctypes.c_float) for name in ("scale", "natural", "inverse_share")),
    )


#: How kernels are started; tests put an emulation here.
launch: Callable[..., None] = driver.launch
#: Whether products with keys and values are those of warpgroups (heads of 64): a fifth faster than
#: without (common.cuh; scripts/bench/results.csv).
warpgroups = True
#: The file with the backward pass of heads of 64 where warpgroups are used; empty: backward.cu.
overlapped: str = "balanced"
#: Dynamic shared memory of a block of such files, bytes.
OVERLAPPED_SHARED = {"overlapped": 192512, "balanced": 225280}
#: Whether the kernels are taken at all; None: on Hopper, where they were measured.
chosen: bool | None = None
HOPPER = (9, 0)
#: Kernels that could not be compiled or started in this process, and why.
FAILED: dict[str, str] = {}


def forward(p: Any, out: Tensor, log_sum: Tensor) -> bool:
    """Output and log of the sums of weights into place, or False: left to Triton."""
    if not able("forward", p, out):
        return False
    argument = _arguments(p, log_sum, result=out)
    blocks = -(-p.queries // BLOCK)
    return _run("forward", p, (blocks, p.batch * p.heads), 800 * p.size, argument)


def backward(
    p: Any,
    up: Tensor,
    out: Tensor,
    log_sum: Tensor,
    tables: Any,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
) -> bool:
    """Gradients into place, or False: left to Triton."""
    if not able("backward", p, out, up, dq):
        return False
    name, shared = "backward", 1600 * p.size + 98304
    if overlapped and warpgroups and p.size == 64:
        name, shared = overlapped, OVERLAPPED_SHARED[overlapped]
    pad = 8 if name in OVERLAPPED_SHARED else 1
    length, rows = (-(-x // pad) * pad for x in (p.keys, p.high + 1))
    sums = torch.zeros(2, p.batch * p.heads, length, p.size, dtype=torch.float32, device=p.q.device)
    vectors = tables.vectors
    if rows > p.high + 1:
        vectors = vectors.new_zeros(tables.slots, rows, p.size)
    argument = _arguments(p, log_sum, out=out, up=up, result=dq)
    argument.dk, argument.dv = (x.data_ptr() for x in sums)
    argument.dtable, argument.slots = vectors.data_ptr(), tables.slots
    blocks = -(-p.queries // BLOCK)
    if not _run(name, p, (p.batch * p.heads, blocks), shared, argument):
        return False
    for target, found, factor in ((dk, sums[0], p.scale), (dv, sums[1], 1.0)):
        if pad == 1:
            split = (p.size // 16, 2, 4, 2)
            parts = found.view(p.k.shape).unflatten(-1, (-1, 4, 2, 2)).transpose(-3, -2)
            torch.mul(parts, factor, out=target.unflatten(-1, split))
        elif not (_aligned(target) and _finish(p, found, target, factor)):
            ordered = _in_order(found, pad)[:, : p.keys].unflatten(0, (p.batch, p.heads))
            torch.mul(ordered, factor, out=target)
    if pad == 1:
        tables.vectors = _in_order(tables.vectors, pad)
        return True
    group = p.heads if p.table_strides[0] else 1
    total = vectors.unflatten(0, (-1, group)).sum(0)
    tables.vectors, tables.slots = _in_order(total, pad)[:, : p.high + 1], group
    return True


def _finish(p: Any, sums: Tensor, target: Tensor, factor: float) -> bool:
    """The sums times a factor into ``target``, in its order and type; False: left to torch."""
    argument = Arguments(dk=sums.data_ptr(), heads=p.heads, length=p.keys, natural=factor)
    argument.result = target.data_ptr()
    for of, stride in zip(("batch", "head", "row"), target.stride()):
        setattr(argument, f"result_{of}", stride)
    blocks = -(-(-(-p.keys // 8) * 32) // THREADS)
    return _run("finish", p, (p.batch * p.heads, blocks), 0, argument)


def able(kernel: str, p: Any, *rows: Tensor) -> bool:
    """Whether the kernel computes the problem, with further arrays of rows, and is taken."""
    fits = (
        kernel not in FAILED
        and p.table is not None
        and p.bias is None
        and p.low == 0
        and p.queries == p.keys
        and p.size in SIZES[kernel]
        and p.q.dtype in _DTYPES
        and p.batch * p.heads < 2**16
        and p.queries < 2**24
        and all(map(_aligned, (p.q, p.k, p.v, p.tables[0], *rows)))
    )
    return fits and taken(p.q.device)


def taken(device: torch.device) -> bool:
    """Whether the kernels are taken on a device."""
    if chosen is not None:
        return chosen
    return device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER


def defines(kernel: str, p: Any) -> list[str]:
    """Macros for a problem."""
    flags = {
        "HEAD": p.size,
        "FLOAT16": int(p.q.dtype == torch.float16),
        "PACKED": int(p.query_codes is not None),
        "DROP": int(p.threshold > 0),
        "WGMMA": int(warpgroups and p.size == 64),
    }
    # Two blocks to a multiprocessor, where 128 registers will do.
    plain = not (flags["PACKED"] or flags["DROP"])
    flags["MIN_BLOCKS"] = 2 if kernel == "forward" and plain and p.size <= 64 else 1
    if kernel in OVERLAPPED_SHARED:
        flags["TURNED"] = 1
    if kernel == "finish":
        flags = {name: flags[name] for name in ("HEAD", "FLOAT16")}
    return [f"{name}={number}" for name, number in flags.items()]


def _arguments(p: Any, log_sum: Tensor, **rows: Tensor) -> Arguments:
    named = dict(zip("qkv", (p.q, p.k, p.v))) | rows
    found = Arguments(
        **{name: x.data_ptr() for name, x in named.items()},
        table=p.tables[0].data_ptr(),
        log_sum=log_sum.data_ptr(),
        **dict(zip(("query_codes", "key_codes"), (x.data_ptr() for x in p.codes))),
        key_first=p.keys_seen.data_ptr(),
        **dict(zip(("row_random", "column_random"), (x.data_ptr() for x in p.random))),
        heads=p.heads,
        length=p.keys,
        rows=p.high + 1,
        table_head=p.table_strides[0],
        threshold=p.threshold,
        scale=p.scale * math.log2(math.e),
        natural=p.scale,
        inverse_share=1 / p.kept_share,
    )
    for name, x in named.items():
        for of, stride in zip(("batch", "head", "row"), x.stride()):
            setattr(found, f"{name}_{of}", stride)
    return found


def _run(kernel: str, p: Any, grid: tuple[int, int], shared: int, argument: Arguments) -> bool:
    if kernel in FAILED:
        return False
    try:
        launch(kernel, defines(kernel, p), grid, THREADS, shared, argument, p.q.device)
    except RuntimeError as error:
        FAILED[kernel] = str(error)
        print(f"musictx: attention by Triton, for in CUDA C++ {error}", file=sys.stderr)
        return False
    return True


def _aligned(x: Tensor) -> bool:
    """Whether rows begin at multiples of 16 bytes, as the kernels copy them."""
    strides: Any = x.stride()
    regular = strides[-1] == 1 and all(s % 8 == 0 and 0 <= s < 2**31 for s in strides[:-1])
    return regular and x.data_ptr() % 16 == 0


def _in_order(x: Tensor, pad: int) -> Tensor:
    """The kernel's sums (..., rows, D), ``pad`` rows together in its order, in the usual order."""
    parts = x.reshape(*x.shape[:-2], -1, x.shape[-1] // 16, pad, 4, 2, 2)
    return parts.transpose(-3, -2).transpose(-5, -4).reshape(x.shape)
