"""A client of the package ``mcp`` talks with ``python -m musictx mcp`` over its pipes."""

import sys

import anyio
import pytest

import musictx
from musictx.mcp.tools import TOOLS
from tests.untrained import saved

pytest.importorskip("mcp")


def talk(tmp_path, *calls):
    """The server's tools and the answers to ``calls``, each with the progress that was reported."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import get_default_environment

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "musictx", "mcp", "out=made"],
        cwd=tmp_path,
        env=get_default_environment() | {"OMP_NUM_THREADS": "1", "PYTHONPATH": sys.path[0]},
    )

    async def all_of_it():
        answers = []
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            for name, arguments, patience in calls:
                reports = []

                async def hear(done, total, message, reports=reports):
                    reports.append((done, total, message))

                answer = None
                with anyio.move_on_after(patience):
                    answer = await client.call_tool(name, arguments, progress_callback=hear)
                answers.append((answer, reports))
        return tools, answers

    return anyio.run(all_of_it)


def test_a_client_composes_is_corrected_and_stops(tmp_path):
    model = str(saved(tmp_path / "tiny"))
    notes = {"model": model, "density": 30}
    tools, answers = talk(
        tmp_path,
        ("generate", {"seconds": 2, "seed": 5, "samples": 2, **notes}, 60),
        ("continue", {"primer": "no/such.mid"}, 60),
        ("generate", {"seconds": 80_000, "seed": 6, "out": "long.mid", **notes}, 3),
        ("generate", {"seconds": 2, "seed": 5, "samples": 2, "out": "again", **notes}, 60),
    )
    assert {tool.name for tool in tools} == {*TOOLS}
    (first, _), (missing, _), (cancelled, long), (again, _) = answers
    assert not first.is_error
    pieces = first.structured_content["pieces"]
    assert [piece["files"][0] for piece in pieces] == [
        str(tmp_path / "made" / f"tiny-5-{n}.mid") for n in (1, 2)
    ]
    assert "seed=5" in first.structured_content["command"]
    assert first.structured_content["command"] in first.content[0].text
    for piece in pieces:
        assert len(musictx.read(piece["files"][0])) == piece["notes"]
    assert missing.is_error
    assert missing.content[0].text == "primer=no/such.mid: no such file"
    assert cancelled is None
    steps = [done for done, _, _ in long]
    assert len(steps) > 2
    assert steps == sorted(set(steps))
    # The cancelled call has stopped, so that the next is answered, with the same music again.
    for piece, same in zip(pieces, again.structured_content["pieces"]):
        with open(piece["files"][0], "rb") as one, open(same["files"][0], "rb") as other:
            assert one.read() == other.read()
    assert not (tmp_path / "made" / "long.mid").exists()
