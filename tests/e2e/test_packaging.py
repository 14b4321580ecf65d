"""The wheel has all files of the package, and works without the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def files_of_the_package() -> list[Path]:
    """Return all files of musictx/ and conf/, except what Python writes there."""
    return [
        path.relative_to(CHECKOUT)
        for name in ("musictx", "conf")
        for path in sorted((CHECKOUT / name).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    ]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy, so that the checkout stays clean."""
    copy = tmp_path_factory.mktemp("copy")
    for name in files_of_the_package():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((CHECKOUT / name).read_bytes())
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((CHECKOUT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(copy)]
    subprocess.run(build, check=True, capture_output=True)
    return next(copy.glob("dist/musictx-*.whl"))


def test_every_file_of_the_checkout_is_in_the_wheel(wheel):
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    (entry,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "musictx = musictx.cli:main" in archive.read(entry).decode()
    expected = {
        (Path("musictx") / path if path.parts[0] == "conf" else path).as_posix()
        for path in files_of_the_package()
    }
    assert not expected - names, "add its folder or its ending to pyproject"
    assert {Path(name).suffix for name in expected} >= {".py", ".yaml", ".mid", ".cpp", ".h"}
    assert wheel.stat().st_size < 40e6


def test_an_editable_installation_is_a_path_from_which_editors_read_the_types(wheel, tmp_path):
    program = "import setuptools.build_meta as b, sys; b.build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=wheel.parents[1], check=True)
    (archive,) = map(zipfile.ZipFile, tmp_path.glob("*.whl"))
    (path,) = (archive.read(name) for name in archive.namelist() if name.endswith(".pth"))
    assert Path(path.decode().strip()) == wheel.parents[1]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Return the command of a new environment with the wheel and the packages of this environment.

    A ``.pth`` file adds the folder of those packages. Python reads no ``.pth`` file in that folder,
    so the editable install there has no effect.
    """
    root = tmp_path_factory.mktemp("fresh")
    venv.create(root, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(root), "platbase": str(root)}))
    zipfile.ZipFile(wheel).extractall(site)
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = root / "bin" / "musictx"
    command.write_text(
        f"#!{root / 'bin' / 'python'}\nimport sys\nfrom musictx.cli import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    return command


def test_the_installed_wheel_composes_and_finds_its_configuration(installed, tmp_path):
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}

    def printed(*words):
        return subprocess.check_output(words, cwd=tmp_path, text=True, env=environment)

    words = ["train", "--cfg", "job", "model=tiny", "trainer=laptop", "corpus=bach"]
    assert "name: bach" in printed(installed, *words)
    where = "import musictx.commands as c; print(c.__file__); print(c.conf_dir())"
    for line in printed(installed.parent / "python", "-c", where).splitlines():
        assert line.startswith(str(installed.parent.parent)), "imported from outside the wheel"
