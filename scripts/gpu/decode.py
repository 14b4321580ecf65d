"""Decoding on a GPU, in one command: correctness, then tokens a second at position 1024.

    python scripts/gpu/decode.py                        # all of it within 540 seconds
    python scripts/gpu/decode.py rows=1,128 dtypes=bfloat16 ways=graph seconds=120
    python scripts/gpu/decode.py quick=true             # on the CPU, tiny

1. Correctness: the static step against the ordinary cached one for each position scheme; greedy
   and drawn ids of the model on this device in float32 against the engine's on the CPU; bfloat16
   within 1.5 times the error of the ordinary step; recorded and compiled steps against eager ones.
2. Rates around ``position`` with room for ``capacity`` tokens: the engine (logits to the CPU for
   every token) and the loop on the device (sampling/graph.py) as it stands, recorded as a CUDA
   graph, compiled, and compiled and recorded. Greedy; and temperature with top-p.

Wall-clock time of ``steps`` tokens, the wait for the last one included; medians and quartiles. The
limit beside each rate: the bytes a step must read (weights and tables once for all rows, keys and
values of each row) at this device's measured copy rate. Files: results.csv, decode.json in ``out``.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from common import (
    VOCABULARY,
    Session,
    apart,
    build,
    ceilings,
    model_shape,
    options,
    peak_memory,
    release,
    several,
    wall,
)
from torch import Tensor

from musictx.model.cache import KVCache
from musictx.model.static import StaticDecoder
from musictx.model.transformer import MusicTransformer
from musictx.sampling import engine, graph
from musictx.sampling.processors import Processor, Temperature, TopP
from musictx.tokens.vocab import BOS

DEFAULTS = {
    "model": "paper", "rows": "1,8,64,128,256,512", "dtypes": "bfloat16,float32",
    "ways": "graph,compile+graph,eager,compile", "position": "1024", "capacity": "2048",
    "steps": "64", "repeats": "7", "tune": "false",
}  # fmt: skip
QUICK = {
    "model": "quick", "rows": "1,3", "dtypes": "float32", "ways": "eager,compile",
    "position": "24", "capacity": "48", "steps": "4", "repeats": "2",
}  # fmt: skip
SCHEMES: dict[str, dict[str, Any]] = {
    "huang": {}, "huang_shared": {"name": "huang", "shared": True}, "rotary": {}, "sinusoidal": {},
    "learned": {}, "alibi": {}, "t5": {}, "shaw": {}, "transformer_xl": {}, "huang_local": {},
    "none": {},
}  # fmt: skip
#: Tokens a second that are asked for: one sequence, and any batch (model=paper, position 1024).
BARS = {"one sequence": 5_000.0, "a batch": 100_000.0}
GREEDY: list[Processor] = [Temperature(0.0)]
DRAWN: list[Processor] = [Temperature(0.9), TopP(0.95)]


def prefilled(model: MusicTransformer, tokens: int) -> tuple[KVCache, Tensor]:
    """A cache of one row with ``tokens`` random tokens, and the logits after them."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, VOCABULARY, (1, tokens), generator=generator)
    ids[0, 0] = BOS
    cache = model.new_cache(rows=1, capacity=tokens)
    with torch.no_grad():
        return cache, model(ids.to(model.embedding.weight.device), cache=cache)[:, -1]


# ---------------------------------------------------------------- correctness


def logits_of(
    model: MusicTransformer, ids: Tensor, prompt: int, static: bool, kernel: bool | None = None
) -> Tensor:
    """Logits (rows, tokens, V) after each token from ``prompt`` on."""
    with torch.no_grad():
        cache = model.new_cache(rows=len(ids), capacity=ids.shape[1])
        found = [model(ids[:, :prompt], cache=cache)[:, -1]]
        decoder = StaticDecoder(model, rows=len(ids), capacity=ids.shape[1], kernel=kernel)
        decoder.load(cache)
        for token in ids[:, prompt:].split(1, dim=1):
            found.append(decoder.step(token) if static else model(token, cache=cache)[:, -1])
    return torch.stack(found, dim=1)


def schemes_agree(session: Session) -> None:
    """Each scheme, small and float32, on this device; and its loop in every way there is."""
    ids = torch.randint(4, VOCABULARY, (2, 40), device=session.device)
    for name, position in SCHEMES.items():
        model = build("quick", position={"name": name} | position).eval().to(session.device)
        wanted = logits_of(model, ids, 8, False)
        for kernel in (None, False) if session.cuda else (False,):
            error = apart(logits_of(model, ids, 8, True, kernel), wanted)
            what = f"static step, {name}, float32, {'products' if kernel is False else 'default'}"
            session.check(what, error < 1e-5, f"error {error:.1e} of 1e-05")


def ids_agree(session: Session, name: str, prompt: int, tokens: int) -> None:
    """Greedy and drawn ids on this device, recorded where it can be, against the engine's on the
    CPU, all in float32."""
    model = build(name, opinions=2.0).eval()
    begin = [BOS, *range(10, 10 + prompt - 1)]
    for what, rules in (("greedy", GREEDY), ("drawn", DRAWN)):
        more: dict[str, Any] = {"rows": 3, "max_tokens": tokens, "seeds": range(3)}
        model.cpu()
        wanted = torch.stack(list(engine.generate(model, begin, processors=rules, **more)), dim=1)
        model.to(session.device)
        got = torch.stack(list(graph.generate(model, begin, processors=rules, **more)), dim=1)
        same = got.shape == wanted.shape and torch.equal(got, wanted)
        where = "" if same else f", first difference at {first_difference(got, wanted)}"
        session.check(
            f"{what} ids of {name}, float32", same, f"{tuple(got.shape)} as on CPU{where}"
        )


def first_difference(a: Tensor, b: Tensor) -> int:
    count = min(a.shape[1], b.shape[1])
    differ = (a[:, :count] != b[:, :count]).any(0).nonzero()
    return int(differ[0]) if len(differ) else count


def half_agrees(session: Session, name: str, prompt: int, tokens: int) -> None:
    """bfloat16 against float32: no worse than what the ordinary step makes of it."""
    model = build(name).eval().to(session.device)
    ids = torch.randint(4, VOCABULARY, (2, prompt + tokens), device=session.device)
    exact = logits_of(model, ids, prompt, False)
    model.bfloat16()
    ours, theirs = (apart(logits_of(model, ids, prompt, x), exact) for x in (True, False))
    found = f"error {ours:.1e} of {1.5 * theirs:.1e}"
    session.check(f"static step of {name}, bfloat16", ours <= 1.5 * theirs, found)


def ways_agree(session: Session, name: str, ways: list[str]) -> None:
    """Ids of each way of running a step against the eager one."""
    model = build(name, opinions=2.0).eval().to(session.device)
    cache, logits = prefilled(model, 20)
    found = {}
    for way in dict.fromkeys(["eager", *ways]):
        loop = made(session, model, rows=2, capacity=48, tokens=16, rules=DRAWN, way=way)
        for _ in range(2):  # a loop can begin again
            loop.begin(cache, logits, [5, 6])
            for _ in range(15):
                loop.advance()
        found[way] = loop.out.cpu()
    for way, ids in found.items():
        same = torch.equal(ids, found["eager"])
        session.check(f"{way} of {name}, float32", same, "ids as eager" if same else str(ids))


# ---------------------------------------------------------------- rates


def made(
    session: Session, model: MusicTransformer, *, rows: int, capacity: int, tokens: int,
    rules: list[Processor], way: str, kernel: bool | None = None,
) -> graph.Loop:  # fmt: skip
    return graph.Loop(
        model, rows=rows, capacity=capacity, max_tokens=tokens, processors=rules, way=way,
        kernel=kernel, backend="inductor" if session.cuda else "aot_eager",
    )  # fmt: skip


def bytes_of_a_step(model: MusicTransformer, rows: int, position: int) -> dict[str, float]:
    """What one step must read: weights once, tables of positions once as far as their distances
    occur (in float32, as the step holds them), keys and values of each row up to ``position``."""
    size, shape = model.embedding.weight.element_size(), model.config
    tables = 0
    for layer in range(shape["layers"]):
        for axis in model.position.terms(layer, reach=position).axes:
            axis = axis.narrowed(position + 1)
            tables += 4 * sum(x.numel() for x in (axis.table, axis.bias) if x is not None)
    learned = sum(p.numel() for p in model.position.parameters())
    weights = (sum(p.numel() for p in model.parameters()) - learned) * size
    cached = 2 * shape["layers"] * shape["width"] * (position + 1) * size
    return {"weights": weights, "tables": tables, "keys and values": rows * cached}


def limit(model: MusicTransformer, rows: int, position: int, bandwidth: float) -> float:
    """Tokens a second if every byte that must be read came at ``bandwidth``, bytes/s."""
    return rows * bandwidth / sum(bytes_of_a_step(model, rows, position).values())


def rate(session: Session, loop: graph.Loop, start: tuple[KVCache, Tensor], steps: int) -> float:
    """Tokens a second of all rows together over ``steps`` tokens."""
    cache, logits = start
    rows = len(loop.out)
    loop.begin(cache, logits, [0] * rows)

    def run() -> None:
        for _ in range(steps):
            loop.advance()

    return rows * steps / wall(run, session.device)


def measure(session: Session, model: MusicTransformer, case: dict[str, Any]) -> None:
    """One case of the table."""
    given, rows, way = session.given, case["rows"], case["way"]
    steps, position = int(given["steps"]), int(given["position"])
    start = prefilled(model, position - steps // 2)
    text = " ".join(f"{key}={value}" for key, value in case.items())
    text += f" model={given['model']} position={position} capacity={given['capacity']}"
    release(session.device)
    rules = GREEDY if case["choice"] == "greedy" else DRAWN
    if way == "engine":
        values = [engine_rate(session, model, rules, rows) for _ in range(2)]
    else:
        loop = made(
            session, model, rows=rows, capacity=int(given["capacity"]), tokens=steps + 1,
            rules=rules, way=way, kernel=None if case["attention"] == "kernel" else False,
        )  # fmt: skip
        values = [rate(session, loop, start, steps) for _ in range(int(given["repeats"]) + 1)][1:]
    most = limit(model, rows, position, session.notes["ceilings"]["copy_bytes_per_second"])
    session.record(
        text, "tokens/s", values, limit=most, peak_MB=peak_memory(session.device), **case
    )
    session.say(f"    {text}: {session.rows[-1]['median']:,.0f} tokens/s")


def engine_rate(
    session: Session, model: MusicTransformer, rules: list[Processor], rows: int
) -> float:
    """The engine around the same position, with the constraint that no row ends."""
    steps, position = int(session.given["steps"]), int(session.given["position"])

    class Endless:
        mask = torch.ones(rows, VOCABULARY, dtype=torch.bool)
        mask[:, : engine.CUT + 1] = False

        def allowed(self) -> Tensor:
            return self.mask

        def advance(self, ids: Tensor) -> None: ...

        def done(self) -> Tensor:
            return torch.zeros(rows, dtype=torch.bool)

    begin = torch.randint(4, VOCABULARY, (position - steps // 2,))
    drawn = engine.generate(
        model, begin, rows=rows, max_tokens=steps + 1, processors=rules, constraint=Endless(),
        seeds=[0] * rows,
    )  # fmt: skip
    next(drawn)
    return rows * steps / wall(lambda: list(drawn), session.device)


def cases(given: dict[str, str]) -> list[dict[str, Any]]:
    """What is measured, the most wanted first."""
    rows, dtypes = [int(x) for x in several(given["rows"])], several(given["dtypes"])
    ways = several(given["ways"])
    kernel = "kernel" if given["device"] == "cuda" else "products"
    found: list[dict[str, Any]] = []

    def add(**case: Any) -> None:
        found.append({"attention": kernel, "choice": "greedy"} | case)

    for dtype in dtypes:
        for way in ways:
            for count in rows:
                add(way=way, rows=count, dtype=dtype)
        for count in dict.fromkeys((rows[0], rows[-1])):
            add(way=ways[0], rows=count, dtype=dtype, choice="drawn")
            add(way="engine", rows=count, dtype=dtype, attention="products")
            if kernel == "kernel":
                add(way=ways[0], rows=count, dtype=dtype, attention="products")
    return found


def summary(session: Session) -> None:
    """The short table, last."""
    print(f"\n{'dtype':9} {'rows':>5} {'way':14} {'attention':9} {'choice':7} "
          f"{'tokens/s':>10} {'quartiles':>17} {'of limit':>8} {'MB':>7}")  # fmt: skip
    for r in session.rows:
        spread = f"{r['quartile1']:,.0f}-{r['quartile3']:,.0f}"
        share = 100 * r["median"] / r["limit"]
        print(
            f"{r['dtype']:9} {r['rows']:5} {r['way']:14} {r['attention']:9} {r['choice']:7} "
            f"{r['median']:10,.0f} {spread:>17} {share:7.1f}% {r['peak_MB']:7.0f}"
        )
    if not session.cuda or session.given["model"] != "paper":
        print("the bars are for model=paper on a GPU: not judged here")
        return
    for what, bar in BARS.items():
        of = [r for r in session.rows if (r["rows"] == 1) == (what == "one sequence")]
        if of:
            best = max(of, key=lambda r: float(r["median"]))
            met = "reached" if best["median"] >= bar else "NOT reached"
            print(
                f"bar for {what}: {bar:,.0f} tokens/s {met}: "
                f"{best['median']:,.0f} ({best['dtype']}, {best['rows']} rows, {best['way']})"
            )


def main(words: list[str]) -> int:
    given = options(DEFAULTS, QUICK, words)
    model_shape(given["model"])  # a name that is not there is told at once
    session = Session("decode", given)
    quick = given["quick"] == "true"
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    if given["tune"] == "true":
        import torch._inductor.config as inductor

        inductor.coordinate_descent_tuning = True
    session.say("correctness")
    schemes_agree(session)
    small = ("quick", 8, 12) if not session.cuda else (given["model"], 128, 64)
    ids_agree(session, *small)
    half_agrees(session, *small)
    ways_agree(session, "quick", several(given["ways"]))
    session.notes["ceilings"] = ceilings(session.device, quick)
    session.say(f"ceilings: {session.notes['ceilings']}")
    for case in cases(given):
        if session.left() < (5 if quick else 45 if "compile" in case["way"] else 15):
            session.say(f"    no time left for {case}")
            continue
        model = build(given["model"], opinions=2.0).eval()
        model.to(session.device, getattr(torch, case["dtype"]))
        try:
            measure(session, model, case)
        except (RuntimeError, torch.OutOfMemoryError) as error:  # one case less, not all
            session.say(f"    {case}: {type(error).__name__}: {str(error)[:200]}")
        del model
    summary(session)
    return session.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
