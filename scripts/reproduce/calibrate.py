"""Calibrate chorale models on training pieces that another network was not trained on.

    python -m scripts.reproduce.calibrate path=Jsb16thSeparated.json models=runs/a/model,runs/b
        [runs=runs/jsb] [experiment=jsb/best] [held=23] [seed=0] [trainer.max_steps=...]

Holds out ``held`` pieces of the training split, drawn by ``seed``, and trains a sibling network of
``experiment`` on the others, once (``RUNS/sibling-SEED``). Fits a temperature and a bias for held
notes on the held-out pieces, for each voice and sixteenth of a beat (:func:`fit`), and writes them
into a copy of each of ``models``, FOLDER-calibrated. So the calibration uses pieces that are new to
the sibling, and none of the validation or test split. Words with a dot are options of the training.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from musictx import bundle, files
from musictx.chorale.features.calibration import Calibration, NextToken
from musictx.data.shards import Shards
from musictx.data.windows import UNSCORED, EvaluationWindows, collate
from musictx.errors import UserError
from musictx.evaluate.app import find_shards
from musictx.evaluate.nll import check_split
from musictx.model.transformer import MusicTransformer
from musictx.options import make_config, parse
from scripts.harness import musictx, run

#: Nats of the loss for the squared distance of a scale from the mean of all scales, or of a bias
#: from 0: some kinds of tokens are rare. Chosen by cross-fitting.
PRIOR = 0.25
#: Sixteenths of a beat.
PHASES = 4
#: The longest piece has 2,560 notes.
WINDOW = 2560


def set_aside(path: Path, held: int, seed: int, out: Path) -> Path:
    """Write a file whose "valid" pieces are ``held`` of the training pieces of ``path``."""
    pieces = json.loads(path.read_text(encoding="utf-8"))["train"]
    if not 0 < held < len(pieces):
        raise UserError(f"held={held}: expected 1 to {len(pieces) - 1}")
    chosen = set(random.Random(seed).sample(range(len(pieces)), held))
    split: dict[str, list[Any]] = {"train": [], "valid": []}
    for number, piece in enumerate(pieces):
        split["valid" if number in chosen else "train"].append(piece)
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(out, json.dumps(split))
    return out


def main(
    path: Path,
    models: Sequence[str],
    runs: Path = Path("runs/jsb"),
    experiment: str = "jsb/best",
    held: int = 23,
    seed: int = 0,
    **more: Any,
) -> list[Path]:
    if not path.is_file():
        raise UserError(f"path={path}: expected the JSON file of the chorales")
    aside = set_aside(path, held, seed, runs / f"aside-{seed}.json")
    corpus = [f"corpus.path={aside}", f"corpus.shards={runs / f'aside-{seed}-shards'}"]
    sibling = runs / f"sibling-{seed}"
    words = [f"experiment={experiment}", *corpus, f"seed={seed}", f"out={sibling}"]
    musictx("train", *words, *(f"{name}={value}" for name, value in more.items()))
    source = bundle.load(sibling)
    options = make_config("evaluate", parse("evaluate", ["corpus=jsb", *corpus]))
    shards = find_shards(options.corpus, source.tokenizer)
    fitted = fit(source.model, shards, window=WINDOW)
    remark = f"on {held} training pieces that a sibling was not trained on"
    folders = []
    for name in models:
        old = bundle.load(name)
        folder = old.folder.with_name(old.folder.name + "-calibrated")
        card = {**old.card, "calibration": remark}
        folders.append(bundle.save(folder, calibrated(old.model, fitted), old.tokenizer, card))
        print(folders[-1], flush=True)
    return folders


def calibrated(model: MusicTransformer, fitted: dict[str, Tensor]) -> MusicTransformer:
    """``model`` with the calibration that :func:`fit` returned, instead of its own if it has one;
    weights are shared."""
    calibration = {"name": Calibration.name, "voices": _voices(model), "phases": PHASES}
    values = {f"{Calibration.name}.{name}": value for name, value in fitted.items()}
    return _with_calibration(model, [calibration], values)


def _with_calibration(
    model: MusicTransformer, calibration: list[dict[str, Any]], values: dict[str, Tensor]
) -> MusicTransformer:
    """A copy of ``model`` with this calibration, or none."""
    others = [f for f in model.config.features if f["name"] != Calibration.name]
    config = replace(model.config, features=(*others, *calibration))
    new = MusicTransformer(**config.plain())
    state = model.state_dict()
    kept = {k: v for k, v in state.items() if not k.startswith(f"{Calibration.name}.")}
    new.load_state_dict(kept | values)
    return new.to(next(model.parameters()).device).train(model.training)


def fit(
    model: MusicTransformer, shards: Shards, split: str = "validation", *, window: int | None = None
) -> dict[str, Tensor]:
    """The parameters of a :class:`Calibration`, float32, that maximise the likelihood of ``split``
    under ``model``, in windows of ``window`` tokens, including the ends of pieces.

    Raises ``UserError`` for a model whose tokens are not voices in turn, and for an empty split.
    """
    logits, seen, targets = _read(model, shards, split, window)
    calibration = _calibration(model).double()
    optimizer = torch.optim.LBFGS(
        calibration.parameters(), max_iter=200, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        scored = calibration.score(logits, logits, seen)[0]
        deviation = calibration.scale - calibration.scale.mean()
        prior = sum(x.square().sum() for x in (deviation, calibration.hold, calibration.end))
        total = F.cross_entropy(scored, targets, reduction="sum") + PRIOR * prior
        (total / len(targets)).backward()
        return total.detach() / len(targets)

    optimizer.step(loss)
    return {name: value.detach().float() for name, value in calibration.named_parameters()}


@torch.no_grad()
def _read(
    model: MusicTransformer, shards: Shards, split: str, window: int | None
) -> tuple[Tensor, NextToken, Tensor]:
    """For all scored tokens: uncalibrated logits (1, N, vocab), the input of the calibration, and
    targets (N,)."""
    check_split(shards, split)
    context = model.config.context if window is None else window
    rows = EvaluationWindows(shards, split, context, score_eos=True)
    reader, plain = _calibration(model), _with_calibration(model, [], {}).eval()
    windows = []
    for i in range(len(rows)):
        ids, targets = collate([rows[i]])[:2]
        seen = reader.read(ids, ids[:, :0], torch.arange(ids.shape[1])[None])
        logits = plain(ids.to(next(model.parameters()).device)).cpu().double()
        scored = (targets != UNSCORED)[0]
        windows.append([x[0, scored] for x in (logits, *seen, targets)])
    logits, kind, last, targets = (torch.cat(parts) for parts in zip(*windows))
    return logits[None], NextToken(kind[None], last[None]), targets


def _calibration(model: MusicTransformer) -> Calibration:
    size, width = model.config.vocab_size, model.config.width
    return Calibration(size, width, voices=_voices(model), phases=PHASES)


def _voices(model: MusicTransformer) -> int:
    for feature in model.config.features:
        if "voices" in feature:
            return int(feature["voices"])
    raise UserError("model: a calibration needs a feature of voices, such as ages or repeats")


if __name__ == "__main__":
    run(main)
