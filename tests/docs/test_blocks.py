"""Every block of Python on a page is executed by the suite."""

import re
from pathlib import Path

import pytest

import musictx
from tests.docs.blocks import BLOCK, execute
from tests.docs.test_composing_page import song

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages with a test of their own, which looks at what their code leaves.
ELSEWHERE = {"attention.md", "http.md", "python.md", "training.md"}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if BLOCK.search(page.read_text()) and page.name not in ELSEWHERE],
    ids=lambda page: page.name,
)
def test_the_code_of_the_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    musictx.write(song(), tmp_path / "song.mid")
    execute(page)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_the_others_have_a_test_that_executes_them(name):
    test = Path(__file__).with_name(f"test_{name.removesuffix('.md')}_page.py")
    assert re.search(r"execute\(PAGE|exec\(compile\(", test.read_text())
