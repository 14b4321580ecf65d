"""Compile CUDA C++ to machine code with NVRTC, the compiler in torch's wheels for CUDA.

Machine code is cached in the user's cache folder (``native.build.cache_folder``), by architecture,
source, options and version of NVRTC. Compiling needs no GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from musictx import files
from musictx.errors import WriteError
from musictx.speed.native.build import cache_folder

HERE = Path(__file__).parent


def source(kernel: str) -> str:
    """The source of a kernel: the two headers of all kernels, then its own file."""
    names = ("device.cuh", "common.cuh", f"{kernel}.cu")
    return "\n".join((HERE / name).read_text("utf-8") for name in names)


def machine_code(kernel: str, architecture: str, defines: Sequence[str]) -> bytes:
    """The machine code of a kernel for an architecture such as ``sm_90``, which is compiled if it
    is not in the cache.

    ``defines`` are macros, ``NAME=VALUE``. Raises RuntimeError, with the reason, if the kernel
    cannot be compiled.
    """
    text, options = source(kernel), options_for(architecture, defines)
    key = hashlib.sha256("\0".join([text, *options, version()]).encode()).hexdigest()[:20]
    path = cache_folder() / f"{kernel}-{architecture}-{key}.cubin"
    with suppress(OSError):
        return path.read_bytes()
    print(f"musictx: compiling {kernel} of attention for {architecture}, once", file=sys.stderr)
    code, _ = compile_source(text, options)
    with suppress(WriteError):  # without a cache the kernel is compiled again next time
        files.write_bytes(path, code)
    return code


def options_for(architecture: str, defines: Sequence[str]) -> list[str]:
    """The compiler options for NVRTC."""
    macros = (f"-D{define}" for define in defines)
    return [f"--gpu-architecture={architecture}", "-std=c++17", *macros]


def compile_source(text: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Compile ``text`` and return (machine code, the compiler's log). Raises RuntimeError with the
    compiler's first error."""
    nvrtc = _library()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def check(status: int) -> None:
        if status:
            raise RuntimeError(f"NVRTC failed (status {status})")

    option_array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    )
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), option_array)
        check(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
        log = ctypes.create_string_buffer(max(1, size.value))
        check(nvrtc.nvrtcGetProgramLog(program, log))
        message = log.value.decode(errors="replace")
        if status:
            errors = re.findall(r".*error.*", message) or message.split("\n")
            raise RuntimeError(f"NVRTC failed ({errors[0].strip()[:200] or f'status {status}'})")
        check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        check(nvrtc.nvrtcGetCUBIN(program, code))
        return code.raw, message
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def version() -> str:
    """The version of NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def why_not() -> str | None:
    """Why NVRTC is not available, or ``None`` if it is."""
    try:
        _library()
    except RuntimeError as error:
        return str(error)
    return None


@cache
def _library() -> ctypes.CDLL:
    """NVRTC of torch's CUDA version or, failing that, of any version that is installed."""
    for path in _candidates():
        try:
            for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise RuntimeError("NVRTC, CUDA's compiler at run time, is not installed")


def _candidates() -> Iterator[str]:
    """Paths or names of NVRTC libraries, the best first."""
    import torch

    major = (torch.version.cuda or "").partition(".")[0]
    spec = importlib.util.find_spec("nvidia")  # the folder of NVIDIA's wheels
    folders = [Path(x) for x in (spec.submodule_search_locations or [])] if spec else []
    folders += [Path(torch.__file__).parent / "lib", Path("/usr/local/cuda/lib64")]
    paths = [path for folder in folders for path in sorted(folder.rglob("libnvrtc.so*"))]
    yield from (str(path) for path in paths if major and path.name.endswith(f".so.{major}"))
    if major:
        yield f"libnvrtc.so.{major}"
    yield from map(str, paths)
