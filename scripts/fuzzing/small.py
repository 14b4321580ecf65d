"""Small files and words that are mutated: cards, settings of runs, sessions of the studio, numbers
on command lines; and music that is large only by what it says."""

from __future__ import annotations

import contextlib
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import yaml

import musictx
from musictx import bundle, formats, midi, musicxml
from musictx.apps import measuring
from musictx.commands import COMMANDS, known_options
from musictx.compose import compose
from musictx.config import TrainConfig
from musictx.errors import UserError
from musictx.notes import Score
from musictx.studio import exchange
from musictx.studio.change import Change
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.session import Session
from musictx.studio.sessions import Sessions
from musictx.studio.takes import Proposal, Take, Takes, save
from musictx.training.run_folder import RunFolder
from scripts.fuzzing import mutate
from tests.untrained import saved

#: Numbers as nobody should write them, and as some do.
WILD = (
    *(
        "9" * 400,
        "-" + "9" * 400,
        "9" * 5000,
        "1_0",
        "\u0661\u0662",
        "\u00b2",
        "NaN",
        "inf",
        "-inf",
    ),
    *(
        "1e400",
        "1e-400",
        "0x10",
        "0b1",
        "1:30",
        "true",
        "null",
        "",
        "~",
        "[1]",
        "[]",
        "{a:1}",
        "1,2",
    ),
    *(
        "-0",
        "+5",
        "5.",
        ".5",
        "5e0",
        "2147483648",
        "1e9",
        "1000000001",
        "'5'",
        '"5"',
        "\u00a05",
        "${x}",
    ),
)
#: Lengths of tokens in a document.
LENGTHS = (0, 100, 10_000, 300_000, 3_000_000)
APPLIED = {"tokens": "a", "corpus": "b"}


# -------------------------------------------------------------------------------- small files


def write_card(folder: Path) -> None:
    corpus = {"name": "folder", "path": "x", "held out": {"test": 0.1}, "programs": {"tune": 73}}
    card = {"title": "x", "corpus": {**corpus, "tasks": {"melody": "73"}}, "note_limits": {}}
    saved(folder / "model", card)


def make_card(rng: Random, examples: Path, folder: Path) -> Path:
    out = folder / "model"
    shutil.copytree(examples / "model", out)
    config = json.loads((out / "config.json").read_text())
    part = config["card"] if rng.random() < 0.3 else config["card"]["corpus"]
    changed = mutate.tree(rng, part)
    if part is config["card"]:
        config["card"] = changed
    else:
        config["card"]["corpus"] = changed
    (out / "config.json").write_text(json.dumps(config))
    return out


def ask_card(path: Path) -> object:
    return measuring._corpus_of(bundle.load(path).card)


def write_band(folder: Path) -> None:
    corpus = {"name": "folder", "programs": {"tune": 73, "bass": 33}, "tasks": {"melody": "73"}}
    limits = {"longest_note": [[0, 2.0]], "instruments": [0, 33, 73], "most_notes": 8}
    limits |= {"density": 4.0, "restruck": 0.1, "in_scale": 0.9, "parts": [[33, 1, 28, 60, 2.0]]}
    tokens = {"name": "notes", "low": 28, "high": 90, "controls": True, "tracks": "programs"}
    card = {"title": "x", "corpus": corpus, "note_limits": limits}
    saved(folder / "model", card, tokens=tokens, context=300, group=5)


def ask_band(path: Path) -> object:
    tune = Score([(0.5 * i, 0.5 * i + 0.4, 60 + i, 80, 73, False, 0) for i in range(4)])
    return musictx.accompany(tune, bundle.load(path), add="bass", seed=0)


def write_run(folder: Path) -> None:
    run = RunFolder(folder / "run")
    run.path.mkdir()
    run.begin(TrainConfig(), APPLIED, musictx="0")
    run.write_status(finished=True, step=5, seconds=2.5, validation_loss=1.5)


def make_run(rng: Random, examples: Path, folder: Path) -> Path:
    out = folder / "run"
    shutil.copytree(examples / "run", out)
    file = rng.choice([path for path in sorted(out.iterdir()) if path.suffix])
    data = file.read_bytes()
    way = rng.random()
    if way < 0.3:
        data = mutate.bytes_(rng, data)
    elif way < 0.6:
        data = mutate.text(rng, data.decode()).encode("utf-8", "replace")
    else:
        data = json.dumps(mutate.tree(rng, yaml.safe_load(data))).encode()
    file.write_bytes(data)
    return out


def ask_run(path: Path) -> object:
    run = RunFolder(path)
    status = run.status()
    run.check(TrainConfig(), APPLIED)
    return status


def write_sessions(folder: Path) -> None:
    sessions = Sessions(folder / "sessions", StudioLimits())
    for name in ("damaged", "whole"):
        session = sessions.create(Document(name=name))
        for number in range(4):
            note = (number, number * 0.5, number * 0.5 + 0.4, 60 + number, 80, 0)
            session.do(Change(add=(note,)), number)
        session.do(Change(remove=(1,)), 4)
        session.undo(5)
        rows = [(2.0, 2.5, 60, 80, 0), (3.0, 3.5, 62, 80, 0)]
        proposal = Proposal(1, "done", rows, [], [2])
        take = Take(1, "replace", "x", 5, "piano", 1.0, 2.0, [0], {"task": "x"}, "c", None, "done")
        take.proposals = [proposal]
        save(session.folder, take)


def make_sessions(rng: Random, examples: Path, folder: Path) -> Path:
    out = folder / "sessions"
    shutil.copytree(examples / "sessions", out)
    damaged = next(path for path in sorted(out.iterdir()) if "damaged" in path.name)
    file = rng.choice([path for path in sorted(damaged.rglob("*")) if path.is_file()])
    data, way = file.read_bytes(), rng.random()
    if way < 0.3 or not data or file.suffix == ".sqlite":
        data = mutate.bytes_(rng, data)
    elif way < 0.5:
        data = mutate.text(rng, data.decode()).encode("utf-8", "replace")
    else:
        lines = data.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(mutate.tree(rng, json.loads(lines[at]))).encode()
        data = b"\n".join(lines) + b"\n"
    file.write_bytes(data)
    return out


def ask_sessions(path: Path) -> object:
    sessions = Sessions(path, StudioLimits())
    listed = [line["id"] for line in sessions.list()]
    if not any("whole" in name for name in listed):
        raise KeyError("the session that is whole is not listed")
    for folder in sorted(path.iterdir()):
        if "whole" in folder.name and len(sessions.get(folder.name).document.notes) != 4:
            raise KeyError("the session that is whole has lost notes")
    return _work(sessions.get(next(p.name for p in path.iterdir() if "damaged" in p.name)))


def _work(session: Session) -> object:
    """What a page does with a session: it shows it, accepts, adds, goes back and forth, exports. A
    refusal of one thing keeps no other from being tried."""
    takes = [take.json() for take in Takes(session.folder).all]
    found: list[Any] = [takes]
    note = (session.document.next_id, 9.0, 9.5, 70, 80, session.document.tracks[0].id)
    steps: list[Callable[[int], Any]] = [
        *(partial(_accept, session, take, one) for take in takes for one in take["proposals"]),
        partial(session.do, Change(add=(note,))),
        *[session.undo] * 9,
        *[session.redo] * 9,
    ]
    for step in steps:
        with contextlib.suppress(UserError):
            found.append(step(session.document.revision))
        found.append(session.json())
    score = exchange.score_of(session.document)
    for write in (midi.to_bytes, musicxml.to_bytes):
        with contextlib.suppress(UserError):
            write(score)
    return json.dumps(found, allow_nan=False)


def _accept(session: Session, take: Any, proposal: Any, revision: int) -> object:
    return session.accept(take["id"], proposal, take["label"], revision)


def make_words(rng: Random, examples: Path, folder: Path) -> Path:
    command = rng.choice([name for name in sorted(COMMANDS) if known_options(name)])
    names = list(known_options(command))
    words = [f"{rng.choice(names)}={rng.choice(WILD)}" for _ in range(rng.choice((1, 1, 2)))]
    path = folder / "words.json"
    path.write_text(json.dumps([command, *words]))
    return path


def ask_words(path: Path) -> object:
    command, *words = json.loads(path.read_text())
    return compose(command, words)


# ----------------------------------------------------- music that is large by what it says


def make_document(rng: Random, examples: Path, folder: Path) -> Path:
    """MusicXML with a token of up to some megabytes, or with thousands of names."""
    long = "u" * rng.choice(LENGTHS)
    count = rng.choice((1, 100, 5000))
    names = rng.choice(("a", "measure", "note", "a{}", "p:a{}"))
    children = "".join(f"<{names.format(n)}/>" for n in range(count))
    root = rng.choice(("score-partwise", "score-timewise", "x"))
    inside = {
        "namespace": f'<{root} xmlns="{long}" xmlns:p="{long}">{children}</{root}>',
        "attribute": f'<{root} a="{long}">{children}</{root}>',
        "comment": f"<!--{long}--><{root}>{children}</{root}>",
        "instruction": f"<?x {long}?><{root}>{children}</{root}>",
        "name": f"<{root}><{long or 'a'}/>{children}</{root}>",
        "text": f"<{root}>{long}{children}<![CDATA[{long}]]></{root}>",
        "type": f'<!DOCTYPE {root} SYSTEM "{long}"><{root}>{children}</{root}>',
        "entity": f'<!DOCTYPE x [<!ENTITY a "{long[:1000]}">]><x>{"&a;" * count}</x>',
        "depth": f"<{root}>" + "<a>" * count + "</a>" * count + f"</{root}>",
        "marks": f'<{root}><part id="{long[:99]}">{children}</part></{root}>',
    }
    document = inside[rng.choice(sorted(inside))]
    path = folder / "x.mxl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.xml", document)
        for number in range(rng.choice((0, 0, 20))):
            archive.writestr(f"b{number}", long)
    return path


def make_marks(rng: Random, examples: Path, folder: Path) -> Path:
    """A MIDI file of up to tens of thousands of marks, texts and notes in unison."""
    tracks = []
    for _ in range(rng.choice((1, 1, 3))):
        kinds = (
            b"\xff\x51\x03",
            b"\xff\x58\x04",
            b"\xff\x59\x02",
            b"\xff\x06\x02",
            b"\xff\x05\x02",
        )
        some = rng.sample(kinds, rng.choice((1, 2, 5)))
        events = bytearray()
        for _ in range(rng.choice((10, 1000, 40_000))):
            kind = rng.choice(some)
            events += bytes([rng.choice((0, 1, 100))]) + kind + rng.randbytes(kind[2])
            if rng.random() < 0.2:
                events += bytes([0, rng.choice((0x90, 0x91, 0x80, 0xC0)), 60, 64])
        tracks.append(b"MTrk" + len(events).to_bytes(4, "big") + events)
    head = b"MThd\0\0\0\6" + rng.choice((b"\0\0", b"\0\1", b"\0\2")) + b"\0\3\1\xe0"
    path = folder / "x.mid"
    path.write_bytes(head + b"".join(tracks))
    return path


def read_and_write(path: Path) -> object:
    """Read, written into its file with every second note, and written anew."""
    score = formats.read(path)
    edited = midi.to_bytes(score.with_notes(score.notes[::2]))
    if len(midi.read(edited)) != (len(score) + 1) // 2:
        raise KeyError("other notes are read from the file that was written")
    return midi.to_bytes(replace(score, file=b""))


def nothing(folder: Path) -> None:
    """No examples are needed."""
