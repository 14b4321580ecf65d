"""Launch kernels through the library of NVIDIA's driver, on torch's current stream."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

import torch

from musictx.speed.cuda import compile

_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def launch(
    kernel: str,
    defines: Sequence[str],
    grid: tuple[int, int],
    threads: int,
    shared: int,
    argument: ctypes.Structure,
    device: torch.device,
) -> None:
    """Launch ``relative_KERNEL`` with its argument and ``shared`` bytes of dynamic shared memory.

    Raises RuntimeError if the kernel cannot be compiled, loaded or launched.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    _set_context(index)
    function = _function(kernel, tuple(defines), shared, index)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    stream = ctypes.c_void_p(torch.cuda.current_stream(index).cuda_stream)
    _call("cuLaunchKernel", function, *grid, 1, threads, 1, 1, shared, stream, pointers, None)


def architecture(index: int, defines: Sequence[str]) -> str:
    """The architecture of a GPU, such as ``sm_90``; ``sm_90a`` for kernels with instructions that
    only this generation has."""
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}" + ("a" if "WGMMA=1" in defines else "")


@cache
def _function(kernel: str, defines: tuple[str, ...], shared: int, index: int) -> ctypes.c_void_p:
    """The kernel, loaded on the GPU once per process."""
    _set_context(index)
    code = compile.machine_code(kernel, architecture(index, defines), defines)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _call("cuModuleLoadData", ctypes.byref(module), code)
    name = f"relative_{kernel}".encode()
    _call("cuModuleGetFunction", ctypes.byref(function), module, name)
    _call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, shared)
    return function


def _set_context(index: int) -> None:
    """Make torch's CUDA context of the GPU current in this thread, which may have none yet."""
    current = ctypes.c_void_p()
    _call("cuCtxGetCurrent", ctypes.byref(current))
    if current.value != _context(index).value:
        _call("cuCtxSetCurrent", _context(index))


@cache
def _context(index: int) -> ctypes.c_void_p:
    """torch's CUDA context of the GPU."""
    torch.cuda.init()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuDeviceGet", ctypes.byref(device), index)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context


@cache
def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(f"cannot load the library of the driver ({error})") from error


def _call(function: str, *arguments: object) -> None:
    """Call a function of the driver. Raises RuntimeError if it fails."""
    status = getattr(_library(), function)(*arguments)
    if status:
        name = ctypes.c_char_p()
        _library().cuGetErrorName(status, ctypes.byref(name))
        raise RuntimeError(f"{function}: {(name.value or b'error').decode()} ({status})")
