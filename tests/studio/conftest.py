"""Fixtures: a studio of tiny models, and a client of a studio that does not compose."""

import pytest

from musictx import shipped
from tests.studio.composers import composing, models
from tests.studio.studios import studio_client


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


@pytest.fixture
def session(studio):
    return studio.new_session()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def client(tmp_path, request):
    """A client of a studio; an indirect parameter gives the options of the studio."""
    async with studio_client(tmp_path, **getattr(request, "param", {})) as client:
        yield client
