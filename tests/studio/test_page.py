"""The studio's page: its pure modules, tested by node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from musictx.chords import name_of

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


SYMBOLS = """maj M 6 add9 5 m min - m6 madd9 7 9 11 13 dom7 maj7 M7 ma7 M9 Δ Δ7 m7 min7 -7 m9 m11
mi7 m7b5 -7b5 ø ø7 hdim7 dim ° o dim7 o7 aug + aug7 sus2 sus4 sus 7sus4 9sus4"""


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_chords_are_read_as_the_command_line_reads_them() -> None:
    words = [root + symbol for root in ("C", "F#", "Bb", "E♭") for symbol in SYMBOLS.split()]
    words += ["N.C.", "nc", "C/E", "Am7/G", "A:min7", "H", "Verse", "C:", "", "B/A", "Dadd9/F#"]
    words += ["C13b9", "G7b9#11/Bb", "Cno3"]
    module = (PAGE / "js" / "document" / "harmony.js").as_uri()
    script = (
        f"import {{ chordNamed, chordLabel }} from '{module}'; const words = {json.dumps(words)};"
    )
    script += "const back = (name) => name && chordNamed(chordLabel(name));"
    script += "const names = words.map(chordNamed);"
    script += "console.log(JSON.stringify([names, names.map(back)]));"
    asked = [str(NODE), "--input-type=module", "-e", script]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    ours = [name_of(word) for word in words]
    theirs, shown = json.loads(done.stdout)
    assert theirs == ours
    assert [name_of(name) if name else None for name in shown] == [
        "C:maj" if name == "C:" else name for name in ours
    ]
