"""How large the house may be: lines of Python by room, options of all commands.

Growth is a decision: who needs more lines changes a figure here, in the commit that says why. The
aim is a core of 22,000 lines, 34,000 with its wings, and 130 options (ARCHITECTURE.md).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from musictx import compose
from musictx.compose.commands import known_options

PACKAGE = Path(__file__).resolve().parents[1] / "musictx"
WINGS = ("chorale", "live", "mcp", "render", "speed", "studio")
#: Room -> its lines at most. The modules at the top of the package are the room "".
ROOMS = {
    "": 3546,
    "apps": 2478,
    "attention": 2959,
    "cli": 385,
    "compose": 1318,
    "config": 1752,
    "data": 2824,
    "evaluate": 1592,
    "midi": 1694,
    "model": 3113,
    "musicxml": 1065,
    "render": 1499,
    "sampling": 5193,
    "tokens": 2485,
    "train": 2553,
    "chorale": 3367,
    "live": 620,
    "mcp": 591,
    "speed": 2858,
    "studio": 4533,
}
#: Lines of the core and of all; of one file; options of all commands, each counted once.
CORE, ALL, FILE, OPTIONS = 32_957, 46_425, 400, 130


def lines() -> dict[str, int]:
    """File of the package -> how many lines it has."""
    files = (path for path in PACKAGE.rglob("*.py") if "page" not in path.parts)
    return {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in files
    }


def room(file: str) -> str:
    return file.partition("/")[0] if "/" in file else ""


def by_room() -> Counter[str]:
    found: Counter[str] = Counter()
    for file, count in lines().items():
        found[room(file)] += count
    return found


def test_every_room_has_a_figure():
    assert set(by_room()) == set(ROOMS)


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_is_no_larger_than_was_decided(name):
    assert by_room()[name] <= ROOMS[name]


def test_the_core_and_all_together_are_no_larger_than_was_decided():
    found = by_room()
    assert sum(count for name, count in found.items() if name not in WINGS) <= CORE
    assert sum(found.values()) <= ALL


def test_a_file_holds_one_idea():
    assert max(lines().values()) <= FILE


def test_there_are_no_more_options_than_was_decided():
    assert len({name for command in compose.COMMANDS for name in known_options(command)}) <= OPTIONS
