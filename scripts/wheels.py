"""Build wheels with the compiled C++ libraries of musictx/speed for four platforms: ``make
wheels``.

   python -m scripts.wheels [out=dist] [only=linux-x86_64,windows-x86_64] [wheel=FILE]

Builds the wheel without libraries (or takes ``wheel``), compiles attention and the step of decoding
with zig's Clang for each platform and each variant of its CPUs
(``musictx.speed.native.build.VARIANTS``), and packs a wheel ``py3-none-PLATFORM`` for each. Then:

- the functions of each library and the libraries that it links against are checked;
- the wheel for this machine is installed into an empty folder and composes there without a
  compiler; for the included models the step in C++ gives the logits of torch.

CI installs the other wheels on their systems and runs ``musictx doctor``. Needs the extra
``wheels``.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from musictx import registry
from musictx.errors import UserError
from musictx.model.features import BUILT_IN
from musictx.speed.native import build
from scripts.harness import run

ROOT = Path(__file__).resolve().parents[1]
NATIVE = Path(build.__file__).parent
FUNCTIONS = {
    "kernel": {"musictx_bf16", "musictx_use", "musictx_attention"},
    "step": {"musictx_features", "musictx_step"},
}
#: System libraries: a library may link against these alone, above all not against OpenMP.
SYSTEM = re.compile(
    r"lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux[\w-]*\.so\.\d|/usr/lib/libSystem\.B\.dylib"
    r"|kernel32\.dll|ntdll\.dll|api-ms-win-crt-[\w-]+\.dll|ucrtbase\.dll",
    re.IGNORECASE,
)
X86 = tuple(name for name in build.VARIANTS if name.startswith("x86"))


@dataclass(frozen=True)
class Target:
    """A platform: its name in zig, the tag of its wheel, the suffix and variants of its
    libraries."""

    zig: str
    tag: str
    suffix: str
    variants: Sequence[str]


TARGETS = {
    "linux-x86_64": Target(
        "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64", ".so", X86
    ),
    "linux-aarch64": Target(
        "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64", ".so", ("armv8",)
    ),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64", ".dylib", ("armv8",)),
    "windows-x86_64": Target("x86_64-windows-gnu", "win_amd64", ".dll", X86),
}


def feature_headers() -> list[tuple[str, Path]]:
    """(struct, header) of all included features that are implemented in C++, too."""
    paths = [*BUILT_IN.values(), *registry.FEATURES.values()]
    headers = []
    for module in sorted({path.partition(":")[0] for path in paths}):
        spec = find_spec(module)
        header = Path(str(spec and spec.origin)).with_suffix(".h")
        if header.exists():
            text = header.read_text(encoding="utf-8")
            struct = re.search(r"struct (\w+) : \w+ {", text)
            assert struct, f"{header} has no struct with a base"
            headers.append((struct[1], header))
    return headers


def compile_libraries(target: Target, folder: Path) -> list[Path]:
    """Compile the libraries of a platform into ``folder``."""
    flags = [flag for flag in build.COMMON if flag not in ("-shared", "-fPIC")]
    flags += ["-g0"] if target.suffix == ".dll" else ["-g0", "-fPIC"]
    features = feature_headers()
    step_flags = [f"-DFEATURES={','.join(name for name, _ in features)}"]
    step_flags += [word for _, header in features for word in ("-include", str(header))]
    libraries = []
    for variant in target.variants:
        for stem, flags_of_source in (("kernel", []), ("step", step_flags)):
            part, path = folder / f"{stem}.o", folder / f"{stem}-{variant}{target.suffix}"
            cpu = [flag.replace("=x86-64-", "=x86_64_") for flag in build.VARIANTS[variant]]
            source = [f"-I{NATIVE}", "-c", str(NATIVE / f"{stem}.cpp"), "-o", str(part)]
            zig(target, [*flags, *cpu, "-w", *flags_of_source, *source])
            # Link without flags of the CPU, so that zig compiles its C++ library only once.
            name = [f"-Wl,-install_name,@rpath/{path.name}"] if path.suffix == ".dylib" else []
            zig(target, ["-O3", "-shared", "-s", *name, str(part), "-o", str(path)])
            part.unlink()
            libraries.append(path)
    for import_library in folder.glob("*.lib"):  # not needed to load a DLL
        import_library.unlink()
    return libraries


def call(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def zig(target: Target, words: Sequence[str]) -> None:
    call([sys.executable, "-m", "ziglang", "c++", "-target", target.zig, *words])


def inspect_library(path: Path) -> None:
    """Raise ``UserError`` if a library lacks a function or links against more than the system."""
    import lief

    library = lief.parse(str(path))
    names = {str(f.name).removeprefix("_") for f in library.exported_functions}
    required = FUNCTIONS[path.name.partition("-")[0]]
    if not required <= names:
        raise UserError(f"{path.name}: has no {', '.join(sorted(required - names))}")
    itself = {path.name, f"@rpath/{path.name}"}
    linked = {str(getattr(other, "name", other)) for other in library.libraries} - itself
    foreign = [n for n in linked if not (SYSTEM.fullmatch(Path(n).name) or SYSTEM.fullmatch(n))]
    if foreign:
        raise UserError(f"{path.name}: links against {', '.join(foreign)}")


def pack(plain: Path, target: Target, libraries: Sequence[Path], out: Path) -> Path:
    """Write the wheel ``plain`` with the ``libraries`` of a platform into ``out``."""
    with tempfile.TemporaryDirectory() as scratch:
        call([sys.executable, "-m", "wheel", "unpack", str(plain), "-d", scratch])
        (folder,) = Path(scratch).iterdir()
        for library in libraries:
            shutil.copy(library, folder / "musictx/speed/native")
        (about,) = folder.glob("*.dist-info/WHEEL")
        lines = about.read_text().splitlines()
        lines = [line for line in lines if line and not line.startswith(("Tag", "Root"))]
        lines += ["Root-Is-Purelib: false", *(f"Tag: py3-none-{x}" for x in target.tag.split("."))]
        about.write_text("\n".join(lines) + "\n")
        call([sys.executable, "-m", "wheel", "pack", str(folder), "-d", str(out)])
    return newest(out, f"*{target.tag.partition('.')[0]}*.whl")


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


COMPOSE = """
import sys
sys.path.insert(0, sys.argv[1])
import musictx, torch
from musictx import bundle, shipped
from musictx.sampling import engine
from musictx.speed import step
from musictx.speed.native import build, library
assert build.prebuilt_path(library.SOURCE) and build.prebuilt_path(step.SOURCE), build.variant()
library.load()
for name, folder in shipped.models().items():
    model = bundle.load(folder).model
    assert (why := step.why_not(model)) is None, why
    drawn = list(engine.generate(model, [1], max_tokens=60, seeds=[0, 1], cache="native"))
    ids = torch.stack([torch.ones_like(drawn[0]), *drawn]).T
    decoder = engine.Decoder(model, ids[:, :1], rows=2, capacity=61, longest=61, cache="native")
    for column in ids.T[1:]:
        decoder.append(column)
        decoder.step()
    expected = model(ids)[:, -1]  # with weights in bytes the step rounds keys and values
    assert (decoder.logits - expected).norm() < 0.03 * expected.norm(), name
(made,) = musictx.generate("piano", tokens=40)
musictx.write(made, "made.mid")
print(f"composed with {build.prebuilt_path(step.SOURCE).name}")
"""


def try_wheel(wheel: Path) -> str:
    """Install ``wheel`` into an empty folder and compose without a compiler; return the output."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        install = ["pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
        call([sys.executable, "-m", *install, str(folder / "site"), str(wheel)])
        (folder / "work").mkdir()
        variables = {"PATH": str(folder / "work"), "HOME": scratch}
        program = [sys.executable, "-P", "-c", COMPOSE, str(folder / "site")]
        answer = subprocess.run(
            program, cwd=folder / "work", env=variables, capture_output=True, text=True, timeout=600
        )
        if answer.returncode:
            raise UserError(f"{wheel.name}: {answer.stdout}{answer.stderr}")
        return answer.stdout.strip().splitlines()[-1]


def main(
    out: Path = Path("dist"), only: Sequence[str] = tuple(TARGETS), wheel: Path | None = None
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    plain = wheel
    if plain is None:
        call([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)])
        plain = newest(out, "*-py3-none-any.whl")
    for name in only:
        if name not in TARGETS:
            raise UserError(f"only={name}: expected some of {', '.join(TARGETS)}")
        target = TARGETS[name]
        with tempfile.TemporaryDirectory() as scratch:
            libraries = compile_libraries(target, Path(scratch))
            for library in libraries:
                inspect_library(library)
            packed = pack(plain, target, libraries, out)
        is_native = name == f"{sys.platform}-{platform.machine()}"
        remark = f"; {try_wheel(packed)}" if is_native else ""
        print(f"{packed}: {', '.join(target.variants)}{remark}")


if __name__ == "__main__":
    run(main)
