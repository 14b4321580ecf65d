"""Run an attention problem with the CUDA C++ kernels: what they support, and their argument.

``p`` is a ``fused.problem.Problem``, ``tables`` a ``fused.problem.TableGradients``.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from musictx.speed.cuda import driver

BLOCK, THREADS = 128, 256  # queries and threads of a block
#: The head size of backward.cu, its SHARED_BYTES, and the rows that its accumulators interleave.
WIDTH, BACKWARD_SHARED, INTERLEAVED = 64, 192512, 8
#: The head sizes that each kernel supports; the backward pass pads 32 to ``WIDTH`` with zeros.
SIZES = {"forward": (32, 64, 128), "backward": (32, 64)}
_POINTERS = (
    *("q", "k", "v", "table", "out", "up", "result", "log_sum", "dk", "dv", "dtable"),
    *("query_codes", "key_codes", "key_first", "row_random", "column_random"),
)
_TENSORS, _DIMS = ("q", "k", "v", "out", "up", "result"), ("batch", "head", "row")
_NUMBERS = ("heads", "length", "rows", "table_head", "slots", "threshold")


class Arguments(ctypes.Structure):
    """The argument of all kernels: the same fields in the same order as in common.cuh."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((f"{name}_{dim}", ctypes.c_int) for name in _TENSORS for dim in _DIMS),
        *((name, ctypes.c_int) for name in _NUMBERS),
        *((name, ctypes.c_float) for name in ("scale", "natural_scale", "inverse_share")),
    )

    def point(self, **tensors: Tensor) -> None:
        """Set the addresses and the strides of tensors (B, H, T, D)."""
        for name, x in tensors.items():
            setattr(self, name, x.data_ptr())
            for dim, stride in zip(_DIMS, x.stride()):
                setattr(self, f"{name}_{dim}", stride)


#: The function that launches kernels; tests replace it with an emulation.
launch: Callable[..., None] = driver.launch
#: Whether to use the kernels; None: only on Hopper GPUs, where they were measured.
enabled: bool | None = None
HOPPER = (9, 0)
#: Kernel -> why it could not be compiled or launched in this process.
FAILED: dict[str, str] = {}


def forward(p: Any, out: Tensor, log_sum: Tensor) -> bool:
    """Write the output and the log of the sums of weights. Return False if Triton has to do it."""
    if not can_run("forward", p, out):
        return False
    grid = (-(-p.queries // BLOCK), p.batch * p.heads)
    shared = 800 * p.size  # SHARED_BYTES of forward.cu
    return _run("forward", p, grid, shared, _arguments(p, log_sum, result=out))


def backward(
    p: Any, up: Tensor, out: Tensor, log_sum: Tensor, tables: Any, gradients: tuple[Tensor, ...]
) -> bool:
    """Write ``gradients`` (dq, dk, dv) and the copies in ``tables``. Return False if Triton has to
    do it."""
    dq, dk, dv = gradients
    if not can_run("backward", p, out, up, dq):
        return False
    size, result = p.size, dq
    if size < WIDTH:
        zeros = (0, WIDTH - size)
        q, k, v, table, out, up = (pad(x, zeros) for x in (p.q, p.k, p.v, p.table, out, up))
        p, result = replace(p, q=q, k=k, v=v, table=table), torch.empty_like(q)
    length, rows = (-(-n // INTERLEAVED) * INTERLEAVED for n in (p.keys, p.high + 1))
    sums = p.q.new_zeros(2, p.batch * p.heads, length, WIDTH, dtype=torch.float32)
    copies = tables.table_copies
    if copies.shape[1:] != (rows, WIDTH):
        copies = copies.new_zeros(tables.slots, rows, WIDTH)
    argument = _arguments(p, log_sum, out=out, up=up, result=result)
    argument.dk, argument.dv = (x.data_ptr() for x in sums)
    argument.dtable, argument.slots = copies.data_ptr(), tables.slots
    grid = (p.batch * p.heads, -(-p.queries // BLOCK))
    if not _run("backward", p, grid, BACKWARD_SHARED, argument):
        return False
    if size < WIDTH:
        dq.copy_(result[..., :size])
    for target, accumulators, factor in ((dk, sums[0], p.scale), (dv, sums[1], 1.0)):
        if size < WIDTH or not (_aligned(target) and _finish(p, accumulators, target, factor)):
            gradient = _row_major(accumulators)[:, : p.keys, :size]
            torch.mul(gradient.unflatten(0, (p.batch, p.heads)), factor, out=target)
    group = p.heads if p.table_strides[0] else 1
    total = copies.unflatten(0, (-1, group)).sum(0)
    tables.table_copies, tables.slots = _row_major(total)[:, : p.high + 1, :size], group
    return True


def _finish(p: Any, sums: Tensor, target: Tensor, factor: float) -> bool:
    """Write accumulators times a factor into ``target``, in its layout and dtype, by finish.cu.
    Return False if that fails."""
    argument = Arguments(dk=sums.data_ptr(), heads=p.heads, length=p.keys, natural_scale=factor)
    argument.point(result=target)
    blocks = -(-(-(-p.keys // INTERLEAVED) * 32) // THREADS)
    return _run("finish", p, (p.batch * p.heads, blocks), 0, argument)


def can_run(kernel: str, p: Any, *tensors: Tensor) -> bool:
    """Whether the kernel is in use and supports the problem and these additional tensors."""
    is_supported = (
        kernel not in FAILED
        and p.table is not None
        and p.bias is None
        and p.low == 0
        and p.queries == p.keys
        and p.size in SIZES[kernel]
        and p.q.dtype in (torch.bfloat16, torch.float16)
        and p.batch * p.heads < 2**16
        and p.queries < 2**24
        and all(map(_aligned, (p.q, p.k, p.v, p.tables[0], *tensors)))
    )
    return is_supported and is_used(p.q.device)


def is_used(device: torch.device) -> bool:
    """Whether the kernels are used on a device."""
    if enabled is not None:
        return enabled
    return device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER


def defines(kernel: str, p: Any) -> list[str]:
    """The macros with which a kernel is compiled for a problem."""
    is_finish = kernel == "finish"  # one variant for each size and dtype
    is_packed = p.query_codes is not None and not is_finish
    has_dropout = p.threshold > 0 and not is_finish
    # Two blocks share a multiprocessor if 128 registers a thread are enough.
    is_small = kernel == "forward" and p.size <= 64 and not is_packed and not has_dropout
    flags = {
        "HEAD": p.size,
        "FLOAT16": int(p.q.dtype == torch.float16),
        "PACKED": int(is_packed),
        "DROP": int(has_dropout),
        "WGMMA": int(p.size == WIDTH and not is_finish),
        "PERMUTED": int(kernel == "backward"),
        "MIN_BLOCKS": 2 if is_small else 1,
    }
    return [f"{name}={number}" for name, number in flags.items()]


def _arguments(p: Any, log_sum: Tensor, **tensors: Tensor) -> Arguments:
    """The argument for a problem and additional tensors (B, H, T, D)."""
    argument = Arguments(
        table=p.tables[0].data_ptr(),
        log_sum=log_sum.data_ptr(),
        query_codes=p.codes[0].data_ptr(),
        key_codes=p.codes[1].data_ptr(),
        key_first=p.key_first.data_ptr(),
        row_random=p.random[0].data_ptr(),
        column_random=p.random[1].data_ptr(),
        heads=p.heads,
        length=p.keys,
        rows=p.high + 1,
        table_head=p.table_strides[0],
        threshold=p.threshold,
        scale=p.scale * math.log2(math.e),
        natural_scale=p.scale,
        inverse_share=1 / p.kept_share,
    )
    argument.point(q=p.q, k=p.k, v=p.v, **tensors)
    return argument


def _run(kernel: str, p: Any, grid: tuple[int, int], shared: int, argument: Arguments) -> bool:
    """Launch a kernel. Return False if it fails, which is printed, or has failed before."""
    if kernel in FAILED:
        return False
    try:
        launch(kernel, defines(kernel, p), grid, THREADS, shared, argument, p.q.device)
    except RuntimeError as error:
        FAILED[kernel] = str(error)
        print(f"musictx: attention by Triton, since CUDA C++ failed: {error}", file=sys.stderr)
        return False
    return True


def _aligned(x: Tensor) -> bool:
    """Whether all rows are contiguous and begin at multiples of 16 bytes, as the kernels need."""
    *strides, last = x.stride()
    is_regular = last == 1 and all(s % 8 == 0 and 0 <= s < 2**31 for s in strides)
    return is_regular and x.data_ptr() % 16 == 0


def _row_major(x: Tensor) -> Tensor:
    """Reorder accumulators (..., rows, WIDTH) from the layout of backward.cu to row-major order."""
    parts = x.reshape(*x.shape[:-2], -1, WIDTH // 16, INTERLEAVED, 4, 2, 2)
    return parts.transpose(-3, -2).transpose(-5, -4).reshape(x.shape)
