"""The JavaScript modules of the page: unit tests by node, syntax and imports."""

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
    command = [str(NODE), "--test", *files]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    "folder", sorted(p.name for p in (PAGE / "js").iterdir() if p.suffix != ".json")
)
def test_every_module_has_valid_syntax(folder: str) -> None:
    """Modules that need a browser are not run here; a syntax error would leave the page empty."""
    path = PAGE / "js" / folder
    command = [str(NODE), "--check", "--input-type=module"]
    for module in sorted(path.rglob("*.js")) if path.is_dir() else [path]:
        source = module.read_text()
        result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{module.name}: {result.stderr[-2000:]}"


def test_all_imported_modules_and_styles_exist_in_the_page() -> None:
    for module in PAGE.glob("js/**/*.js"):
        text = module.read_text()
        for name in re.findall(r"""^(?:import|export)[^;]*?from "([^"]+)";""", text, re.M):
            assert name.startswith("."), (module.name, name)
            assert (module.parent / name).is_file(), (module.name, name)
    for name in re.findall(r'(?:href|src)="([^"#]+)"', (PAGE / "index.html").read_text()):
        assert name.startswith("/page/"), name
        assert (PAGE / name.removeprefix("/page/")).is_file(), name
