"""The music that the README shows, by the models that come along: MIDI and piano rolls.

    python -m scripts.docs.samples [piano=MODEL] [chorale=MODEL] [pop=MODEL] [out=docs]

Each is the first of seed 0; none was chosen. Writes OUT/samples/*.mid, OUT/images/*.png:

piano-1, piano-2   pieces from nothing, 30 s
piano-continued    the opening that comes along, mozart_k545, and 30 s more
harmonised         Ode to Joy in four voices, by the model of chorales
pop, accompanied   a pop song from nothing, 30 s; Ode to Joy with an accompaniment

``piano=``, ``chorale=`` and ``pop=`` take other models than those that come along; none,
``piano= chorale=``, leaves a model out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from musictx import midi
from musictx.apps import generate, harmonise, infill
from musictx.apps.render import render_score
from musictx.config import AccompanyConfig, GenerateConfig, HarmoniseConfig, ModelFolder
from scripts.words import options, run

ROOT = Path(__file__).resolve().parents[2]
#: The options of ``musictx generate``, or of :data:`WITH_MELODY`, beside ``model``, by the model.
PIECES: dict[str, list[dict[str, Any]]] = {
    "piano": [
        {"seconds": 30.0, "samples": 2, "seed": 0, "name": "piano"},
        {"primer": "mozart_k545", "seconds": 30.0, "seed": 0, "name": "piano-continued"},
    ],
    "chorale": [{"melody": "ode_to_joy", "seed": 0, "name": "harmonised"}],
    "pop": [
        {"seconds": 30.0, "seed": 0, "name": "pop"},
        {"melody": "ode_to_joy", "seed": 0, "name": "accompanied"},
    ],
}
#: What is done with a melody, by the model.
WITH_MELODY: dict[str, Any] = {
    "chorale": ("harmonise", harmonise.run, HarmoniseConfig),
    "pop": ("accompany", infill.run, AccompanyConfig),
}


def draw(score: Any, stem: Path, seam: float) -> None:
    """The piano roll of ``score`` as STEM.png, in few colours: half the bytes."""
    (picture,) = render_score(score, stem, wav=False, seam=seam or None)
    with Image.open(picture) as drawn:
        small = drawn.convert("RGB").quantize(256)
    small.save(picture, optimize=True)
    print(picture, picture.stat().st_size // 1000, "kB")


def main(words: list[str]) -> None:
    given = options(words, {"out": str(ROOT / "docs")} | {kind: kind for kind in PIECES})
    out = Path(given["out"])
    for folder in ("samples", "images"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for kind, pieces in PIECES.items():
        if not given[kind]:
            continue
        for asked in pieces:
            told = " ".join(f"{name}={value}" for name, value in asked.items())
            command, run, config = ("generate", generate.run, GenerateConfig)
            if "melody" in asked:
                command, run, config = WITH_MELODY[kind]
            print(f"$ musictx {command} model={given[kind]} {told}", flush=True)
            with tempfile.TemporaryDirectory() as written:
                where = {"model": ModelFolder(given[kind]), "out": written, "device": "cpu"}
                results = run(config(**asked, **where))
            for number, result in enumerate(results, 1):
                stem = asked["name"] if len(results) == 1 else f"{asked['name']}-{number}"
                midi.write(result.sample.score, out / "samples" / f"{stem}.mid")
                draw(result.sample.score, out / "images" / stem, result.sample.seam)


if __name__ == "__main__":
    run(main)
