"""docs/attention.md: its code runs as it stands, its links and pictures are there."""

import re
from pathlib import Path

import pytest

from musictx.config import SCHEMES
from tests.docs.blocks import execute

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "attention.md"


def test_the_code_of_the_page_runs_from_top_to_bottom():
    execute(PAGE)


def test_links_and_pictures_are_there_and_small():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        path = (PAGE.parent / target).resolve()
        assert path.exists(), target
        if path.suffix == ".png":
            assert path.stat().st_size < 100_000, target


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_is_on_the_page(name):
    assert f"`{name}`" in PAGE.read_text()


def test_each_scheme_has_a_file_of_its_own_in_conf():
    files = {p.stem for p in (ROOT / "conf" / "position").glob("*.yaml")}
    assert files >= set(SCHEMES)
