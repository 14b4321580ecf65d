"""The demo: train a small model on Bach chorales, continue a chorale it never saw, hear and see it.

    make demo                              two to three minutes on two cores, once installed
    python scripts/demo.py minutes=1       a shorter training
    python scripts/demo.py out=DIR         somewhere else than demo/

Each step is a musictx command, printed before it runs, so that it can be typed again.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

BACH_SECONDS = 9.6  # four bars of 4/4 at the corpus's 100 beats a minute


def musictx(*words: str) -> None:
    """Run one command as a person would, and stop the demo if it fails."""
    print("\n$ musictx " + " ".join(shlex.quote(w) for w in words), flush=True)
    status = subprocess.run([sys.executable, "-m", "musictx", *words]).returncode
    if status:
        sys.exit(status)


def held_out_chorale(shards: Path) -> str:
    """The name of the first chorale that training does not see."""
    from musictx.data.shards import Shards

    return Shards(shards).pieces("validation")[0].name


def main(words: list[str]) -> None:
    options = {"minutes": "2", "out": "demo"}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in options:
            sys.exit(f"{word}: expected minutes=NUMBER or out=FOLDER")
        options[name] = value
    out = Path(options["out"])
    began = time.monotonic()

    print(f"1. Train on the chorales inside music21 for {options['minutes']} minutes")
    train = ["train", "experiment=demo", f"out={out}/run"]
    musictx(*train, f"corpus.shards={out}/shards", f"trainer.minutes={options['minutes']}")

    print("\n2. Take the opening of a chorale it has never seen")
    from musictx import midi
    from musictx.data import bach

    name = held_out_chorale(out / "shards")
    opening = out / "opening.mid"
    midi.write(bach.opening(name, BACH_SECONDS), opening)
    print(f"   {name}, the first {BACH_SECONDS:g} seconds: {opening}")

    print("\n3. Let the model go on from there")
    generate = ["generate", f"model={out}/run/model", f"primer={opening}", "seconds=20"]
    musictx(*generate, "sampling=safe", "render=true", "name=continuation", f"out={out}")

    print(f"\nDone in {time.monotonic() - began:.0f} s. Listen to {out}/continuation.wav,")
    print(f"look at {out}/continuation.png, open {out}/continuation.mid in any music program.")
    print(f"How it learned: {out}/run/samples (a sample at every checkpoint).")
    print("\nNext:")
    print(f"  {sys.executable} -m musictx train corpus.path=FOLDER_OF_MIDI")
    print("  (in the same environment: source .venv/bin/activate, then just musictx ...)")


if __name__ == "__main__":
    main(sys.argv[1:])
