"""No barrier that axe-core knows (WCAG 2.2 A and AA, best practice), in seven states of the page.

axe-core comes from npm when the test runs: it is no part of the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.desk import Desk

AXE = "axe-core@4.10.3"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, as npm has it; ``AXE=FILE`` is one that is there already."""
    given = os.environ.get("AXE")
    if given:
        return Path(given).read_text(encoding="utf-8")
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("no npm at hand, from which axe-core comes (or AXE=axe.min.js)")
    asked = [npm, "pack", AXE, "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    packed = [*folder.glob("*.tgz")]
    if done.returncode or not packed:
        pytest.skip(f"npm has no {AXE} for this machine")
    with tarfile.open(packed[0]) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


def by_key(name: str, shown: str) -> Callable[[Desk], None]:
    """A state that a key in the roll leads to."""

    def state(desk: Desk) -> None:
        desk.open_example("Ode to joy")
        desk.page.locator("#roll").focus()
        desk.page.keyboard.press("Home")
        desk.page.keyboard.press(name)
        desk.page.locator(shown).first.wait_for()

    return state


def start(desk: Desk) -> None:
    desk.page.get_by_role("heading", name="Or try an example").wait_for()


def mixing(desk: Desk) -> None:
    desk.open_example("Ode to joy")
    desk.select_bars(2, 2)
    desk.continued(2, 2)
    for _ in range(2):
        desk.page.keyboard.press("Alt+n")
    desk.button("Mix 1 and 2").click()
    desk.button("Take this mix").wait_for()


def proposals(desk: Desk) -> None:
    mixing(desk)
    desk.page.keyboard.press("Escape")
    desk.page.get_by_role("tab", name="History").click()
    desk.button("As asked").first.wait_for()


def training(desk: Desk) -> None:
    desk.button("Train a model").click()
    desk.page.get_by_role("dialog", name="Train a model on your music").wait_for()


STATES = {
    "start": start,
    "mixing": mixing,
    "proposals": proposals,
    "training": training,
    "notation": by_key("v", "#notation svg"),
    "table": by_key("n", "dialog tbody tr"),
    "words": by_key("w", "input[aria-label^=Words]"),
}


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(state: str, desk: Desk, axe: str) -> None:
    page = desk.page
    STATES[state](desk)
    page.evaluate(axe)  # the inspector's way: the page's own rules let no script in
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(300)  # colours fade
        result = page.evaluate("tags => axe.run(document, {runOnly: tags})", TAGS)
        assert result["passes"]
        violations = [
            (theme, one["id"], node["target"], node["failureSummary"])
            for one in result["violations"]
            for node in one["nodes"]
        ]
        assert not violations
