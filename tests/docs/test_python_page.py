"""docs/python.md: its code runs as it stands, and it names all that the package offers."""

from pathlib import Path

import musictx
from tests.docs.blocks import execute

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_code_of_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = execute(PAGE)
    out = capsys.readouterr().out
    assert "more than limits.notes=10" in out
    assert set(names["black"].score.notes["pitch"] % 12) <= {1, 3, 6, 8, 10}
    assert names["black"].notes
    assert names["event"].seconds > 2
    assert names["embedding"].shape == (names["bundle"].model.config.width,)


def test_every_public_name_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for name in set(musictx.__all__) - {"__version__"}:
        assert f"`{name}" in text, name
