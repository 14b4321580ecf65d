"""Settings of the whole suite."""

import os
import signal
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

# Tensors are tiny, so a second thread only costs time, on a busy machine a lot.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Background jobs of a shell ignore SIGINT, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests do not write compiled libraries into the user's cache.
os.environ.setdefault("MUSICTX_CACHE", str(Path(tempfile.gettempdir()) / "musictx-tests"))

import pytest  # noqa: E402 - after the settings above
from hypothesis import HealthCheck, settings  # noqa: E402

# No deadline, since other programs may slow an example down. `make test` tries the same examples
# every time; MUSICTX_SEARCH=1 looks for new ones.
settings.register_profile(
    "musictx",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("MUSICTX_SEARCH"),
)
settings.load_profile("musictx")


def skipped(config: pytest.Config) -> Counter[str]:
    """Count the skipped tests by reason; a file that is skipped as a whole counts once."""
    reports = config.pluginmanager.getplugin("terminalreporter").stats.get("skipped", [])
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)


def refused(config: pytest.Config) -> list[str]:
    """Return the reasons for skips that are not in the file MUSICTX_SKIPS; CI fails for these."""
    accepted = os.environ.get("MUSICTX_SKIPS")
    lines = Path(accepted).read_text(encoding="utf-8").splitlines() if accepted else []
    return sorted({*skipped(config)} - {*lines}) if accepted else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and refused(session.config):
        session.exitstatus = 6  # one that pytest does not use


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    """End the output with the skipped tests and the reasons."""
    yield
    counts = skipped(terminalreporter.config)
    reasons = "; ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    terminalreporter.write_line(f"skipped: {counts.total()}" + (f" ({reasons})" if counts else ""))
    for reason in refused(terminalreporter.config):
        terminalreporter.write_line(f"not to be skipped here: {reason}", red=True)


@pytest.fixture
def one_thread():
    """torch on one thread, so that the same sums give the same bits."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def few_chorales(monkeypatch):
    """Every fourth file of music21's chorales: all of them take seconds to read."""
    from musictx.chorale import corpora

    folder = corpora._folder
    few = SimpleNamespace(iterdir=lambda: sorted(folder().iterdir())[::4])
    monkeypatch.setattr(corpora, "_folder", lambda: few)
    corpora.chorales.cache_clear()
    yield
    corpora.chorales.cache_clear()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folders of untrained models, by the names of the included models."""
    from tests.untrained import models

    return models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def only_tiny(tiny, monkeypatch):
    monkeypatch.setattr("musictx.shipped.models", lambda: tiny)
