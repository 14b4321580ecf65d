"""The studio's page: its pure modules, tested by node."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "page"
PAGE = Path(__file__).parents[2] / "musictx" / "studio" / "page"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_modules_of_the_page() -> None:
    files = sorted(str(path) for path in HERE.glob("*.test.mjs"))
    done = subprocess.run(
        [str(NODE), "--test", *files], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    "room", sorted(p.name for p in (PAGE / "js").iterdir() if p.suffix != ".json")
)
def test_every_module_is_javascript(room: str) -> None:
    """Those that need a browser are not run here; a slip in their grammar would blank the page."""
    place = PAGE / "js" / room
    for module in sorted(place.rglob("*.js")) if place.is_dir() else [place]:
        with module.open() as text:
            asked = [str(NODE), "--check", "--input-type=module"]
            done = subprocess.run(asked, stdin=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{module.name}: {done.stderr[-2000:]}"


def test_every_import_and_every_style_is_there() -> None:
    """What a module names exists, and nothing comes from outside."""
    for module in PAGE.glob("js/**/*.js"):
        text = module.read_text()
        for name in re.findall(r"""^(?:import|export)[^;]*?from "([^"]+)";""", text, re.M):
            assert name.startswith("."), (module.name, name)
            assert (module.parent / name).is_file(), (module.name, name)
    for name in re.findall(r'(?:href|src)="([^"#]+)"', (PAGE / "index.html").read_text()):
        assert name.startswith("/page/"), name
        assert (PAGE / name.removeprefix("/page/")).is_file(), name
