"""Fixtures: a studio of tiny models, and a client of a studio that does not compose."""

import pytest

from tests.studio.composers import composing
from tests.studio.studios import studio_client


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
