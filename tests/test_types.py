"""What an editor sees: no public call of the package gives Any."""

import re
import sys

import pytest

from scripts import stub

CALLS = """
import musictx
reveal_type(musictx.read("x.mid"))
reveal_type(musictx.write(musictx.read("x.mid"), "y.mid"))
reveal_type(musictx.load("piano"))
reveal_type(musictx.load("piano").model)
reveal_type(musictx.load("piano").tokenizer)
reveal_type(musictx.generate("piano"))
reveal_type(musictx.generate("piano", primer=["a.mid", "b.mid"])[0].score)
reveal_type(musictx.stream("piano"))
reveal_type(next(musictx.stream("piano")))
reveal_type(next(musictx.stream("piano")).pitch)
reveal_type(musictx.harmonise("ode_to_joy"))
reveal_type(musictx.infill("x.mid", "chorale", begin=2, end="3", tracks="alto"))
reveal_type(musictx.accompany("x.mid")[0])
reveal_type(musictx.accompany("x.mid")[0].seam)
reveal_type(musictx.log_likelihood("piano", "x.mid"))
reveal_type(musictx.render("x.mid", "x"))
reveal_type(musictx.train("corpus=bach"))
reveal_type(musictx.evaluate("model=piano"))
musictx.generate("piano", sampling="safe", key="Cm", quantise=16, density="dense")
musictx.generate("piano", second=1.0)
"""


@pytest.mark.slow
def test_no_public_call_gives_any(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    out, _, _ = mypy.run([str(file), "--python-executable", sys.executable])
    revealed = re.findall(r'Revealed type is "(.*)"', out)
    assert len(revealed) == CALLS.count("reveal_type"), out
    for line in revealed:
        assert line != "Any", out
        assert "[Any" not in line, out
    errors = [line for line in out.splitlines() if ": error:" in line]
    assert [line for line in errors if "second" in line] == errors
    assert len(errors) == 1


def test_the_stub_is_what_the_dataclasses_make():
    """Else: python -m scripts.stub"""
    assert stub.STUB.read_text(encoding="utf-8") == stub.text()
