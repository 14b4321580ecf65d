"""docs/http.md: it names every route there is, and its examples run against a real studio."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import musictx
from musictx import shipped
from musictx.studio.app import Studio
from musictx.studio.config import StudioConfig
from tests.browser.served import ROOT, Served

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_route_is_in_the_table_and_no_other(tmp_path):
    async def routes():
        studio = Studio(StudioConfig(folder=str(tmp_path)), lambda *arguments: None)
        return {f"{route.method} {plain(route.path)}" for route in studio.routes()}

    def plain(path: str) -> str:
        path = path.replace("{session:", "{id:")
        return re.sub(r"\{(\w+):(?:[^{}]|\{[^{}]*\})*\}", r"{\1}", path)

    documented = re.findall(r"^\| `([A-Z]+ /api/[^`?]+)(?:\?[^`]*)?`", PAGE, flags=re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == asyncio.run(routes())


@pytest.mark.slow
def test_the_examples_run_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("ode.mid").write_bytes(shipped.examples()["ode_to_joy"].read_bytes())
    studio = Served(tmp_path / "pieces").start()
    try:
        names = {"STUDIO": studio.url}
        for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(compile(block, "docs/http.md", "exec"), names)
        assert names["take"]["state"] == "done"
        assert len(musictx.read("longer.mid")) == len(names["piece"]["notes"])
        assert names["piece"]["duration"] > musictx.read("ode.mid").duration
    finally:
        studio.stop()
