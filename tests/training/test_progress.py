"""What a person reads while a model trains."""

import io
import re

import pytest

from musictx.training.progress import Progress, duration
from tests.training.fakes import fake_training, fit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations_are_words(seconds, text):
    assert duration(seconds) == text


LINE = re.compile(
    r"step \d+/12  train/loss \d\.\d{3}  lr [\de.-]+(  val/loss [\d.]+)?"
    r"(  [\d.]+k? tokens/s)?  \d+ s left"
)


def test_without_a_terminal_there_are_plain_lines_with_everything():
    out = io.StringIO()
    fit(fake_training(), callbacks=[Progress(every=0.0, file=out)])
    lines = out.getvalue().splitlines()
    assert len(lines) == 12
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert lines[0].startswith("step 1/12")
    assert "val/loss" in lines[-1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_one_bar_and_words_stand_above_it():
    out = Terminal()
    progress = Progress(file=out)
    progress.interval = 0.0
    fit(fake_training(), callbacks=[progress])
    assert "\n" not in out.getvalue().strip()
    assert "100%" in out.getvalue()
    progress.print("a sentence")
    assert out.getvalue().endswith("a sentence\n")
