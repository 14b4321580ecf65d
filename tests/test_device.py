"""Where a model is put."""

import pytest

from musictx.device import choose_device
from musictx.errors import UserError


def test_a_device_that_is_not_there_is_told():
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(UserError, match="device=abacus: not usable on this machine"):
        choose_device("abacus")
