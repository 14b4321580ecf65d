"""The compiled attention kernel (kernel.cpp), loaded once in a process, and its arguments.

The kernel links against nothing. It gets pointers to the matrix products of torch's library (MKL,
OpenBLAS or Accelerate, whichever torch was built with) and has its own products for a torch that
exports none.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from musictx.errors import UserError
from musictx.speed.native import build

SOURCE = Path(__file__).with_name("kernel.cpp")
#: On CPUs with this feature the kernel uses torch's product of bfloat16 matrices, since bf16_gemm.h
#: does not use AMX (the two were not compared there). Other CPUs use bf16_gemm.h, if they can.
AMX = "amx_bf16"

_POINTERS = (
    *("q", "k", "v", "table", "bias", "query_codes", "key_codes", "out", "log_sum"),
    *("upstream", "dq", "dk", "dv", "dtable", "dbias"),
)
_COUNTS = (
    *("batch", "heads", "queries", "keys", "size", "table_heads", "bias_heads"),
    *("block", "panel", "threads", "bf16"),
)


class NativeProblem(ctypes.Structure):
    """``Problem`` of panel.h: the same fields in the same order."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _COUNTS),
        ("seed", ctypes.c_uint64),
        ("drop_threshold", ctypes.c_uint64),
        ("scale", ctypes.c_float),
        ("kept_share", ctypes.c_float),
    )

    def __init__(self, **fields: float) -> None:
        super().__init__(**fields)
        self._tensors: list[object] = []  # keeps alive what the fields point to

    def point(self, **tensors: Tensor | None) -> None:
        """Set the pointers to contiguous tensors; None becomes a null pointer."""
        self._tensors.append(tensors)
        for name, tensor in tensors.items():
            assert tensor is None or tensor.is_contiguous()
            setattr(self, name, None if tensor is None else tensor.data_ptr())


class Products(NamedTuple):
    """Addresses of torch's matrix products and of the function that limits their threads. None for
    those that torch does not export (on Windows all), and for ``bf16`` on CPUs without :data:`AMX`;
    then the kernel uses its own products."""

    sgemm: int | None
    bf16: int | None
    set_threads: int | None


class Library:
    """The kernel at ``path``. ``bf16``: whether it multiplies bfloat16 matrices, with torch's
    product or with an instruction of the CPU; otherwise they are converted to float32."""

    def __init__(self, path: Path, products: Products) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise UserError(
                f"cannot load {path} ({error}); delete it to have it built again, or use "
                "attention=chunked"
            ) from error
        use = self._library.musictx_use
        use.argtypes, use.restype = [ctypes.c_void_p] * 3, None
        use(*products)
        self.bf16 = products.bf16 is not None or bool(self._library.musictx_bf16())

    def run(self, problem: NativeProblem, backward: bool) -> None:
        """Run the forward or the backward pass, which writes into the memory of ``problem``."""
        if self._library.musictx_attention(ctypes.byref(problem), ctypes.c_bool(backward)):
            raise MemoryError("attention=native: not enough memory for the logits of one block")


def products() -> Products:
    """The matrix products of the installed torch."""
    mkl_set_threads = _torch_function("MKL_Set_Num_Threads_Local")
    return Products(
        sgemm=_torch_function("sgemm_"),
        bf16=_torch_function("gemm_bf16bf16f32_") if AMX in build.cpu_features() else None,
        set_threads=mkl_set_threads or _torch_function("openblas_set_num_threads_local"),
    )


def _torch_function(name: str) -> int | None:
    """The address of a function in torch's CPU library or a library that it loads, or None."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")):
        try:
            function = getattr(ctypes.CDLL(str(path)), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


@cache
def load() -> Library:
    """Load the kernel, compiled if necessary, once in a process. Raises ``UserError`` if it is not
    available."""
    return Library(build.prebuilt_path(SOURCE) or build.library_path(SOURCE), products())
