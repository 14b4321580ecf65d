"""Small corpora for the tests of musictx/data."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from musictx import formats
from musictx.config import CorpusConfig
from musictx.data.corpora import Item
from musictx.data.prepare import Report, prepare
from musictx.data.shards import Piece, Shards, Writer, new_shards
from musictx.notes import NOTE, Score
from musictx.tokens.build import build
from musictx.tokens.tokenizer import Tokenizer

TOKENIZER = build(name="performance")


def song(seed: int, notes: int = 12, *, drums: bool = False, low: int = 40) -> Score:
    """A piece of ``notes`` notes on a 10 ms grid, different for each seed."""
    random = np.random.default_rng(seed)
    table = np.zeros(notes, NOTE)
    table["start"] = np.cumsum(random.integers(0, 60, notes)) / 100
    table["end"] = table["start"] + random.integers(5, 90, notes) / 100
    table["pitch"] = random.integers(low, low + 40, notes)
    table["velocity"] = random.integers(1, 128, notes)
    table["drum"] = drums
    table = table[np.lexsort((table["pitch"], table["start"]))]  # the order formats.read gives
    return Score(notes=table)


def write_songs(folder: Path, seeds: range | list[int], notes: int = 12) -> Path:
    """Write a file song-SEED.mid for each seed; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        formats.write(song(seed, notes), folder / f"song-{seed:03}.mid")
    return folder


def add(writer: Writer, ids: np.ndarray, *, name: str, split: str, hash: str = "", **more) -> None:
    """Write a piece and its row. ``more`` are further fields of ``Piece``."""
    more = {"notes": 0, "seconds": 0.0} | more
    row = Piece(len(writer.rows), name, split, hash, writer.tokens, len(ids), **more)
    writer.append(np.asarray(ids, np.uint16))
    writer.rows.append(row)


def make_shards(
    folder: Path,
    train: list[np.ndarray],
    validation: Sequence[np.ndarray] = (),
    tokenizer: Tokenizer = TOKENIZER,
    **flags: bool,
) -> Shards:
    """Write shards of these pieces. ``flags`` are ``begins`` and ``ends`` of every piece."""
    with new_shards(folder, tokenizer, corpus={"name": "test"}) as writer:
        for split, pieces in (("train", train), ("validation", validation)):
            for i, ids in enumerate(pieces):
                columns = {"notes": len(ids) // 4, "seconds": 1.0} | flags
                add(writer, ids, name=f"{split}-{i}", split=split, **columns)
    return Shards(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Relative path -> bytes of each file in the folder and its subfolders."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def run(path: Path | None, out: Path | None = None, *, tokenizer=TOKENIZER, **options) -> Report:
    """Prepare the corpus at ``path`` into the folder ``out``."""
    folder = {"shards": str(out)} if out else {}
    return prepare(
        CorpusConfig(path=path and str(path), **{"workers": 1} | folder | options), tokenizer
    )


class Given:
    """A corpus whose ``corpus.path`` lists its pieces as "content:published split"."""

    label = "given"
    published = False

    def __init__(self, path):
        pieces = [piece.split(":") for piece in (path or "6:None 7:None").split()]
        self.pieces = [(int(content), None if s == "None" else s) for content, s in pieces]

    def __len__(self):
        return len(self.pieces)

    def identity(self):
        return str(self.pieces)

    def items(self):
        return (Item(str(i), content, 0, s) for i, (content, s) in enumerate(self.pieces))

    @staticmethod
    def read(content, tokenizer, repairs, limits):
        return song(content, notes=6), None
