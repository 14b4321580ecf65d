"""From C++ source to a shared library in the user's cache, once for each compiler and kind of CPU.

The file's name is a hash of everything that its contents depend on: another compiler, another CPU
(the cache may lie in a home shared by machines), another source make another file. It is written
beside and renamed, under a lock, so any number of processes may ask at once.

MUSICTX_CACHE  folder for the library (default: musictx in XDG_CACHE_HOME or ~/.cache)
CXX            the compiler's command (default: the first of c++, g++, clang++ that is installed)
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from musictx.errors import UserError

SECONDS = 300  # after which a compiler is taken to hang; it needs about 3

#: No -ffast-math: linked into a library it makes the whole process treat tiny numbers as zero.
FLAGS: tuple[str, ...] = (
    *("-std=c++20", "-O3", "-shared", "-fPIC", "-fopenmp"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
)
if platform.machine().lower() in ("x86_64", "amd64"):
    FLAGS += ("-march=native", "-mprefer-vector-width=512")  # GCC would take half of AVX-512
else:
    FLAGS += ("-mcpu=native",)
_INSTEAD = "use attention=chunked, which needs no compiler"


def compiler() -> list[str]:
    """The compiler's command; UserError where there is none."""
    wanted = os.environ.get("CXX", "").strip()
    if wanted:
        command = shlex.split(wanted)
        if shutil.which(command[0]) is None:
            raise UserError(
                f"attention=native: the compiler CXX={wanted} is not installed; name another, "
                f"or {_INSTEAD}"
            )
        return command
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise UserError(
        "attention=native: it is compiled on first use, but no C++ compiler (c++, g++, clang++) "
        f"is installed; install one, name one in the environment variable CXX, or {_INSTEAD}"
    )


def cache_folder() -> Path:
    if chosen := os.environ.get("MUSICTX_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "musictx"


@cache
def cpu_features() -> frozenset[str]:
    """What this CPU can do, as the Linux kernel names it; elsewhere its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset([platform.machine(), platform.processor()])
    named = (line.partition(":") for line in lines)
    found = (value for name, _, value in named if name.strip() in ("flags", "Features"))
    return frozenset(next(found, platform.processor()).split())


def built(source: Path, list_name: str = "", structs: Sequence[tuple[str, Path]] = ()) -> Path:
    """The shared library made from ``source``, compiled now if the cache lacks it.

    ``structs`` are (name, header): the headers are included first, and ``source`` finds the names,
    with commas between, in the macro ``list_name``.

    UserError where that cannot be, with the reason in a sentence.
    """
    command = [*compiler(), *FLAGS]
    folder = cache_folder()
    if list_name:
        command.append(f"-D{list_name}={','.join(name for name, _ in structs)}")
    headers = [header for _, header in structs]
    target = folder / f"{source.stem}-{_key(source, command, headers)}.so"
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(target.with_suffix(".lock")):
            if not target.exists():  # another process may have been first
                included = [word for header in headers for word in ("-include", str(header))]
                _compile([*command, f"-I{source.parent}", *included], source, target)
    except OSError as error:
        raise UserError(
            f"attention=native: cannot write to the folder {folder} ({error.strerror or error}); "
            f"name another in the environment variable MUSICTX_CACHE, or {_INSTEAD}"
        ) from error
    return target


def _key(source: Path, command: list[str], headers: Sequence[Path]) -> str:
    version = _run([command[0], "--version"]).stdout
    folders = {source.parent, *(header.parent for header in headers)}
    beside = sorted((path for folder in folders for path in folder.glob("*.h")), key=_by_name)
    parts = [
        *(path.read_text(encoding="utf-8") for path in [source, *beside]),
        shlex.join(command),
        version,
        platform.machine(),
        *sorted(cpu_features()),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _by_name(path: Path) -> tuple[str, str]:
    """In an order that does not depend on where musictx lies."""
    return path.name, path.parent.name


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except OSError as error:
        raise UserError(
            f"attention=native: cannot run the compiler {command[0]} ({error.strerror}); name "
            f"another in the environment variable CXX, or {_INSTEAD}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"attention=native: the compiler {command[0]} did not answer in {SECONDS} seconds; "
            f"name another in the environment variable CXX, or {_INSTEAD}"
        ) from error


def _compile(command: list[str], source: Path, target: Path) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.stem, suffix=".part")
    os.close(handle)
    part = Path(name)
    what = {"kernel": "attention", "step": "the step of decoding"}.get(source.stem, source.stem)
    print(f"musictx: compiling {what} for this CPU, once, into {target.parent}", file=sys.stderr)
    try:
        answer = _run([*command, "-o", str(part), str(source)])
        if answer.returncode:
            raise UserError(
                f"attention=native: the compiler {shlex.join(command[:1])} failed "
                f"({_last_word(answer.stderr)}); name another in the environment variable CXX, "
                f"or {_INSTEAD}"
            )
        part.chmod(0o755)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _last_word(stderr: str) -> str:
    """The last line that speaks of an error, or the last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["without a word"])[-1]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Held by one process at a time; let go by the system should that process die."""
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise UserError(
            f"attention=native: it is built on Linux and macOS only; {_INSTEAD}"
        ) from error
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
