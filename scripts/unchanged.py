"""Check that a refactoring changes no notes, shards, logits or help.

    python -m scripts.unchanged write=FILE [only=notes,shards,logits,help,studio,mcp]
    python -m scripts.unchanged against=FILE [only=...]

The first command writes hashes of the results of the musictx in the current folder to a JSON file.
The second prints what differs from such a FILE, with status 1 if anything does. Each takes some
minutes without ``only``. Hashes of notes and logits depend on the machine, torch and the compiler:
compare only files of the same machine. For MIDI files the hash is of the events and their ticks,
for other files and shards of the bytes, for commands that print music or numbers of the output, for
a refused command of the error.

unchanged.txt has a command on each line. ``studio FILE {...}`` opens FILE (``-``: an empty piece),
requests a take with this JSON and accepts its first proposal; ``mcp TOOL {...}`` calls a tool. Both
run as processes and are used through their public interfaces.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
sys.path.insert(0, os.getcwd())

import mido
import torch

from musictx import bundle, cli
from musictx.errors import UserError
from musictx.sampling import engine
from scripts.harness import finish, run

COMMANDS = ["prepare", "train", "generate", "infill", "accompany", "harmonise", "play", "jam"]
COMMANDS += ["studio", "evaluate", "compare", "render", "mcp", "chords", "doctor"]
#: Commands whose result is printed; commands that write files but take no seed.
PRINTING, SEEDLESS = ("chords", "evaluate", "compare"), ("render",)
#: Events of a MIDI file that are not compared.
IGNORED_EVENTS = ("end_of_track", "sysex")
#: The hash of a corpus's path in the header of shards.
PATH_HASH = rb'"key": "[0-9a-f]*"'
#: The longest time in seconds for the start of a server, and for a take.
TIMEOUT = 300.0
#: The seed is the number of the line, and so is the folder that a command writes to.
LINES = dict(enumerate(Path(__file__).with_suffix(".txt").read_text().splitlines(), 1))


def digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]


def write_midi(path: str, voices: dict[str, list[int]], beats: float = 1.0) -> None:
    """Write a track for each voice: its name, and pitches of ``beats`` quarter notes, 0 for a rest.
    The voice "drums" is on channel 10."""
    file = mido.MidiFile(ticks_per_beat=480)
    metas = (mido.MetaMessage("set_tempo", tempo=600_000), mido.MetaMessage("time_signature"))
    file.tracks.append(mido.MidiTrack(metas))
    for place, (name, pitches) in enumerate(voices.items()):
        number = 9 if name == "drums" else place
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


def write_xml(path: str, pitches: list[int]) -> None:
    """Write a part of quarter notes in bars of four."""
    steps = {0: "C", 2: "D", 4: "E", 5: "F", 6: "F", 7: "G", 9: "A", 11: "B"}

    def note(pitch: int) -> str:
        alter = "<alter>1</alter>" * (pitch % 12 == 6)
        pitched = f"<step>{steps[pitch % 12]}</step>{alter}<octave>{pitch // 12 - 1}</octave>"
        return f"<note><pitch>{pitched}</pitch><duration>1</duration></note>"

    begin = "<attributes><divisions>1</divisions><key><fifths>1</fifths></key>"
    begin += "<time><beats>4</beats><beat-type>4</beat-type></time></attributes>"
    text = ""
    for bar in range(len(pitches) // 4):
        notes = "".join(map(note, pitches[4 * bar : 4 * bar + 4]))
        text += f'<measure number="{bar + 1}">{"" if bar else begin}{notes}</measure>'
    head = '<part-list><score-part id="P1"><part-name>Tune</part-name></score-part></part-list>'
    Path(path).write_text(
        f'<score-partwise version="4.0">{head}<part id="P1">{text}</part></score-partwise>'
    )


def make_files() -> None:
    """Write the music that the commands read into the current folder."""
    tune = [67, 69, 71, 72, 74, 72, 71, 67, 69, 71, 72, 69, 67, 66, 67, 67]
    bass = [43, 0, 55, 0, 48, 0, 50, 0, 43, 0, 48, 50, 50, 0, 43, 43]
    write_midi("song.mid", {"tune": tune, "bass": bass})
    write_midi("short.mid", {"tune": tune[:12]})
    alto, tenor = [p - 5 for p in tune], [p - 12 for p in tune]
    voices = {"Soprano": tune, "Alto": alto, "Tenor": tenor, "Bass": [p - 24 for p in tune]}
    write_midi("chorale.mid", voices)
    chords = [p for root in (55, 60, 62, 55) for p in (root, root + 4, root + 7, root + 4)]
    drums = [36, 42, 38, 42] * 8
    band = {"tune": tune * 2, "piano": chords * 2, "bass": bass * 2, "drums": drums}
    write_midi("band.mid", band)
    gap = [[0 if 8 <= at < 16 else p for at, p in enumerate(voice)] for voice in band.values()]
    write_midi("gap.mid", dict(zip(band, gap)))
    Path("sheet.txt").write_text("| G | Em7 C | D7 | G |\n")
    write_xml("tune.musicxml", tune)
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


def failure(line: str, out: io.StringIO) -> str:
    """Run a command with its output in ``out``; return its error, or an empty string."""
    errors = io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        status = cli.main(shlex.split(line))
    return f"status {status}: {errors.getvalue().strip()[-300:]}" if status else ""


def content(path: Path) -> Any:
    """The sorted events of a MIDI file: tick, kind, numbers; the hash of any other file."""
    if path.suffix != ".mid":
        return digest(path.read_bytes())
    events = []
    for track in mido.MidiFile(path).tracks:
        tick = 0
        for message in track:
            tick += message.time
            if message.type not in IGNORED_EVENTS:
                values = [v for k, v in message.dict().items() if k not in ("time", "channel")]
                events.append([tick, *map(str, values)])
    return sorted(events)


def lines(*commands: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of these commands; without arguments, of all other commands."""
    special = commands or ("prepare", "studio", "mcp")
    for number, line in LINES.items():
        if (line.split()[0] in special) == bool(commands):
            yield number, line


def hash_of_files(number: int) -> str:
    """The hash of all files that the command in line ``number`` has written."""
    files = sorted(Path(f"out-{number}").glob("*"))
    return digest(json.dumps([[f.suffix, content(f)] for f in files]))


def notes() -> dict[str, str]:
    hashes = {}
    for number, line in lines():
        printed, out = io.StringIO(), f"out-{number}"
        command, prints = line.split()[0], line.split()[0] in PRINTING
        words = line.replace(" out=", f" out={out}/") if " out=" in line else f"{line} out={out}"
        if command not in SEEDLESS:
            words += f" seed={number}"
        error = failure(line if prints else words, printed)
        text = printed.getvalue().replace(sys.path[0], "")  # the folder of the models
        hashes[line] = error or (digest(text) if prints else hash_of_files(number))
    return hashes


def shards() -> dict[str, str]:
    hashes = {}
    for number, line in lines("prepare"):
        folder = Path(f"shards-{number}")
        error = failure(f"{line} corpus.shards={folder} corpus.workers=1", io.StringIO())
        files = [f for f in sorted(folder.rglob("*")) if f.suffix in (".bin", ".jsonl", ".json")]
        plain = {f: re.sub(PATH_HASH, b"", f.read_bytes()) for f in files}
        hashes |= {f"{line}: {f.relative_to(folder)}": digest(data) for f, data in plain.items()}
        if error:
            hashes[line] = error
    return hashes


def logits() -> dict[str, str]:
    hashes = {}
    for name in ("piano", "song", "chorale"):
        model = bundle.load(name).model
        size = model.config.vocab_size
        draws = random.Random(3)
        ids = torch.tensor([[1, *draws.choices(range(4, size), k=95)] for _ in range(2)])
        with torch.inference_mode():
            hashes[f"{name}, all at once"] = digest(model(ids).numpy().tobytes())
        for cache in ("growing", "native"):
            seen: list[bytes] = []

            def record(past: torch.Tensor, now: torch.Tensor, seen: list = seen) -> torch.Tensor:
                seen.append(now.numpy().tobytes())
                return now

            options = {"context": 64, "cache": cache, "processors": [record]}
            list(engine.generate(model, ids[:, :40], max_tokens=60, seeds=[1, 2], **options))
            hashes[f"{name}, {cache} cache"] = digest(b"".join(seen))
    return hashes


def help_() -> dict[str, str]:
    hashes = {}
    for words in (["--help"], *([c, f] for c in COMMANDS for f in ("--help", "--help=all"))):
        text = io.StringIO()
        with redirect_stdout(text), redirect_stderr(text):
            cli.main(words)
        hashes[" ".join(words)] = text.getvalue()
    return hashes


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of musictx in the background."""
    environment = os.environ | {"PYTHONPATH": sys.path[0]}
    with subprocess.Popen(
        [sys.executable, "-m", "musictx", *words],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as running:
        try:
            yield running
        finally:
            running.terminate()


def studio() -> dict[str, str]:
    hashes = {}
    with process("studio", "folder=pieces", "port=0", "browser=false") as running:
        assert running.stdout is not None
        address = next(a[0] for line in running.stdout if (a := re.search(r"http://[^\s/]+", line)))

        def send(method: str, path: str, body: Any = None) -> bytes:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            request = urllib.request.Request(f"{address}/api{path}", data, method=method)
            request.add_header("X-Musictx", "1")
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.read()

        hashes["models"] = digest(send("GET", "/models"))
        for number, line in lines("studio"):
            try:
                hashes[line] = _take(number, line, send)
            except urllib.error.HTTPError as error:
                hashes[line] = f"status {error.code}: {error.read().decode()}"
    return hashes


def _take(number: int, line: str, send: Callable[..., bytes]) -> str:
    """The hash of all proposals of a take, and of the piece with the first proposal."""
    _, file, request = line.split(maxsplit=2)
    data = b"" if file == "-" else Path(file).read_bytes()
    piece = json.loads(send("POST", "/sessions?name=piece", data))
    path = f"/sessions/{piece['id']}"
    take = json.loads(send("POST", f"{path}/takes", {"seed": number, **json.loads(request)}))
    end = time.monotonic() + TIMEOUT
    while take["state"] not in ("done", "failed") and time.monotonic() < end:
        time.sleep(0.1)
        takes = json.loads(send("GET", path))["takes"]
        take = next(each for each in takes if each["id"] == take["id"])
    if take["state"] != "done":
        return f"{take['state']}: {take.get('error')}"
    first = {"proposal": 1, "revision": piece["revision"]}
    send("POST", f"{path}/takes/{take['id']}/accept", first)
    proposed = [[each["notes"], each["removes"]] for each in take["proposals"]]
    with tempfile.NamedTemporaryFile(suffix=".mid") as written:
        written.write(send("GET", f"{path}/export/x.mid"))
        written.flush()
        after = content(Path(written.name))
    return digest(json.dumps([take["command"], proposed, after]))


def mcp() -> dict[str, str]:
    """The tools and their answers; a remark if the package mcp is not installed."""
    try:
        import anyio
        from mcp import Client, StdioServerParameters
    except ImportError:
        return {"mcp": "the package mcp is not installed"}
    environment = dict(os.environ) | {"PYTHONPATH": sys.path[0]}
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "musictx", "mcp", "out=."], env=environment
    )
    hashes = {}

    async def talk() -> None:
        async with Client(server) as client:
            for tool in (await client.list_tools()).tools:
                hashes[f"tool {tool.name}"] = digest(tool.model_dump_json())
            for number, line in lines("mcp"):
                _, name, given = line.split(maxsplit=2)
                arguments = {"out": f"out-{number}", **json.loads(given)}
                if name != "render":
                    arguments = {"seed": number, **arguments}
                answer = await client.call_tool(name, arguments)
                text = "".join(part.text for part in answer.content).replace(os.getcwd(), "")
                hashes[line] = text if answer.is_error else digest(text + hash_of_files(number))

    anyio.run(talk)
    return hashes


CHECKS = {"logits": logits, "help": help_, "shards": shards, "notes": notes}
CHECKS |= {"studio": studio, "mcp": mcp}


def main(
    write: Path | None = None, against: Path | None = None, only: Sequence[str] = tuple(CHECKS)
) -> int:
    if unknown := [part for part in only if part not in CHECKS]:
        raise UserError(f"only={unknown[0]}: expected some of {', '.join(CHECKS)}")
    if (write is None) == (against is None):
        raise UserError("write= or against=: expected one of them, a FILE of hashes")
    goal = (write or against or Path()).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_files()
        now = {part: CHECKS[part]() for part in only}
        os.chdir("/")
    if write:
        goal.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    before = json.loads(goal.read_text())
    differences = []
    for part in only:
        for name in {**before[part], **now[part]}:
            old, new = before[part].get(name, "(not there)"), now[part].get(name, "(not there)")
            if old != new:
                more = f"\n  was {old}\n  is  {new}" if part != "help" else ""
                differences.append(f"{part}: {name}{more}")
    print(f"{len(differences)} of {sum(len(before[part]) for part in only)} differ")
    return finish(differences)


if __name__ == "__main__":
    run(main)
