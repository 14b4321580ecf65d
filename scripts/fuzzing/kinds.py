"""What is mutated, and how musictx is made to use it: one :class:`Kind` for each sort of file."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch

from musictx import bundle, formats, midi
from musictx.apps.generate import generate
from musictx.chorale import jsb
from musictx.config import GenerateConfig
from musictx.data.module import MusicDataModule
from musictx.data.shards import HEADER, PIECES, TOKENS, Shards
from musictx.data.writer import Writer
from musictx.notes import NOTE, Score
from musictx.render import audio
from musictx.render.soundfont import SoundFont
from musictx.shipped import OLD_CONFIG
from musictx.tokens.build import build
from musictx.training import checkpoint
from scripts.fuzzing import mutate, small
from tests.data.helpers import song
from tests.render import fonts
from tests.untrained import saved

SMALL = {"name": "performance", "low": 48, "high": 84, "max_shift_ms": 500, "velocity_bins": 4}
TOKENIZER = build(**SMALL)
MUSICXML = Path(__file__).with_name("parts.musicxml").read_text(encoding="utf-8")


class Kind(NamedTuple):
    """``prepare(folder)`` writes the valid examples once; ``make(rng, examples, folder)`` writes a
    mutant and returns its path; ``use(path)`` is what a command would do with it."""

    prepare: Callable[[Path], None]
    make: Callable[[Random, Path, Path], Path]
    use: Callable[[Path], object]


# ------------------------------------------------------------------------------ files of music


def _write_midi(folder: Path) -> None:
    midi.write(song(0), folder / "tune.mid")
    track = b"\0\xff\x51\3\x07\xa1\x20\0\xff\x58\4\3\2\x18\x08\0\xc0\x05\0\xb0\x40\x7f"
    track += b"\0\x90\x3c\x50\x60\x3e\x50\x60\x3c\0\0\x80\x3e\0\0\xf0\3abc\0\xb0\x40\0\0\xe0\0\x40"
    tracks = b"".join(_track(track + b"\0\xff\x2f\0") for _ in range(3))
    (folder / "made.mid").write_bytes(b"MThd" + struct.pack(">IHHH", 6, 1, 3, 96) + tracks)


def _track(events: bytes) -> bytes:
    return b"MTrk" + struct.pack(">I", len(events)) + events


def _random_midi(rng: Random) -> bytes:
    """Well-formed chunks of wild events."""
    tracks = []
    for _ in range(rng.choice((0, 1, 2, 40))):
        events = bytearray()
        for _ in range(rng.choice((0, 1, 30, 300))):
            events += rng.choice((b"\0", b"\1", b"\x60", b"\xff\x7f", b"\xff\xff\xff\x7f"))
            status = rng.choice((0x80, 0x90, 0x90, 0x90, 0xB0, 0xC0, 0xE0, 0xF0, 0xFF))
            if status < 0xF0:
                events += bytes([status | rng.randrange(16), rng.randrange(128)])
                events += b"" if status == 0xC0 else bytes([rng.choice((0, 64, 127))])
            else:
                kind = bytes([rng.choice((1, 3, 0x21, 0x2F, 0x51, 0x54, 0x58, 0x59, 0x7F))])
                body = rng.randbytes(rng.choice((0, 1, 2, 3, 4, 100)))
                events += bytes([status]) + (kind if status == 0xFF else b"")
                events += bytes([rng.choice((len(body), 127))]) + body
        tracks.append(_track(bytes(events)) * rng.choice((1, 1, 1, 50)))
    count, division = rng.choice((0, 1, len(tracks), 65535)), rng.choice((0, 1, 96, 0xE728, 65535))
    head = struct.pack(">IHHH", 6, rng.choice((0, 1, 2, 3, 65535)), count, division)
    return (b"MThd" + head + b"".join(tracks))[: mutate.MOST_BYTES]


def _make_midi(rng: Random, examples: Path, folder: Path) -> Path:
    one, other = ((examples / name).read_bytes() for name in ("tune.mid", "made.mid"))
    if rng.random() < 0.5:
        one, other = other, one
    data = _random_midi(rng) if rng.random() < 0.3 else mutate.bytes_(rng, one, other)
    return _put(folder / "x.mid", data)


def _make_musicxml(rng: Random, examples: Path, folder: Path) -> Path:
    way = mutate.elements if rng.random() < 0.6 else mutate.text
    document = way(rng, MUSICXML).encode("utf-8", "replace")
    if rng.random() < 0.2:
        document = mutate.bytes_(rng, document)
    if rng.random() < 0.6:
        return _put(folder / "x.musicxml", document)
    zipped = io.BytesIO()
    container = '<container><rootfiles><rootfile full-path="a.xml"/></rootfiles></container>'
    if rng.random() < 0.2:
        container = mutate.text(rng, container)
    with zipfile.ZipFile(zipped, "w", rng.choice((0, 8))) as archive:
        archive.writestr("META-INF/container.xml", container)
        archive.writestr("a.xml", document)
    data = zipped.getvalue()
    return _put(folder / "x.mxl", mutate.bytes_(rng, data) if rng.random() < 0.5 else data)


def _read_and_encode(path: Path) -> object:
    return TOKENIZER.encode_with_report(formats.read(path)), small.read_and_write(path)


def _make_json(rng: Random, examples: Path, folder: Path) -> Path:
    steps = [[rng.randrange(40, 80) for _ in range(4)] for _ in range(6)]
    corpus: Any = {"train": [steps, steps[:3]], "valid": [steps], "test": [[[60, 55, 50, -1]]]}
    if rng.random() < 0.6:
        corpus = mutate.tree(rng, corpus)
    document = json.dumps(corpus)
    if rng.random() < 0.5:
        document = mutate.text(rng, document)
    data = document.encode("utf-8", "replace")
    return _put(folder / "x.json", mutate.bytes_(rng, data) if rng.random() < 0.2 else data)


# --------------------------------------------------------------------------------- sound fonts


def _write_font(folder: Path) -> None:
    sound = fonts.sine(seconds=0.02)
    zones = [
        {fonts.RELEASE: -2000, fonts.PAN: 100},
        {fonts.KEYS: fonts.span(0, 70), fonts.LOOP: 1, fonts.DECAY: -1000, fonts.SAMPLE: 0},
        {fonts.KEYS: fonts.span(60, 127), fonts.CUTOFF: 6000, fonts.SAMPLE: 1},
    ]
    presets = {(0, 0): [{fonts.INSTRUMENT: 0}], (128, 0): [{fonts.INSTRUMENT: 0, fonts.FINE: 5}]}
    for name, vorbis in (("font.sf2", False), ("font.sf3", True)):
        fonts.build(folder / name, [sound, sound], [zones], presets, vorbis=vorbis)


def _make_font(rng: Random, examples: Path, folder: Path) -> Path:
    data = (examples / rng.choice(("font.sf2", "font.sf3"))).read_bytes()
    at = data.index(b"pdta") if rng.random() < 0.8 else 0  # most of the rest is a recording
    return _put(folder / "x.sf2", data[:at] + mutate.bytes_(rng, data[at:], data))


def _play(path: Path) -> object:
    table = np.zeros(3, NOTE)
    table["pitch"], table["velocity"] = (45, 65, 38), 90
    table["start"], table["end"], table["drum"] = (0, 0.05, 0.1), 0.2, (False, False, True)
    font = SoundFont(path)
    return sum(len(b) for b in audio.blocks(Score(notes=table), sample_rate=8000, soundfont=font))


# ------------------------------------------------------------- model folders, shards, checkpoints


def _write_model(folder: Path) -> None:
    usual = {
        "most_notes": 6,
        "longest_note": [[0, 2.0], [60, 1.0]],
        "density": 4.0,
        "restruck": 0.2,
    }
    card = {"title": "x", "note_limits": usual, "corpus": {"name": "folder", "path": "x"}}
    saved(folder / "model", card, tokens=SMALL, context=16)


def _make_model(rng: Random, examples: Path, folder: Path) -> Path:
    out = folder / "model"
    shutil.copytree(examples / "model", out)
    name = rng.choice(("config.json", "config.json", "tokenizer.json", "model.safetensors"))
    data, way = (out / name).read_bytes(), rng.random()
    if way < 0.15:
        data = mutate.bytes_(rng, data)
    elif name == "model.safetensors":
        size = int.from_bytes(data[:8], "little")
        header = json.dumps(mutate.tree(rng, json.loads(data[8 : 8 + size]))).encode()
        data = struct.pack("<Q", len(header)) + header + data[8 + size :]
    elif way < 0.4:
        data = mutate.text(rng, data.decode()).encode("utf-8", "replace")
    elif name == "config.json":
        value = json.loads(data)
        if way < 0.8:
            part = rng.choice(("model", "model", "card"))
            value[part] = mutate.tree(rng, value[part])
        else:
            value = mutate.tree(rng, value)
        data = json.dumps(value).encode()
    else:
        data = json.dumps(mutate.tree(rng, json.loads(data))).encode()
    if name == "config.json" and rng.random() < 0.2:  # of an older musictx; JSON is YAML too
        (out / name).unlink()
        name, data = OLD_CONFIG, data.replace(b'"format": 3', b'"format": 2')
    _put(out / name, data)
    return out


def _load_and_ask(path: Path) -> object:
    return generate(bundle.load(path), GenerateConfig(tokens=6))


def _write_shards(folder: Path) -> None:
    ids = TOKENIZER.encode(song(0))
    with Writer(
        folder / "shards", fingerprint=TOKENIZER.fingerprint,
        tokenizer_config=TOKENIZER.to_config(), corpus={"name": "x"},
    ) as writer:  # fmt: skip
        for number, split in enumerate(("train", "train", "validation")):
            writer.add(ids, name=f"{number}.mid", split=split, notes=12, seconds=3.0)


def _make_shards(rng: Random, examples: Path, folder: Path) -> Path:
    out = folder / "shards"
    shutil.copytree(examples / "shards", out)
    name = rng.choice((HEADER, PIECES, TOKENS))
    data, way = (out / name).read_bytes(), rng.random()
    if name == HEADER and way < 0.5:
        data = json.dumps(mutate.tree(rng, json.loads(data))).encode()
    elif name == PIECES and way < 0.5:
        lines = [json.dumps(mutate.tree(rng, json.loads(line))) for line in data.splitlines()]
        data = "".join(line + "\n" for line in lines).encode()
    elif name != TOKENS and way < 0.8:
        data = mutate.text(rng, data.decode()).encode("utf-8", "replace")
    else:
        data = mutate.bytes_(rng, data)
    _put(out / name, data)
    if name == PIECES and rng.random() < 0.8:  # someone who means harm repairs the check sum
        header = json.loads((out / HEADER).read_text())
        header |= {"crc": zlib.crc32(data), "pieces": data.count(b"\n")}
        _put(out / HEADER, json.dumps(header).encode())
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


def _make_checkpoint(rng: Random, examples: Path, folder: Path) -> Path:
    example, path, way = examples / "last.ckpt", folder / "last.ckpt", rng.random()
    if way < 0.4:
        torch.save(mutate.tree(rng, torch.load(example, weights_only=True)), path)
    elif way < 0.7:  # inside the archive, with right check sums
        with zipfile.ZipFile(example) as old, zipfile.ZipFile(path, "w") as new:
            target = rng.choice([n for n in old.namelist() if rng.random() < 0.5] or ["data.pkl"])
            target = "archive/data.pkl" if rng.random() < 0.5 else target
            for name in old.namelist():
                data = old.read(name)
                same = name.endswith(target.split("/", 1)[-1])
                new.writestr(name, mutate.bytes_(rng, data) if same else data)
    else:
        _put(path, mutate.bytes_(rng, example.read_bytes()))
    return path


def _put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


KINDS = {
    "midi": Kind(_write_midi, _make_midi, _read_and_encode),
    "musicxml": Kind(lambda folder: None, _make_musicxml, _read_and_encode),
    "json": Kind(lambda folder: None, _make_json, lambda path: jsb.read(str(path))),
    "fonts": Kind(_write_font, _make_font, _play),
    "models": Kind(_write_model, _make_model, _load_and_ask),
    "shards": Kind(_write_shards, _make_shards, _open_shards),
    "checkpoints": Kind(_write_checkpoint, _make_checkpoint, checkpoint.read),
    "documents": Kind(small.nothing, small.make_document, formats.read),
    "marks": Kind(small.nothing, small.make_marks, small.read_and_write),
    "cards": Kind(small.write_card, small.make_card, small.ask_card),
    "bands": Kind(small.write_band, small.make_card, small.ask_band),
    "runs": Kind(small.write_run, small.make_run, small.ask_run),
    "sessions": Kind(small.write_sessions, small.make_sessions, small.ask_sessions),
    "words": Kind(small.nothing, small.make_words, small.ask_words),
}
