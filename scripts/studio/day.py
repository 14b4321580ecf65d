"""A day at the studio, at speed: many short takes of every task and model, in several pieces.

    python -m scripts.studio.day [takes=400] [pieces=10] [seed=0]

One person asks for a take, hears it out, accepts it, sets it aside or undoes it, looks for chords,
exports now and then, and goes on in another piece. Prints the server's memory ten times, and fails
if in the second half it is a tenth above the most of the first. Needs ps.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

from scripts.words import options
from scripts.words import run as script
from tests.browser.served import Served

DEFAULTS = {"takes": "400", "pieces": "10", "seed": "0"}
EXAMPLES = ("mozart_k545", "ode_to_joy", "frere_jacques")
#: What is asked, by which models, in which examples (all where none are named).
ASKED = (
    ({"task": "continue", "seconds": 2}, ("piano", "song"), ()),
    ({"task": "replace", "begin": 1, "end": 3}, ("piano", "song"), ()),
    ({"task": "vary", "begin": 1, "end": 4, "keep": 0.5}, ("piano", "song"), ()),
    ({"task": "accompany"}, ("song",), ()),
    ({"task": "new", "seconds": 3}, ("piano", "song", "chorale"), ()),
    ({"task": "harmonise"}, ("chorale",), ("frere_jacques",)),
)
ENDS = ("done", "failed", "stopped")
PARTS = 10


def ask(url: str, method: str = "GET", **body: Any) -> Any:
    headers = {"X-Musictx": "1", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    asked = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=120) as answer:
        content = answer.read()
    return json.loads(content) if content[:1] in (b"{", b"[") else content


def take(piece: str, example: str, rng: Random, number: int) -> str:
    """Ask for one, wait for its end, and decide about it; its state."""
    fitting = [one for one in ASKED if not one[2] or example in one[2]]
    words, models, _ = rng.choice(fitting)
    if rng.random() < 0.02:
        ask(f"{piece}/export/a.{rng.choice(('wav', 'png', 'mid'))}")
    request = words | {"model": rng.choice(models), "samples": rng.randint(1, 3), "seed": number}
    mine = ask(f"{piece}/takes", "POST", **request)["id"]
    while True:
        document = ask(piece)
        found = next(one for one in document["takes"] if one["id"] == mine)
        if found["state"] in ENDS:
            break
        time.sleep(0.05)
    if found["state"] == "done" and rng.random() < 0.5:
        ask(f"{piece}/takes/{mine}/accept", "POST", proposal=1, revision=document["revision"])
        ask(f"{piece}/chords")
        ask(f"{piece}/undo", "POST", revision=ask(piece)["revision"])  # it stays as short as it was
    else:
        ask(f"{piece}/takes/{mine}", "DELETE")
    return str(found["state"])


def main(words: list[str]) -> None:
    given = options(words, DEFAULTS)
    rng, count = Random(given["seed"]), int(given["takes"])
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder) / "studio").start()
        try:
            api = f"{served.url}/api/sessions"
            memory, states, pieces = [served.megabytes()], dict.fromkeys(ENDS, 0), []
            for i in range(int(given["pieces"])):
                example = EXAMPLES[i % len(EXAMPLES)]
                made = ask(f"{api}?name=day&example={example}", "POST")
                pieces.append((f"{api}/{made['id']}", example))
            print(f"| takes | MB |\n|--:|--:|\n| 0 | {memory[0]:.0f} |", flush=True)
            for number in range(1, count + 1):
                piece, example = pieces[number * len(pieces) // (count + 1)]
                states[take(piece, example, rng, number)] += 1
                if number % (count // PARTS) == 0:
                    memory.append(served.megabytes())
                    print(f"| {number} | {memory[-1]:.0f} |", flush=True)
        finally:
            served.stop()
            print("\n".join(served.lines[1:]))  # what it said of its faults
    print("\n" + ", ".join(f"{many} {state}" for state, many in states.items()))
    half = len(memory) // 2 + 1
    if max(memory[half:]) > 1.1 * max(memory[:half]):
        print(f"memory grew from {max(memory[:half]):.0f} to {max(memory[half:]):.0f} MB")
        sys.exit(1)


if __name__ == "__main__":
    script(main)
