"""The kinds of files that are damaged, and how musictx uses each of them."""

from __future__ import annotations

import contextlib
import json
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from musictx import bundle, midi, musicxml
from musictx.apps.generate import generate
from musictx.chorale import corpora
from musictx.config import GenerateConfig
from musictx.data.module import MusicDataModule
from musictx.data.shards import Piece, Shards, new_shards
from musictx.errors import UserError
from musictx.evaluate.app import corpus_from_card
from musictx.studio import exchange
from musictx.studio.change import Change
from musictx.studio.config import StudioLimits
from musictx.studio.document import Document
from musictx.studio.session import Session, Sessions
from musictx.studio.takes import Proposal, Take, Takes, acceptance_change, save_take
from musictx.training import checkpoint
from scripts.fuzzing import music
from scripts.fuzzing.damage import Draw, chance, damage, damaged_bytes, damaged_tree, pick
from scripts.fuzzing.music import SMALL, TOKENIZER
from tests.data.helpers import song
from tests.untrained import saved


class Kind(NamedTuple):
    """A kind of file.

    prepare  write valid examples into a folder, once
    make     damage a copy of that folder, or add a file, and return the path of the damaged file
    use      use the file at the path as a command does
    """

    prepare: Callable[[Path], object]
    make: Callable[[Draw[Any], Path], Path]
    use: Callable[[Path], object]


def _write_model(folder: Path) -> None:
    usual = {"most_notes": 6, "longest_note": [[0, 2.0], [60, 1.0]], "density": 4.0}
    corpus = {"name": "folder", "path": "x", "held out": {"test": 0.1}, "programs": {"tune": 73}}
    card = {"title": "x", "note_limits": usual, "corpus": {**corpus, "tasks": {"melody": "73"}}}
    saved(folder / "model", card, tokens=SMALL, context=16)


def _make_model(draw: Draw[Any], folder: Path) -> Path:
    path = folder / "model" / pick(draw, sorted(p.name for p in (folder / "model").iterdir()))
    data = path.read_bytes()
    if path.suffix == ".safetensors" and chance(draw, 0.8):
        size = int.from_bytes(data[:8], "little")
        header = json.dumps(damaged_tree(draw, json.loads(data[8 : 8 + size]))).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + size :])
    elif path.stem == "config":
        name = pick(draw, ("model", "model", "card", ""))
        damage(draw, path, lambda tree: tree[name] if name else tree)
    else:
        damage(draw, path)
    return folder / "model"


def _load_and_generate(path: Path) -> object:
    model = bundle.load(path)
    return corpus_from_card(model.corpus), generate(model, GenerateConfig(tokens=6))


def _write_shards(folder: Path) -> None:
    ids = TOKENIZER.encode(song(0))
    with new_shards(folder / "shards", TOKENIZER, corpus={"name": "x"}) as writer:
        for number, split in enumerate(("train", "train", "validation")):
            name, offset = f"{number}.mid", writer.tokens
            writer.append(ids)
            writer.rows.append(Piece(number, name, split, "", offset, len(ids), 12, 3.0))


def _make_shards(draw: Draw[Any], folder: Path) -> Path:
    out = folder / "shards"
    path = pick(draw, sorted(out.iterdir()))
    damage(draw, path)
    return out


def _open_shards(path: Path) -> object:
    shards = Shards(path)
    shards.check(TOKENIZER)
    rows = shards.pieces("train") + shards.pieces("validation") + shards.pieces("test")
    scores = [TOKENIZER.decode(shards.tokens(row.number)) for row in rows]
    data = MusicDataModule(shards, TOKENIZER, context=16, batch_size=2)
    batches = next(iter(data.train_dataloader())), list(data.val_dataloader())
    return shards.totals(), str(shards.totals()), scores, batches


def _write_checkpoint(folder: Path) -> None:
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    progress = {"total": {"ready": 7, "completed": 7}, "current": {"ready": 7, "completed": 7}}
    state = {
        "epoch": 1, "global_step": 7, "pytorch-lightning_version": "2.6.6",
        "state_dict": net.state_dict(), "loops": {"fit_loop": {"epoch_progress": progress}},
        "callbacks": {"Last": {"best": 1.5}}, "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [{k: v for k, v in schedule.state_dict().items() if k != "lr_lambdas"}],
        "hyper_parameters": {"model": {"width": 4}, "seed": 0},
    }  # fmt: skip
    torch.save(state, folder / "last.ckpt")


def _make_checkpoint(draw: Draw[Any], folder: Path) -> Path:
    path, way = folder / "last.ckpt", pick(draw, range(100))
    if way < 40:
        torch.save(damaged_tree(draw, torch.load(path, weights_only=True)), path)
    elif way < 70:  # inside the archive, with right check sums
        with zipfile.ZipFile(path) as old:
            parts = {name: old.read(name) for name in old.namelist()}
        target = "last/data.pkl" if chance(draw, 0.5) else pick(draw, sorted(parts))
        with zipfile.ZipFile(path, "w") as new:
            for name, data in parts.items():
                new.writestr(name, damaged_bytes(draw, data) if name == target else data)
    else:
        damage(draw, path)
    return path


def _write_sessions(folder: Path) -> None:
    sessions = Sessions(folder / "sessions", StudioLimits())
    for name in ("damaged", "whole"):
        session = sessions.create(Document(name=name))
        for number in range(4):
            note = (number, number * 0.5, number * 0.5 + 0.4, 60 + number, 80, 0)
            session.apply(Change(add=(note,)), number)
        session.apply(Change(remove=(1,)), 4)
        session.undo(5)
        rows = [(2.0, 2.5, 60, 80, 0), (3.0, 3.5, 62, 80, 0)]
        proposal = Proposal(1, "done", rows, [], [2])
        take = Take(1, "replace", "x", 5, "piano", 1.0, 2.0, [0], {"task": "x"}, "c", None, "done")
        take.proposals = [proposal]
        save_take(session.folder, take)


def _make_sessions(draw: Draw[Any], folder: Path) -> Path:
    out = folder / "sessions"
    (damaged,) = (path for path in out.iterdir() if "damaged" in path.name)
    damage(draw, pick(draw, [path for path in sorted(damaged.rglob("*")) if path.is_file()]))
    return out


def _ask_sessions(path: Path) -> object:
    sessions = Sessions(path, StudioLimits())
    listed = [line["id"] for line in sessions.list()]
    if not any("whole" in name for name in listed):
        raise KeyError("the session that is whole is not listed")
    for folder in sorted(path.iterdir()):
        if "whole" in folder.name and len(sessions.get(folder.name).document.notes) != 4:
            raise KeyError("the session that is whole has lost notes")
    return _work(sessions.get(next(p.name for p in path.iterdir() if "damaged" in p.name)))


def _work(session: Session) -> object:
    """Use a session as the page does: show it, accept proposals, add notes, undo, redo, export. All
    steps are tried, even if some are refused."""
    takes = [take for _, take in sorted(Takes(session.folder).items())]
    answers: list[Any] = [[take.json() for take in takes]]
    note = (session.document.next_id, 9.0, 9.5, 70, 80, session.document.tracks[0].id)

    def accept(take: Take, proposal: Proposal, revision: int) -> Any:
        return session.apply(acceptance_change(session.document, take.id, proposal), revision)

    steps: list[Callable[[int], Any]] = [
        *(partial(accept, take, proposal) for take in takes for proposal in take.proposals),
        partial(session.apply, Change(add=(note,))),
        *[session.undo] * 9,
        *[session.redo] * 9,
    ]
    for step in steps:
        with contextlib.suppress(UserError):
            answers.append(step(session.document.revision))
        answers.append(session.json())
    score = exchange.score_of(session.document)
    for write in (midi.to_bytes, musicxml.to_bytes):
        with contextlib.suppress(UserError):
            write(score)
    return json.dumps(answers, allow_nan=False)


def _read_chorales(path: Path) -> object:
    return corpora.Published(str(path))


def _nothing(folder: Path) -> None:
    """No examples are needed."""


KINDS = {
    "midi": Kind(music.write_midi, music.make_midi, music.read_and_encode),
    "musicxml": Kind(_nothing, music.make_musicxml, music.read_and_encode),
    "json": Kind(_nothing, music.make_json, _read_chorales),
    "fonts": Kind(music.write_font, music.make_font, music.play),
    "models": Kind(_write_model, _make_model, _load_and_generate),
    "shards": Kind(_write_shards, _make_shards, _open_shards),
    "checkpoints": Kind(_write_checkpoint, _make_checkpoint, checkpoint.read),
    "marks": Kind(_nothing, music.make_marks, music.read_and_write),
    "sessions": Kind(_write_sessions, _make_sessions, _ask_sessions),
}
