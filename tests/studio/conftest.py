"""A studio of tiny models, for the tests that compose."""

from __future__ import annotations

import pytest
import torch

from musictx import shipped
from tests.studio.composers import composing, models

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def only_tiny(tiny, monkeypatch):
    monkeypatch.setattr(shipped, "models", lambda: tiny)


@pytest.fixture
def studio(tmp_path):
    with composing(tmp_path / "studio") as studio:
        yield studio
