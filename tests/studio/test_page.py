"""The JavaScript modules of the page: unit tests by node, syntax and imports."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "page"
PAGE = Path(__file__).parents[2] / "musictx" / "studio" / "page"
NODE = shutil.which("node")


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_modules_of_the_page() -> None:
    files = sorted(str(path) for path in HERE.glob("*.test.mjs"))
    command = [str(NODE), "--test", *files]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]


#: Compiles the files in its arguments, which finds errors of syntax, and runs none of them.
COMPILE = """
import { readFileSync } from "node:fs";
import { SourceTextModule } from "node:vm";
for (const identifier of process.argv.slice(1))
  new SourceTextModule(readFileSync(identifier, "utf8"), { identifier });
"""


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_every_module_has_valid_syntax() -> None:
    """Modules that need a browser are not run here; a syntax error would leave the page empty."""
    files = sorted(str(path) for path in PAGE.glob("js/**/*.js"))
    command = [str(NODE), "--experimental-vm-modules", "--input-type=module", "--eval", COMPILE]
    result = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]


def test_all_imported_modules_and_styles_exist_in_the_page() -> None:
    for module in PAGE.glob("js/**/*.js"):
        text = module.read_text()
        for name in re.findall(r"""^(?:import|export)[^;]*?from "([^"]+)";""", text, re.M):
            assert name.startswith("."), (module.name, name)
            assert (module.parent / name).is_file(), (module.name, name)
    for name in re.findall(r'(?:href|src)="([^"#]+)"', (PAGE / "index.html").read_text()):
        assert name.startswith("/page/"), name
        assert (PAGE / name.removeprefix("/page/")).is_file(), name
