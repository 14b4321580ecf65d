"""Training on a GPU, in one command: correctness, then tokens a second, utilisation and memory.

    python scripts/gpu/train_throughput.py                       # all of it within 540 seconds
    python scripts/gpu/train_throughput.py models=large attention=fused modes=graph rows=16
    python scripts/gpu/train_throughput.py shards=FOLDER         # real data for the last part
    python scripts/gpu/train_throughput.py quick=true            # on the CPU, tiny

1. Correctness: loss and gradients of a small model in bfloat16 autocast, each implementation of
   attention against float64, within 1.5 times the error of dense attention; recorded and compiled
   steps against eager ones over several steps.
2. Throughput of whole steps (forward, backward, clipping, fused AdamW): each model, setting,
   implementation and number of rows; eager, recorded as a CUDA graph, compiled, both. ``train`` is
   the setting of ``musictx train`` (dropout 0.1, two pieces in a row), ``plain`` has neither.
   textbook is the skew of Huang et al. (2018) all in bfloat16, skew the same in float32, sdpa is
   torch's own attention with rotary positions: no relative term, the limit to compare with.
3. Data: what the loader alone delivers, and training fed by it against training on one batch.

Utilisation is operations_per_token (train_cases.py: 6 N + 6 n L d + 3 n L d) times tokens a second,
over the bfloat16 rate of the data sheet; the rate measured here is in the JSON file. Times are wall
clock of single steps, medians and quartiles. Files: results.csv, train_throughput.json in ``out``.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import (
    Session,
    apart,
    ceilings,
    model_shape,
    options,
    peak_memory,
    release,
    several,
    sheet_peak,
    wall,
)
from torch import Tensor
from train_cases import SETTINGS, Recorded, Step, model_for, operations_per_token, synthetic, use
from train_data import batches, made_shards

DEFAULTS = {
    "models": "paper,large", "attention": "fused,textbook,skew,chunked,sdpa", "rows": "4,16",
    "modes": "eager,graph,compile,compile+graph", "settings": "train,plain", "steps": "15",
    "shards": "", "workers": str(max(1, min(8, (os.cpu_count() or 2) - 2))), "length": "",
}  # fmt: skip
QUICK = {
    "models": "quick", "attention": "fused,textbook,skew,chunked,sdpa", "rows": "2",
    "modes": "eager,compile", "steps": "2", "workers": "0",
}  # fmt: skip
#: At least so many times the textbook's tokens/s, and so much utilisation for model=large.
BARS = {"times textbook": 4.0, "utilisation of large": 0.30}


# ---------------------------------------------------------------- correctness


def loss_and_gradients(
    case: dict[str, Any], device: torch.device, *, exact: bool, reference: bool
) -> Tensor:
    """Loss and all gradients of one small model in one vector; without dropout."""
    changes: dict[str, Any] = {"layers": 2, "dropout": 0.0}
    if device.type == "cuda":
        changes |= {"width": 256, "heads": 4, "feedforward": 512, "context": 512}
    if reference:
        changes["attention"] = "reference"
    use("library" if reference else case["attention"])
    model = model_for({**case, "model": "quick"}, device, **changes)
    if exact:
        model = model.double()
    batch = synthetic(2, int(model.config["context"]), SETTINGS[case["setting"]]["pieces"], device)
    step = Step(model, batch, autocast=not exact)
    step.optimizer.step = lambda *_: None  # type: ignore[method-assign,assignment]
    loss = step()
    use("library")
    gradients = [p.grad.flatten().double() for p in model.parameters() if p.grad is not None]
    return torch.cat([loss.double()[None], *gradients])


def implementations_agree(session: Session) -> None:
    for setting in several(session.given["settings"]):
        for name in several(session.given["attention"]):
            case = {"attention": name, "setting": setting}
            try:
                exact, dense, ours = (
                    loss_and_gradients(case, session.device, exact=e, reference=r)
                    for e, r in ((True, True), (False, True), (False, False))
                )
            except (RuntimeError, ValueError) as error:
                use("library")
                if name == "fused" and not session.cuda:
                    session.say(f"    left out, {name}: {str(error)[:90]}")
                else:
                    session.check(f"{name} {setting}", False, str(error)[:200])
                continue
            error, budget = apart(ours, exact), 1.5 * apart(dense, exact)
            found = f"loss and gradients, error {error:.1e} of {budget:.1e}"
            session.check(f"{name} {setting}, bfloat16", error <= budget, found)


def modes_agree(session: Session) -> None:
    """The losses of eight steps on one batch, each mode against eager; and they fall."""
    name = "fused" if session.cuda else "chunked"
    case = {"model": "quick", "attention": name, "setting": "plain"}
    losses = {}
    for mode in several(session.given["modes"]):
        changes = {"width": 64} if session.cuda else {}  # heads of 32 numbers, which fused knows
        model = model_for(case, session.device, **changes)
        step = Step(model, synthetic(2, 48, False, session.device))
        for group in step.optimizer.param_groups:
            group["lr"] = 3e-3
        run = prepared(session, step, mode, warm=0 if "graph" in mode else 3)
        losses[mode] = torch.stack([run().clone() for _ in range(8)]).cpu()
        release(session.device)
    for mode, found in losses.items():
        eager = losses.get("eager", found)
        error, fell = apart(found, eager), bool(found[-1] < found[0])
        session.check(
            f"{mode} steps", error < 0.02 and fell,
            f"loss {found[0]:.3f} to {found[-1]:.3f}, {error:.1e} of 2.0e-02 from eager",
        )  # fmt: skip


# ---------------------------------------------------------------- throughput


def prepared(session: Session, step: Step, mode: str, warm: int = 3) -> Callable[[], Tensor]:
    """The step in this mode, warmed up (recording takes three steps of its own)."""
    if "compile" in mode:
        step.compile("inductor" if session.cuda else "aot_eager")
    if "graph" in mode:
        if not session.cuda:
            raise ValueError("CUDA graphs need a CUDA GPU")
        return Recorded(step)
    for _ in range(warm):
        step()
    return step


def cases(given: dict[str, str]) -> list[dict[str, Any]]:
    """What is measured, the most wanted first: ours and the textbook where they are compared, ours
    where it is fastest, then the others."""
    rows = sorted(int(x) for x in several(given["rows"]))
    settings = several(given["settings"])
    first, others = settings[0], settings[1:]
    names = several(given["attention"])
    rivals = [n for n in names if n in ("fused", "textbook")]
    plan = [(first, n, rows[0]) for n in rivals]
    plan += [(first, "fused", r) for r in rows[1:] if "fused" in names]
    plan += [(s, n, rows[-1]) for s in others for n in names if n in ("fused", "sdpa")]
    plan += [(s, n, rows[0]) for s in others for n in rivals]
    plan += [(first, n, rows[0]) for n in names if n not in rivals]
    plan = list(dict.fromkeys(plan))
    return [
        {"model": model, "setting": s, "attention": n, "rows": r}
        for (s, n, r), model in itertools.product(plan, several(given["models"]))
    ]


def measure(session: Session, case: dict[str, Any], modes: list[str]) -> None:
    """One model in each mode, as long as there is time."""
    length = int(session.given["length"] or model_shape(case["model"])["context"])
    use(case["attention"])
    for mode in modes:
        text = " ".join(f"{key}={value}" for key, value in case.items())
        text += f" mode={mode} length={length}"
        needed = (90 if case["model"] == "large" else 50) if "compile" in mode else 10
        if session.left() < (1 if session.given["quick"] == "true" else needed):
            session.say(f"    no time left for {text}")
            continue
        if mode != "eager" and case["attention"] == "chunked":
            session.say(f"    left out, {text}: the host seeds its dropout, anew for every step")
            continue
        release(session.device)
        try:
            model = model_for(case, session.device)
            batch = synthetic(
                case["rows"], length, SETTINGS[case["setting"]]["pieces"], session.device
            )
            work = operations_per_token(model, length)
            run = prepared(session, Step(model, batch), mode)
            run()
            seconds = [wall(run, session.device) for _ in range(int(session.given["steps"]))]
        except Exception as error:  # one case less, not all
            session.say(f"    {text}: {type(error).__name__}: {str(error)[:160]}")
            continue
        finally:
            run = model = batch = None  # type: ignore[assignment]
        rates = [case["rows"] * length / x for x in seconds]
        record(session, case, mode, text, work, rates)
    use("library")


def record(
    session: Session, case: dict[str, Any], mode: str, text: str, work: dict[str, float],
    rates: list[float],
) -> None:  # fmt: skip
    peak = sheet_peak(session.about["gpu"])
    share = float(np.median(rates)) * sum(work.values()) / peak if peak else float("nan")
    memory = peak_memory(session.device)
    session.record(text, "tokens/s", rates, mode=mode, utilisation=share, peak_MB=memory,
                   operations_per_token=work, **case)  # fmt: skip
    session.say(
        f"    {text}: {np.median(rates):,.0f} tokens/s, {100 * share:.1f} %, {memory:.0f} MB"
    )


# ---------------------------------------------------------------- data


def fed_by_the_loader(session: Session, best: dict[str, Any], length: int, folder: Path) -> None:
    """The loader alone, and the fastest case of a model fed by it."""
    count, repeats = (2, 2) if session.given["quick"] == "true" else (20, 5)
    each = best["rows"] * length
    source = batches(session.given, best["rows"], length, folder)
    next(source)

    def load() -> None:
        for _ in range(count):
            next(source)

    alone = [each * count / wall(load, session.device) for _ in range(repeats)]
    release(session.device)
    use(best["attention"])
    static = synthetic(best["rows"], length, True, session.device)
    step = Step(model_for(best, session.device), static)
    run = prepared(session, step, best["mode"])

    def fed() -> None:
        for _ in range(count):
            step.feed(next(source))
            run()

    fed()
    rates = [each * count / wall(fed, session.device) for _ in range(repeats)]
    use("library")
    text = f"model={best['model']} workers={session.given['workers']} rows={best['rows']}"
    row = session.record(f"loader alone {text}", "tokens/s", alone)
    session.say(f"    {text}: loader alone {row['median']:,.0f} tokens/s")
    row = session.record(f"fed by the loader {text} mode={best['mode']}", "tokens/s", rates)
    session.say(
        f"    training {row['median']:,.0f} tokens/s with the loader, {best['median']:,.0f} on one "
        f"batch: {row['median'] / best['median']:.2f} of it"
    )


def data_is_not_the_limit(session: Session, folder: Path) -> None:
    """The above for each model, in the setting of training."""
    quick = session.given["quick"] == "true"
    for name in several(session.given["models"]):
        ours = [r for r in session.rows if r.get("model") == name and r["setting"] == "train"]
        if not ours or session.left() < (1 if quick else 40):
            session.say(f"    no time left, or nothing to compare, for data of {name}")
            continue
        best = max(ours, key=lambda r: float(r["median"]))
        length = int(session.given["length"] or model_shape(name)["context"])
        fed_by_the_loader(session, best, length, folder)


# ---------------------------------------------------------------- all of it


def summary(session: Session) -> None:
    """The short table, last; and the bars."""
    rows = [r for r in session.rows if "mode" in r]
    print(f"\n{'model':6} {'setting':7} {'attention':9} {'rows':>4} {'mode':14} {'tokens/s':>10} "
          f"{'quartiles':>19} {'MFU':>6} {'MB':>7}")  # fmt: skip
    for r in rows:
        spread = f"{r['quartile1']:,.0f}-{r['quartile3']:,.0f}"
        print(
            f"{r['model']:6} {r['setting']:7} {r['attention']:9} {r['rows']:4} {r['mode']:14} "
            f"{r['median']:10,.0f} {spread:>19} {100 * r['utilisation']:5.1f}% {r['peak_MB']:7.0f}"
        )
    best: dict[tuple[Any, ...], float] = {}
    for r in rows:
        key = (r["model"], r["setting"], r["rows"], r["attention"])
        best[key] = max(best.get(key, 0.0), float(r["median"]))
    for (model, setting, count, name), value in best.items():
        theirs = best.get((model, setting, count, "textbook"))
        if theirs and name == "fused":
            judged(f"{model} {setting} rows={count}: times the textbook", value / theirs,
                   BARS["times textbook"], session)  # fmt: skip
    large = [r["utilisation"] for r in rows if r["model"] == "large" and r["attention"] == "fused"]
    if large:
        judged("large: utilisation", max(large), BARS["utilisation of large"], session)


def judged(what: str, found: float, bar: float, session: Session) -> None:
    said = "no GPU" if not session.cuda else "reached" if found >= bar else "NOT reached"
    print(f"bar, {what}: {found:.2f}, at least {bar:.2f}: {said}")


def main(words: list[str]) -> int:
    given = options(DEFAULTS, QUICK, words)
    for name in several(given["models"]):  # one that is not there is told at once
        model_shape(name)
    session = Session("train_throughput", given)
    torch.manual_seed(0)
    session.say("correctness")
    torch.set_float32_matmul_precision("highest")
    implementations_agree(session)
    modes_agree(session)
    session.notes["ceilings"] = ceilings(session.device, given["quick"] == "true")
    session.say(f"ceilings: {session.notes['ceilings']}")
    for case in cases(given):
        measure(session, case, several(given["modes"]))
    session.say("data")
    with tempfile.TemporaryDirectory() as made:
        size = (4, 200) if given["quick"] == "true" else (40, 4000)
        folder = Path(given["shards"] or made_shards(Path(made) / "shards", *size))
        data_is_not_the_limit(session, folder)
    summary(session)
    return session.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
