"""What comes along with musictx: trained models and a few melodies, known by name."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
#: What ``musictx generate`` uses where nothing has been trained yet.
DEFAULT = "chorale"


def models() -> dict[str, Path]:
    """Name -> model folder."""
    return {
        p.name: p for p in sorted((_HERE / "models").glob("*")) if (p / "config.yaml").is_file()
    }


def examples() -> dict[str, Path]:
    """Name -> MIDI file."""
    return {p.stem: p for p in sorted((_HERE / "examples").glob("*.mid"))}
