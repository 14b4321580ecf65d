"""Provide shared libraries of C++ sources: prebuilt in a wheel, or compiled on first use.

Wheels contain libraries for a few kinds of CPU (scripts/wheels.py); :func:`prebuilt_path` chooses
the one for this CPU. A source checkout contains none; then the library is compiled into the user's
cache, once for each compiler and kind of CPU. The file's name contains a hash of everything that
its contents depend on: the compiler, the CPU (machines may share a home folder) and the source. The
library is written to a temporary file and renamed, under a lock, so that several processes may
request it at the same time.

MUSICTX_CACHE    folder for the library (default: musictx in XDG_CACHE_HOME or ~/.cache)
MUSICTX_COMPILE  1: compile for exactly this CPU even if a library is prebuilt
CXX              the compiler's command (default: the first of c++, g++, clang++ that is installed)
ATEN_CPU_CAPABILITY  avx2 or default: use no wider instructions, as torch does
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from filelock import FileLock

from musictx import files
from musictx.errors import UserError

COMPILER_SECONDS = 300  # the time limit of a compilation, which takes about 3 seconds

#: No -ffast-math: linked into a library it makes the whole process treat tiny numbers as zero.
#: avoid-fma-max-bits=0: for some CPUs, such as AMD's, GCC otherwise splits fused multiply-adds, but
#: only in some loops, so that a row of a batch would differ from the same row alone. Clang ignores
#: this parameter.
COMMON = (
    *("-std=c++20", "-O3", "-shared", "-fPIC", "-fopenmp-simd", "-fvisibility=hidden"),
    *("-ffp-contract=fast", "--param=avoid-fma-max-bits=0"),
    *("-fno-math-errno", "-fno-trapping-math"),
)
#: By default GCC and Clang use only half the width of AVX-512.
WIDE = "-mprefer-vector-width=512"
#: Variant of the libraries in a wheel -> its flags.
VARIANTS = {
    "x86-64-v3": ("-march=x86-64-v3",),
    "x86-64-v4": ("-march=x86-64-v4", WIDE),
    "x86-64-v4-bf16": ("-march=x86-64-v4", "-mavx512bf16", WIDE),
    "armv8": (),
}
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
_X86 = platform.machine().lower() in ("x86_64", "amd64")


def _cpu_flags() -> tuple[str, ...]:
    """The flags to compile for this CPU."""
    if not _X86:
        return ("-mcpu=native",)
    capability = os.environ.get("ATEN_CPU_CAPABILITY", "").lower()
    march = {"avx2": "x86-64-v3", "default": "x86-64"}.get(capability, "native")
    return (f"-march={march}", WIDE)


FLAGS: tuple[str, ...] = (*COMMON, *_cpu_flags())
_NO_COMPILER = "no C++ compiler (c++, g++, clang++) is installed"
_USE_CHUNKED = "use attention=chunked, which needs no compiler"
_USE_OTHER = f"name another in the environment variable CXX, or {_USE_CHUNKED}"


def variant() -> str | None:
    """The fastest of :data:`VARIANTS` on this CPU, ``None`` if it can run none of them."""
    import torch

    if not _X86:
        return "armv8" if platform.machine().lower() in ("aarch64", "arm64") else None
    capability = torch.backends.cpu.get_cpu_capability()
    if capability.startswith("AVX512"):
        has_bf16 = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()  # no public name
        return "x86-64-v4-bf16" if has_bf16 else "x86-64-v4"
    return "x86-64-v3" if capability == "AVX2" else None


def prebuilt_path(source: Path) -> Path | None:
    """The prebuilt library of ``source`` for this CPU, if there is one and it is not disabled."""
    if os.environ.get("MUSICTX_COMPILE", "") not in ("", "0"):
        return None
    path = source.with_name(f"{source.stem}-{variant()}{SUFFIX}")
    return path if path.exists() else None


class NoCompiler(UserError):
    """No C++ compiler is installed on this machine."""


def compiler() -> list[str]:
    """The compiler's command. Raises :class:`NoCompiler` if none is installed."""
    chosen = os.environ.get("CXX", "").strip()
    if chosen:
        command = shlex.split(chosen)
        if shutil.which(command[0]) is None:
            raise NoCompiler(
                f"the compiler CXX={chosen} is not installed; name another, or {_USE_CHUNKED}"
            )
        return command
    for name in ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if sys.platform == "darwin" and path == f"/usr/bin/{name}":
            # On a Mac without developer tools it opens a window to install them.
            if _run(["xcode-select", "-p"]).returncode != 0:
                continue
        if path:
            return [name]
    raise NoCompiler(
        f"it is compiled on first use, but {_NO_COMPILER}; install one, name one in the "
        f"environment variable CXX, or {_USE_CHUNKED}"
    )


def failure(load: Callable[[], object], effect: str = "") -> str | None:
    """Call ``load``, which loads a library, and return the reason if it fails, else ``None``. If a
    compiler is installed, a failure is unexpected and therefore printed, after its ``effect``."""
    try:
        load()
    except NoCompiler as error:
        return str(error)
    except (UserError, OSError) as error:
        print(f"musictx: {effect}{error}", file=sys.stderr)
        return str(error)
    return None


def check() -> str:
    """Describe the compiler and the folder of its libraries, or say why there is no compiler."""
    try:
        command = compiler()
    except NoCompiler:
        return _NO_COMPILER
    version = _run([command[0], "--version"]).stdout.strip().splitlines() or ["?"]
    return f"{shlex.join(command)} ({version[0]}); libraries in {cache_folder()}"


def cache_folder() -> Path:
    """The folder of compiled libraries and kernels."""
    if chosen := os.environ.get("MUSICTX_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "musictx"


@cache
def cpu_features() -> frozenset[str]:
    """The instruction sets of this CPU as named by the Linux kernel; elsewhere the CPU's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset([platform.machine(), platform.processor()])
    fields = (line.partition(":") for line in lines)
    flags = (value for name, _, value in fields if name.strip() in ("flags", "Features"))
    return frozenset(next(flags, platform.processor()).split())


def library_path(source: Path, features: Sequence[tuple[str, Path]] = ()) -> Path:
    """The path of the shared library of ``source``, which is compiled if it is not in the cache.

    ``features`` are pairs (struct, header): the headers are included before ``source``, and the
    macro ``FEATURES`` lists the structs, separated by commas.

    Raises UserError, with the reason in a sentence, if the library cannot be compiled.
    """
    command = [*compiler(), *FLAGS, f"-DFEATURES={','.join(struct for struct, _ in features)}"]
    folder = cache_folder()
    headers = [header for _, header in features]
    target = folder / f"{source.stem}-{_key(source, command, headers)}{SUFFIX}"
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_suffix(".lock")):
            if not target.exists():  # another process may have compiled it meanwhile
                includes = [word for header in headers for word in ("-include", str(header))]
                _compile([*command, f"-I{source.parent}", *includes], source, target)
    except OSError as error:
        raise UserError(
            f"cannot write to the folder {folder} ({error.strerror or error}); name another in the "
            f"environment variable MUSICTX_CACHE, or {_USE_CHUNKED}"
        ) from error
    return target


def _key(source: Path, command: list[str], headers: Sequence[Path]) -> str:
    """A hash of everything that the compiled library depends on."""
    version = _run([command[0], "--version"]).stdout
    folders = {source.parent, *(header.parent for header in headers)}
    includes = [path for folder in folders for path in folder.glob("*.h")]
    # An order that does not depend on where musictx is installed.
    includes.sort(key=lambda path: (path.name, path.parent.name))
    parts = [
        *(path.read_text(encoding="utf-8") for path in [source, *includes]),
        shlex.join(command),
        version,
        platform.machine(),
        *sorted(cpu_features()),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILER_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"no answer in {COMPILER_SECONDS} seconds"
        raise UserError(f"cannot run the compiler {command[0]} ({reason}); {_USE_OTHER}") from error


def _compile(command: list[str], source: Path, target: Path) -> None:
    name = {"kernel": "attention", "step": "the step of decoding"}.get(source.stem, source.stem)
    print(f"musictx: compiling {name} for this CPU, once, into {target.parent}", file=sys.stderr)
    with files.atomic(target) as part:
        process = _run([*command, "-o", str(part), str(source)])
        if process.returncode:
            lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if "error" in line.lower()]
            reason = (errors or lines or ["no message"])[-1]
            raise UserError(
                f"the compiler {shlex.quote(command[0])} failed ({reason}); {_USE_OTHER}"
            )
