"""Make a trained model one that comes along: half the size, no private paths, a card for people.

    python scripts/ship.py model=runs/jsb/best/model name=chorale corpus=FILE.json

Writes musictx/models/NAME: weights in float16, attention=auto, and a card with what
scripts/ships/NAME.yaml says of it, the numbers measured here (the stored weights, whole pieces, the
published split) and the command it was made by with the folders taken out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from musictx import bundle
from musictx.config import CorpusConfig
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.evaluate.nll import evaluate
from musictx.model.transformer import MusicTransformer

sys.path.insert(0, str(Path(__file__).resolve().parent))
import options

ROOT = Path(__file__).resolve().parents[1]
#: Options of a command that name places on the machine it was typed on.
PRIVATE = ("out=", "corpus.shards=", "init=")


def without_places(command: str) -> str:
    """The command with files by their bare names and without output folders."""
    words = [word for word in command.split() if not word.startswith(PRIVATE)]
    return " ".join(
        f"corpus.path={Path(w.removeprefix('corpus.path=')).name}"
        if w.startswith("corpus.path=")
        else w
        for w in words
    )


def measured(folder: Path, corpus: str, window: int) -> dict[str, Any]:
    """Nats per note of a model folder on the splits of the published chorales other than train."""
    loaded = bundle.load(folder)
    shards = Shards(prepare(CorpusConfig(name="jsb", path=corpus), loaded.tokenizer).folder)
    found = {}
    for split in ("validation", "test"):
        if shards.pieces(split):
            result = evaluate(loaded.model, shards, split, window=window)
            found[f"{split}, nats per token (note-wise)"] = round(result.nats_per_token, 4)
    return found


def main(words: list[str]) -> None:
    given = options.read(
        words, {"model": "", "name": "chorale", "corpus": "", "window": 2560, "dtype": "float16"}
    )
    if not given["model"] or not given["corpus"]:
        raise UserError("model=FOLDER and corpus=FILE.json are needed")
    source = bundle.load(given["model"])
    config = source.model.config | {"attention": "auto"}
    model = MusicTransformer(**config)
    model.load_state_dict(source.model.state_dict())
    said = yaml.safe_load((ROOT / "scripts" / "ships" / f"{given['name']}.yaml").read_text())
    card = dict(source.card) | said
    card["command"] = without_places(str(source.card.get("command", "")))
    corpus = dict(source.card.get("corpus") or {})
    card["corpus"] = {k: v for k, v in corpus.items() if k not in ("path", "shards", "held out")}
    out = ROOT / "musictx" / "models" / given["name"]
    bundle.save(out, model, source.tokenizer, card, dtype=given["dtype"])
    numbers = measured(out, given["corpus"], given["window"])
    numbers["protocol"] = (
        "the published split, whole pieces, all four voices, repeats counted, silence in the "
        "vocabulary, ends not counted, first token scored, weights as stored"
    )
    bundle.save(out, model, source.tokenizer, card | {"numbers": numbers}, dtype=given["dtype"])
    size = (out / "model.safetensors").stat().st_size / 1e6
    print(f"{out}: {size:.1f} MB, {numbers}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
