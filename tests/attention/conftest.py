"""Fixtures of the tests of attention."""

from __future__ import annotations

import pytest

from musictx.attention.chunked import plan


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 8 queries and one batch row at a time: many blocks at little cost."""
    monkeypatch.setattr(plan, "BLOCK", 8)
    monkeypatch.setattr(plan, "BUDGET", 1)
