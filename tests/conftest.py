"""Settings of the whole suite."""

import os
import signal
import tempfile
from pathlib import Path

# Everything here is tiny: a second thread only waits, and waits dearly on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell's background jobs are born deaf to Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What is compiled for a test does not go into the user's own cache.
os.environ.setdefault("MUSICTX_CACHE", str(Path(tempfile.gettempdir()) / "musictx-tests"))

import pytest  # noqa: E402 - after the settings above
from hypothesis import HealthCheck, settings  # noqa: E402

# Laws are about answers, not about how fast a busy machine finds them. `make test` tries the same
# examples every time; MUSICTX_SEARCH=1 looks for new ones.
settings.register_profile(
    "musictx",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("MUSICTX_SEARCH"),
)
settings.load_profile("musictx")


@pytest.fixture
def one_thread():
    """torch on one thread, so that the same sums give the same bits."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
