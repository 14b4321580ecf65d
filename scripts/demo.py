"""The demo: hear the models that come along, as sound and as pictures.

    make demo                          less than a minute on two cores, once installed
    python scripts/demo.py out=DIR     somewhere else than demo/

Each step is a musictx command, printed before it runs, so that it can be typed again.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

#: What is said, and the command without ``out=``.
STEPS = [
    (
        "Ode to Joy, harmonised by the model of chorales that comes along",
        "harmonise melody=ode_to_joy name=harmonised render=true",
    ),
    (
        "The opening of a sonata by Mozart, continued by the piano model that comes along",
        "generate model=piano primer=mozart_k545 seconds=15 name=sonata render=true",
    ),
]


def main(words: list[str]) -> None:
    out = "demo"
    for word in words:
        name, equals, out = word.partition("=")
        if not equals or name != "out":
            sys.exit(f"{word}: expected out=FOLDER")
    began = time.monotonic()
    for number, (said, command) in enumerate(STEPS, 1):
        print(f"\n{number}. {said}\n\n$ musictx {command} out={out}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "musictx", *shlex.split(command), f"out={out}"]
        )
        if done.returncode:
            sys.exit(done.returncode)
    print(f"\nDone in {time.monotonic() - began:.0f} s. Listen to {out}/*.wav,")
    print(f"look at {out}/*.png, open {out}/*.mid in any music program. Next:\n")
    musictx = Path(sys.executable).with_name("musictx")
    print(f"  {musictx} harmonise melody=YOUR_MELODY.mid")
    print(f"  {musictx} train corpus.path=FOLDER_OF_MIDI")


if __name__ == "__main__":
    main(sys.argv[1:])
