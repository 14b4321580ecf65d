"""The mark of tests that need a C++ compiler; without one they are skipped. Code that it rejects
and a step that is not native although it could be do not skip a test, but fail it."""

import pytest

from musictx.errors import UserError
from musictx.speed.native import build

try:
    build.compiler()
    INSTALLED = True
except UserError:
    INSTALLED = False
needed = pytest.mark.skipif(not INSTALLED, reason="no C++ compiler on this machine")
