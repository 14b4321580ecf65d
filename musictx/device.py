"""Which device a model runs on."""

from __future__ import annotations

import torch

from musictx.errors import UserError, shown


def choose_device(name: str) -> torch.device:
    """``auto`` -> the best device of this machine; any other name is checked to be usable."""
    if str(name) == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        mps = getattr(torch.backends, "mps", None)
        return torch.device("mps" if mps is not None and mps.is_available() else "cpu")
    try:
        device = torch.device(shown(name))
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"device={shown(name)}: not usable on this machine ({reason}); try device=auto or "
            "device=cpu"
        ) from None
    return device
