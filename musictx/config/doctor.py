"""Options of ``musictx doctor``: it has none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DoctorConfig:
    """musictx doctor: what this machine has, and which paths are taken on it."""
