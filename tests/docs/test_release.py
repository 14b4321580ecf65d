"""The version is one, the changelog has its form, the generated reference is complete."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import musictx
from musictx.commands import COMMANDS
from musictx.config import SCHEMES, checks
from musictx.config.trainer import PASSED_ON
from scripts.docs import reference

ROOT = Path(__file__).resolve().parents[2]
CHANGES = (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", CHANGES, re.M)
    assert released[0] == (musictx.__version__, citation["date-released"])
    assert project["version"] == citation["version"] == musictx.__version__


def test_the_changelog_has_the_sections_of_its_form():
    versions = CHANGES.split("\n## ")[1:]
    assert versions[0].startswith("[Unreleased]")
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    for version in versions:
        titles = re.findall(r"^### (\w+)$", version, re.M)
        assert titles == [title for title in order if title in titles]


@pytest.fixture(scope="module")
def options() -> set[str]:
    """Every option as it is typed."""
    kinds = [command.config for command in COMMANDS.values()]
    typed = {checks.cli_name(name, field) for kind in kinds for name, field in checks.options(kind)}
    schemes = {f"position.{name}" for one in SCHEMES.values() for name, _ in checks.options(one)}
    return typed - {"trainer.flags"} | schemes | {f"trainer.{flag}" for flag in PASSED_ON}


def test_the_reference_has_every_command_option_and_file_of_conf(options):
    page = reference.commands()
    assert {name for name in COMMANDS if f"\n## {name}\n" not in page} == set()
    assert {name for name in options if f"`{name}`" not in page} == set()
    page = reference.configuration()
    for file in (ROOT / "conf").rglob("*/*.yaml"):
        group, name = file.relative_to(ROOT / "conf").with_suffix("").as_posix().split("/", 1)
        assert group == "hydra" or f"`{group}={name}`" in page


def test_options_of_today_on_the_page_of_renamed_ones_exist(options):
    page = (ROOT / "docs" / "migration.md").read_text("utf-8").partition("## Files")[0]
    rows = re.findall(r"^\| .* \| (.*) \|$", page, re.M)
    today = {name for row in rows for name in re.findall(r"`(\w+\.[\w.]+)[=`]", row)}
    assert len(today) > 10
    groups = {name.rpartition(".")[0] for name in options}
    assert {name for name in today if name.rpartition(".")[0] in groups} <= options | {
        f"corpus.limits.{name}" for name in ("read_seconds", "read_mb")
    }
