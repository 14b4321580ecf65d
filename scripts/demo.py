"""The demo: hear the models that come along, then train a small one and hear that.

    make demo                              about three minutes on two cores, once installed
    python scripts/demo.py minutes=1       a shorter training; minutes=0: none
    python scripts/demo.py out=DIR         somewhere else than demo/

Each step is a musictx command, printed before it runs, so that it can be typed again.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

OPENING_SECONDS = 9.6  # four bars of 4/4 at the corpus's 100 beats a minute
#: A chorale that the model of chorales was not trained on.
UNHEARD = "bwv294"


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


def write_opening(name: str, path: Path) -> None:
    """The first bars of a chorale inside music21 as a MIDI file to continue."""
    from musictx import midi
    from musictx.chorale import bach

    path.parent.mkdir(parents=True, exist_ok=True)
    midi.write(bach.opening(name, OPENING_SECONDS), path)
    print(f"   {name}, the first {OPENING_SECONDS:g} seconds: {path}")


def play(out: Path) -> None:
    """The models that come along: a melody harmonised, a chorale and a sonata continued."""
    from musictx import shipped

    print("1. Ode to Joy, harmonised by the model of chorales that comes along")
    files = [f"out={out}", "render=true"]
    musictx("harmonise", "melody=ode_to_joy", "name=harmonised", *files)

    print("\n2. The opening of a chorale that it has never seen, continued")
    write_opening(UNHEARD, out / "opening.mid")
    primer = [f"primer={out}/opening.mid", "seconds=20"]
    musictx("generate", "model=chorale", *primer, "name=continued", *files)

    if "piano" in shipped.models():
        print("\n3. The opening of a sonata by Mozart, continued by the piano model")
        primer = ["primer=mozart_k545", "seconds=20"]
        musictx("generate", "model=piano", *primer, "name=sonata", *files)


def train(out: Path, minutes: str) -> None:
    """A small model from nothing, and what it makes of a chorale."""
    print(f"\n4. A small model trained from nothing on events, for {minutes} minutes")
    options = [f"out={out}/run", f"corpus.shards={out}/shards", f"trainer.minutes={minutes}"]
    musictx("train", "experiment=demo", *options)

    print("\n5. What it makes of a chorale that it has never seen")
    write_opening(held_out_chorale(out / "shards"), out / "other-opening.mid")
    primer = [f"primer={out}/other-opening.mid", "seconds=20", "sampling=safe"]
    files = [f"out={out}", "render=true", "name=trained-here"]
    musictx("generate", f"model={out}/run/model", *primer, *files)


def main(words: list[str]) -> None:
    options = {"minutes": "2", "out": "demo"}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in options:
            sys.exit(f"{word}: expected minutes=NUMBER or out=FOLDER")
        options[name] = value
    out = Path(options["out"])
    began = time.monotonic()
    play(out)
    if options["minutes"] != "0":
        train(out, options["minutes"])

    print(
        f"\nDone in {time.monotonic() - began:.0f} s. Listen to {out}/*.wav, look at {out}/*.png,"
    )
    print(f"open {out}/*.mid in any music program.")
    print("\nNext:")
    print(f"  {sys.executable} -m musictx harmonise YOUR_MELODY.mid")
    print(f"  {sys.executable} -m musictx train corpus.path=FOLDER_OF_MIDI")
    print("  (in the same environment: source .venv/bin/activate, then just musictx ...)")


if __name__ == "__main__":
    main(sys.argv[1:])
