"""The kernels in CUDA C++ on the CPU: the same source compiled by g++, one block at a time, with
fibers as threads. Properties of a GPU beyond that (timing, machine code) are not tested here."""

import ctypes
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from musictx.speed.cuda import compile

HERE = Path(__file__).parent
Launch = Callable[..., None]


class Stopped(Exception):
    """The emulation found a wrong address, a bank conflict of ldmatrix or a deadlock."""


def library(text: str, entry: str, defines: Sequence[str]) -> ctypes.CDLL:
    """The emulation of a kernel, compiled in 2 seconds and cached in the temporary folder."""
    flags = ["-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-DEMULATE", f"-DENTRY={entry}"]
    flags += [f"-D{define}" for define in defines]
    parts = [text, *flags, *(x.read_text() for x in sorted(HERE.glob("emulate.*")))]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / "musictx-emulated"
    folder.mkdir(exist_ok=True)
    target = folder / f"{key}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source, part = Path(scratch) / "kernel.cu", Path(scratch) / "part.so"
            source.write_text(text)
            more = [f'-DSOURCE="{source}"', f"-I{HERE}", str(HERE / "emulate.cpp")]
            subprocess.run(["g++", *flags, *more, "-o", str(part)], check=True)
            part.replace(target)
    return ctypes.CDLL(str(target))


def launcher(late: int = 0, order: int = 0, change: tuple[str, str] = ("", "")) -> Launch:
    """A function to replace ``driver.launch``.

    late          what happens only when it is waited for: 1 copies, 2 WGMMA products, 3 both
    order         the order of warps (emulate.cpp)
    change        (text, replacement): an edit of the source
    """

    def launch(
        kernel: str, defines: list[str], grid: tuple[int, int], threads: int, shared: int,
        argument: Any, device: Any,
    ) -> None:  # fmt: skip
        text = compile.source(kernel).replace(*change) if change[0] else compile.source(kernel)
        built = library(text, f"relative_{kernel}", defines)
        assert threads == 256
        assert built.shared_bytes_needed() == shared
        size = int(next(x for x in defines if x.startswith("HEAD=")).partition("=")[2])
        pairs = grid[1] if kernel == "forward" else grid[0]
        keys = pairs * -(-argument.length // 8) * 8 * size  # numbers; rows in groups of 8
        rows = argument.slots * -(-argument.rows // 8) * 8 * size
        built.emulate.restype = ctypes.c_char_p
        failure = built.emulate(
            ctypes.byref(argument), *grid, ctypes.c_longlong(keys), ctypes.c_longlong(rows),
            int(late), order,
        ).decode()  # fmt: skip
        if failure:
            raise Stopped(failure)

    return launch
