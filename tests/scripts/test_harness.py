"""Words become arguments of a script's main function, or a wrong one is an error of one sentence;
scripts import only what exists."""

import ast
import importlib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from musictx.errors import UserError
from scripts.harness import call

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.mark.parametrize("path", sorted(SCRIPTS.rglob("*.py")), ids=lambda path: path.stem)
def test_a_script_imports_what_exists(path):
    """Only imports of musictx and tests are checked."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and re.match(
            "musictx|tests(?!.browser)", str(node.module)
        ):
            module = importlib.import_module(str(node.module))
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or importlib.import_module(f"{node.module}.{name}")


def main(*files: str, n: int = 3, at: float = 0.5, out: Path | None = None,
         rows: Sequence[int] = (1,), rehearse: bool = False, **rest: str) -> tuple:  # fmt: skip
    return files, n, at, out, rows, rehearse, rest


def needed(path: Path, seed: int = 0) -> tuple:
    return path, seed


def test_words_are_converted_to_the_types_of_the_arguments():
    assert call(main, []) == ((), 3, 0.5, None, (1,), False, {})
    words = ["a.mid", "n=-4", "at=1e-3", "out=b", "rows=1,64", "rehearse=true", "trainer.x=5"]
    expected = (("a.mid",), -4, 1e-3, Path("b"), [1, 64], True, {"trainer.x": "5"})
    assert call(main, words) == expected
    assert call(needed, ["seed=1", "path=a"]) == (Path("a"), 1)


@pytest.mark.parametrize(
    ("function", "words", "name"),
    [(main, ["n=x"], "n"), (main, ["rows=1,b"], "rows"),
     (main, ["rehearse=1"], "rehearse"), (main, ["m=3"], "m"),
     (needed, ["a", "path=a"], "a"), (needed, ["seed=3"], "path"), (needed, ["p.q=3"], "p.q")],
)  # fmt: skip
def test_a_wrong_word_is_named(function, words, name):
    with pytest.raises(UserError) as caught:
        call(function, words)
    assert str(caught.value).startswith(name)
