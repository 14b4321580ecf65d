"""docs/python.md: its code runs as it stands, and it names all that the package offers."""

import re
import warnings
from pathlib import Path

import musictx

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_code_of_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        line = text[: text.index(block)].count("\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile("\n" * line + block, str(PAGE), "exec"), names)
    out = capsys.readouterr().out
    assert "more than limits.notes=10" in out
    assert set(names["black"].score.notes["pitch"] % 12) <= {1, 3, 6, 8, 10}
    assert names["black"].notes
    assert names["event"].seconds > 2
    assert names["embedding"].shape == (names["bundle"].model.config["width"],)


def test_every_public_name_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for name in set(musictx.__all__) - {"__version__"}:
        assert f"`{name}" in text, name
