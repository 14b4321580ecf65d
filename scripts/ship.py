"""Make a trained model one that comes along: half the size, no private paths, a card for people.

    python scripts/ship.py model=runs/jsb/best/model name=chorale corpus=FILE.json
    python scripts/ship.py model=runs/piano/model name=piano [corpus=DIR]
        [pieces=0] [sliding=true] [attention=auto] [dtype=float16] [out=musictx/models]

Writes OUT/NAME: weights in float16, attention=auto, and a card with what scripts/ships/NAME.yaml
says of it, the numbers measured here (what and how: the entry ``measure`` there, and
ship_numbers.py) and the command it was made by with the folders taken out.

``corpus`` is the one that the model's card names, unless given. For a rehearsal, ``pieces`` takes
only so many of each split (0: all) and ``sliding=false`` leaves the slow row out; the card says so.
``attention`` is what measures (native is the fastest on a CPU with a compiler), not what is stored.
The folder is whole before the first number is measured, and its card grows with each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from musictx import bundle
from musictx.apps.evaluate import find_shards
from musictx.config import CorpusConfig, EvaluateConfig
from musictx.data.shards import Shards, is_shards
from musictx.errors import UserError
from musictx.model.transformer import MusicTransformer

sys.path.insert(0, str(Path(__file__).resolve().parent))
import options
import ship_numbers

ROOT = Path(__file__).resolve().parents[1]
#: Options of a command that name places on the machine it was typed on.
PRIVATE = ("out=", "corpus.shards=", "init=")
DEFAULTS: dict[str, Any] = {
    "model": "",
    "name": "",
    "corpus": "",
    "pieces": 0,
    "sliding": True,
    "attention": "auto",
    "dtype": "float16",
    "out": str(ROOT / "musictx" / "models"),
}
#: Bytes of weights above which a model is too large to come along.
MOST = 16_000_000


def without_places(command: str) -> str:
    """The command with files by their bare names and without output folders."""
    words = [word for word in command.split() if not word.startswith(PRIVATE)]
    return " ".join(
        f"corpus.path={Path(w.removeprefix('corpus.path=')).name}"
        if w.startswith("corpus.path=")
        else w
        for w in words
    )


def described(name: str) -> dict[str, Any]:
    """scripts/ships/NAME.yaml."""
    path = ROOT / "scripts" / "ships" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml")))
        raise UserError(f"name={name}: no {path.name} in scripts/ships; there are {known}")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def with_attention(model: MusicTransformer, name: str) -> MusicTransformer:
    """The same model, its attention computed by the implementation ``name``."""
    made = MusicTransformer(**model.config | {"attention": name})
    made.load_state_dict(model.state_dict())
    return made.eval().requires_grad_(False)


def corpus_of(source: bundle.Bundle, path: str) -> Shards:
    """The tokens of the corpus at ``path`` (or token shards), else of that which the card names."""
    told = source.card.get("corpus") or {}
    corpus = CorpusConfig()
    if path and is_shards(Path(path)):
        corpus = CorpusConfig(shards=path)
    elif path:
        kind = "jsb" if told.get("name") == "jsb" else "folder"
        corpus = CorpusConfig(name=kind, path=path, **told.get("held out") or {})
    return find_shards(EvaluateConfig(corpus=corpus), source)


def main(words: list[str]) -> Path:
    given = options.read(words, DEFAULTS)
    if not given["model"] or not given["name"]:
        raise UserError("model=FOLDER and name=NAME are needed")
    card, source = described(given["name"]), bundle.load(given["model"])
    measure = card.pop("measure")
    shards = ship_numbers.Some(corpus_of(source, given["corpus"]).folder, given["pieces"])
    told = dict(source.card)
    corpus = {
        k: v
        for k, v in (told.get("corpus") or {}).items()
        if k not in ("path", "shards", "held out")
    }
    card = told | card | {"corpus": corpus, "command": without_places(str(told.get("command", "")))}
    card.pop("numbers", None)
    model, out = with_attention(source.model, "auto"), Path(given["out"]) / given["name"]
    bundle.save(out, model, source.tokenizer, card, dtype=given["dtype"])
    size = (out / "model.safetensors").stat().st_size
    if size > MOST:
        raise UserError(f"{out}: {size:,} bytes of weights, expected at most {MOST:,}")
    stored = with_attention(bundle.load(out).model, given["attention"])  # as rounded in the file
    kind = ship_numbers.KINDS[measure["kind"]]
    numbers: dict[str, Any] = {}
    for numbers in kind(stored, shards, window=measure["window"], sliding=given["sliding"]):
        bundle.save(out, model, source.tokenizer, card | {"numbers": numbers}, dtype=given["dtype"])
    print(f"{out}: {size / 1e6:.1f} MB")
    print(yaml.safe_dump(numbers, sort_keys=False, allow_unicode=True), end="")
    return out


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
