"""Programs that tests start as processes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(
    *command: str | Path, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in ``folder``; Python imports the package from the checkout there."""
    variables = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=900, check=False
    )


def run_python(*words: str, **options) -> subprocess.CompletedProcess[str]:
    """:func:`run` the interpreter of the tests with these words."""
    return run(sys.executable, *words, **options)
