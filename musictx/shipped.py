"""What comes along with musictx: trained models, melodies and an opening, known by name."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
#: Which of the models is used where nothing has been trained yet: the first that is there. Only a
#: model of four voices can harmonise a melody.
FOR_MUSIC = ("piano", "chorale")
FOR_MELODIES = ("chorale",)
#: Which of the examples are openings to continue; the others are melodies.
OPENINGS = ("mozart_k545",)


def models() -> dict[str, Path]:
    """Name -> model folder."""
    return {
        p.name: p for p in sorted((_HERE / "models").glob("*")) if (p / "config.yaml").is_file()
    }


def default(*, melody: bool = False) -> Path | None:
    """The model folder for new music and continuations, or to harmonise a ``melody``; None if none
    of them came along."""
    ours = models()
    names = FOR_MELODIES if melody else FOR_MUSIC
    return next((ours[name] for name in names if name in ours), None)


def examples() -> dict[str, Path]:
    """Name -> MIDI file."""
    return {p.stem: p for p in sorted((_HERE / "examples").glob("*.mid"))}


def melodies() -> dict[str, Path]:
    """The examples that are melodies to harmonise: name -> MIDI file."""
    return {name: path for name, path in examples().items() if name not in OPENINGS}
