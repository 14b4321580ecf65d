"""``python -m musictx mcp`` and a client of the package ``mcp``, over pipes."""

import sys
from pathlib import Path

import anyio
import pytest

import musictx
from musictx.mcp.tools import TOOLS
from tests.untrained import saved

pytest.importorskip("mcp")


def call_tools(tmp_path, *calls):
    """Return the tools of the server, and for each call its answer and progress reports. A call is
    (tool, arguments, seconds until the client cancels it)."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import get_default_environment

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "musictx", "mcp", "out=made"],
        cwd=tmp_path,
        env=get_default_environment() | {"OMP_NUM_THREADS": "1", "PYTHONPATH": sys.path[0]},
    )

    async def run_client():
        answers = []
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            for name, arguments, seconds in calls:
                reports = []

                async def report(done, total, message, reports=reports):
                    reports.append(done)

                answer = None
                with anyio.move_on_after(seconds):
                    answer = await client.call_tool(name, arguments, progress_callback=report)
                answers.append((answer, reports))
        return tools, answers

    return anyio.run(run_client)


@pytest.mark.slow
def test_a_client_composes_gets_an_error_and_cancels_a_call(tmp_path):
    notes = {"model": str(saved(tmp_path / "tiny")), "density": 30}
    tools, answers = call_tools(
        tmp_path,
        ("generate", {"seconds": 2, "seed": 5, "samples": 2, **notes}, 60),
        ("continue", {"primer": "no/such.mid"}, 60),
        ("generate", {"seconds": 80_000, "seed": 6, "out": "long.mid", **notes}, 3),
        ("generate", {"seconds": 2, "seed": 5, "samples": 2, "out": "again", **notes}, 60),
    )
    assert {tool.name for tool in tools} == {*TOOLS}
    (first, _), (missing, _), (cancelled, steps), (again, _) = answers
    assert not first.is_error
    pieces = first.structured_content["pieces"]
    files = [piece["files"][0] for piece in pieces]
    assert files == [str(tmp_path / "made" / f"tiny-5-{n}.mid") for n in (1, 2)]
    assert "seed=5" in first.structured_content["command"]
    assert first.structured_content["command"] in first.content[0].text
    assert [len(musictx.read(file)) for file in files] == [piece["notes"] for piece in pieces]
    assert missing.is_error
    assert missing.content[0].text == "primer=no/such.mid: no such file"
    assert cancelled is None
    assert len(steps) > 2
    assert steps == sorted(set(steps))
    # The cancelled call has stopped, so the next call is answered; the same seed, the same music.
    for file, piece in zip(files, again.structured_content["pieces"]):
        assert Path(file).read_bytes() == Path(piece["files"][0]).read_bytes()
    assert not (tmp_path / "made" / "long.mid").exists()
