"""What a change must leave as it is: notes, shards, logits and help, as one JSON of hashes.

    python -m scripts.unchanged write=FILE [only=notes|shards|logits|help]
    python -m scripts.unchanged against=FILE [only=...]

The first line writes the hashes of the musictx in the current folder, the second says what differs
from a FILE written before, with status 1 if anything does. Without ``only`` it takes some minutes.
Hashes of notes and logits hold for one machine, one torch and one compiler: compare with a file
written on the same machine. Of MIDI files the notes, programs and pedals are compared, to the
tick; of shards the bytes. What a command refuses is compared by its words.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shlex
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
sys.path.insert(0, os.getcwd())

import mido
import torch

from musictx import bundle, cli
from musictx.errors import UserError
from musictx.sampling import engine
from scripts.words import options, run, several

COMMANDS = ["prepare", "train", "generate", "infill", "accompany", "harmonise", "play", "jam"]
COMMANDS += ["studio", "evaluate", "compare", "render", "mcp"]
#: The seed is the number of the line, and so is the folder that a command writes to.
LINES = dict(enumerate(Path(__file__).with_suffix(".txt").read_text().splitlines(), 1))


def digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]


def write_midi(path: str, voices: dict[str, list[int]], beats: float = 1.0) -> None:
    """One track a voice: a name, and pitches of ``beats`` quarters each, 0 for a rest."""
    file = mido.MidiFile(ticks_per_beat=480)
    metas = (mido.MetaMessage("set_tempo", tempo=600_000), mido.MetaMessage("time_signature"))
    file.tracks.append(mido.MidiTrack(metas))
    for number, (name, pitches) in enumerate(voices.items()):
        program = mido.Message("program_change", channel=number, program=number)
        track = mido.MidiTrack([mido.MetaMessage("track_name", name=name), program])
        rest = 0
        for at, pitch in enumerate(pitches):
            if not pitch:
                rest += int(480 * beats)
                continue
            on = {"channel": number, "note": pitch, "velocity": 50 + 7 * at % 60}
            track.append(mido.Message("note_on", **on, time=rest))
            track.append(mido.Message("note_off", channel=number, note=pitch,
                                      time=int(480 * beats) - 20))  # fmt: skip
            rest = 20
        file.tracks.append(track)
    file.save(path)


def make_files() -> None:
    """The music that the commands read, in the current folder."""
    tune = [67, 69, 71, 72, 74, 72, 71, 67, 69, 71, 72, 69, 67, 66, 67, 67]
    bass = [43, 0, 55, 0, 48, 0, 50, 0, 43, 0, 48, 50, 50, 0, 43, 43]
    write_midi("song.mid", {"tune": tune, "bass": bass})
    write_midi("short.mid", {"tune": tune[:12]})
    alto, tenor = [p - 5 for p in tune], [p - 12 for p in tune]
    voices = {"Soprano": tune, "Alto": alto, "Tenor": tenor, "Bass": [p - 24 for p in tune]}
    write_midi("chorale.mid", voices)
    Path("midi/deep").mkdir(parents=True)
    for number in range(12):
        rng = random.Random(number)
        tracks = {
            f"part {n}": rng.choices([0, *range(36, 90)], k=60) for n in range(1 + number % 3)
        }
        write_midi(
            f"midi/{'deep/' if number % 2 else ''}{number}.mid", tracks, rng.choice([0.5, 1])
        )
    Path("midi/again.mid").write_bytes(Path("midi/0.mid").read_bytes())
    Path("midi/broken.mid").write_bytes(Path("midi/2.mid").read_bytes()[:90])
    chorales = [[[p + n, p - 5, p - 12, p - 24] for p in tune * 2 for _ in "aa"] for n in range(5)]
    Path("jsb.json").write_text(json.dumps({"train": chorales[:3], "valid": chorales[3:]}))


def said(line: str) -> str:
    """What the command says where it fails, and nothing where it works."""
    told = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(told):
        status = cli.main(shlex.split(line))
    return f"status {status}: {told.getvalue().strip()[-300:]}" if status else ""


def notes_of(path: Path) -> list:
    """Every note, program and pedal of a file: kind, tick, numbers; in order."""
    found = []
    for track in mido.MidiFile(path).tracks:
        tick = 0
        for message in track:
            tick += message.time
            if message.type in ("note_on", "note_off", "program_change", "control_change"):
                numbers = [v for k, v in message.dict().items() if k not in ("time", "channel")]
                found.append([tick, *map(str, numbers)])
    return sorted(found)


def notes() -> dict[str, str]:
    found = {}
    for number, line in LINES.items():
        if line.startswith("prepare"):
            continue
        out = Path(f"out-{number}")
        failed = said(f"{line} seed={number} out={out}")
        found[line] = failed or digest(json.dumps([notes_of(f) for f in sorted(out.glob("*.mid"))]))
    return found


def shards() -> dict[str, str]:
    found = {}
    for number, line in LINES.items():
        if not line.startswith("prepare"):
            continue
        folder = Path(f"shards-{number}")
        failed = said(f"{line} corpus.shards={folder} corpus.workers=1")
        files = [f for f in sorted(folder.rglob("*")) if f.suffix in (".bin", ".jsonl", ".json")]
        found |= {f"{line}: {f.relative_to(folder)}": digest(f.read_bytes()) for f in files}
        found |= {line: failed} if failed else {}
    return found


def logits() -> dict[str, str]:
    found = {}
    for name in ("piano", "song", "chorale"):
        model = bundle.load(name).model
        size = model.config.vocab_size
        draws = random.Random(3)
        ids = torch.tensor([[1, *draws.choices(range(4, size), k=95)] for _ in range(2)])
        with torch.inference_mode():
            found[f"{name}, all at once"] = digest(model(ids).numpy().tobytes())
        for cache in ("growing", "native"):
            seen: list[bytes] = []
            keep = lambda past, now, seen=seen: seen.append(now.numpy().tobytes()) or now  # noqa: E731
            list(engine.generate(model, ids[:, :40], max_tokens=60, seeds=[1, 2],
                                 context=64, cache=cache, processors=[keep]))  # fmt: skip
            found[f"{name}, {cache} cache"] = digest(b"".join(seen))
    return found


def help_() -> dict[str, str]:
    found = {}
    for words in (["--help"], *([c, f] for c in COMMANDS for f in ("--help", "--help=all"))):
        told = io.StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            cli.main(words)
        found[" ".join(words)] = told.getvalue()
    return found


PARTS = {"logits": logits, "help": help_, "shards": shards, "notes": notes}


def main(words: list[str]) -> int:
    given = options(words, {"write": "", "against": "", "only": ",".join(PARTS)})
    parts = several(given["only"])
    if unknown := [part for part in parts if part not in PARTS]:
        raise UserError(f"only={unknown[0]}: expected one of {', '.join(PARTS)}")
    if bool(given["write"]) == bool(given["against"]):
        raise UserError("write= or against=: expected one of them, a FILE of hashes")
    goal = Path(given["write"] or given["against"]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_files()
        now = {part: PARTS[part]() for part in parts}
        os.chdir("/")
    if given["write"]:
        goal.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    before = json.loads(goal.read_text())
    count = 0
    for part in parts:
        for name in {**before[part], **now[part]}:
            old, new = before[part].get(name, "(not there)"), now[part].get(name, "(not there)")
            if old != new:
                count += 1
                print(f"{part}: {name}" + (f"\n  was {old}\n  is  {new}" if part != "help" else ""))
    print(f"{count} of {sum(len(before[part]) for part in parts)} differ")
    return int(count > 0)


if __name__ == "__main__":
    run(main)
