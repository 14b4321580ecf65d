"""musictx beside other ways to get a music transformer: training step, memory, decoding.

    pip install x-transformers transformers          # not needed by musictx itself
    python -m scripts.bench.others                   # a table; nothing else should run meanwhile
    python -m scripts.bench.others only=musictx,textbook window=512 threads=1
    python -m scripts.bench.others rehearse=true     # tiny, within seconds
    python -m scripts.bench.others decode=256,64,1 layers=7 width=320 heads=5 window=2048 new=64 \
        device=cuda dtype=bfloat16 results=FILE.csv budget=60    # decoding alone

Every network has the same shape (``layers= width= heads=``), vocabulary and window; tokens are
random, weights float32, the optimizer AdamW. Each runs in a process of its own and reports

    train     tokens a second of whole steps (forward, backward, optimizer), median of ``steps``
    memory    peak resident memory of those steps beyond what the process held before, MB
    decode    new tokens a second for one sequence, after a prompt of half a window, median of three

``textbook`` is what published PyTorch versions of the Music Transformer do: the skew with L x L
logits for each head, and no cache, so the prefix is computed again for every token. It is played
here by musictx's own ``attention=skew``, whose logits are compared with those of ``musictx`` first.
A package that is not installed is named and left out.

With ``decode=ROWS`` all run in one process on ``device`` and continue so many rows of ``prompt``
ids by ``new`` each; ms a step is what the ids after the first one take. ``piano`` is the network of
``experiment=maestro/best`` with its features. ``graph`` takes the prototype of a step with fixed
shapes (``scripts/bench/graphed.py``); ``on device`` draws on the GPU too, and so knows nothing of
what must not be drawn. ``compiled`` is GPT-2 with a static cache, by ``torch.compile``.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from scripts.words import options, run, several

VOCABULARY = 392
EOS = 2
DECODING_SECONDS = 40
LONG = ("GPT-2, compiled", "piano", "piano, graph")
DECODED = 3
DEFAULTS = {
    "layers": "6", "width": "256", "heads": "4", "window": "1024", "rows": "2", "steps": "5",
    "new": "128", "threads": "0", "only": "", "measure": "", "decode": "", "prompt": "512",
    "device": "cpu", "dtype": "float32", "results": "", "budget": "600",
}  # fmt: skip
TINY = {
    "layers": "2", "width": "32", "heads": "2", "window": "64", "steps": "1", "new": "8",
    "prompt": "20",
}  # fmt: skip
NUMBERS = ("layers", "width", "heads", "window", "rows", "steps", "new", "threads", "prompt")
CASES = {
    "musictx": "musictx, relative attention (huang)",
    "textbook": "textbook Music Transformer: skew, no cache",
    "x_transformers": "x-transformers, rotary",
    "transformers": "Hugging Face GPT-2, absolute positions",
}


def main(words: list[str]) -> int:
    given = options(words, DEFAULTS, TINY)
    asked = SimpleNamespace(**{name: int(given[name] or 0) for name in NUMBERS})
    torch.set_num_threads(asked.threads or torch.get_num_threads())
    if given["decode"]:
        return decoding(asked, given)
    if given["measure"]:
        print(json.dumps(measure(given["measure"], asked)))
        return 0
    check_textbook(asked)
    shape = f"{asked.layers} layers of {asked.width}, {asked.heads} heads, {asked.window} tokens"
    threads = f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    print(f"{shape}, {asked.rows} rows, {threads}\n")
    print(f"{'':44} {'parameters':>11} {'train tok/s':>12} {'memory MB':>10} {'decode tok/s':>13}")
    failed = 0
    for case in several(given["only"]) or list(CASES):
        if case not in CASES:
            raise SystemExit(f"only={case}: expected some of {', '.join(CASES)}")
        package = case if case != "textbook" else "musictx"
        if importlib.util.find_spec(package) is None:
            print(f"{CASES[case]:44} not installed")
            continue
        told = [f"{name}={getattr(asked, name)}" for name in NUMBERS]
        command = [sys.executable, "-m", "scripts.bench.others", f"measure={case}", *told]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            failed += 1
            print(f"{CASES[case]:44} failed: {result.stderr.strip().splitlines()[-1]}")
            continue
        got = json.loads(result.stdout.splitlines()[-1])
        print(
            f"{CASES[case]:44} {got['parameters']:>11,} {got['train']:>12,.0f} "
            f"{got['memory']:>10,.0f} {got['decode']:>13,.1f}",
            flush=True,
        )
    return 1 if failed else 0


def measure(case: str, asked: SimpleNamespace) -> dict[str, float]:
    torch.manual_seed(0)
    logits, parameters, decode = BUILDERS[case](asked)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    ids = torch.randint(4, VOCABULARY, (asked.rows, asked.window + 1))
    before, times = peak_memory(), []
    for _ in range(asked.steps + 1):
        begun = time.perf_counter()
        loss = F.cross_entropy(logits(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begun)
    memory = peak_memory() - before
    prompt = ids[:1, : asked.window // 2]
    decode(prompt, 2)  # what is compiled on first use is compiled here
    decoded = []
    for _ in range(DECODED):
        begun = time.perf_counter()
        decode(prompt, asked.new)
        decoded.append(time.perf_counter() - begun)
    return {
        "parameters": sum(p.numel() for p in parameters),
        "train": asked.rows * asked.window / statistics.median(times[1:]),
        "memory": memory,
        "decode": asked.new / statistics.median(decoded),
    }


def peak_memory() -> float:
    """Peak resident memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


#: (rows, ids) -> milliseconds that all ids but the first one took.
Decode = Callable[[int, int], float]
Built = tuple[Callable[[Tensor], Tensor], list[nn.Parameter], Callable[[Tensor, int], object]]


def ours(asked: SimpleNamespace, attention: str = "auto") -> nn.Module:
    from musictx.model import MusicTransformer

    torch.manual_seed(0)
    return MusicTransformer(
        VOCABULARY,
        layers=asked.layers,
        width=asked.width,
        heads=asked.heads,
        feedforward=4 * asked.width,
        context=asked.window,
        attention=attention,
        position={"name": "huang", "max_distance": asked.window},
    )


def endless(ids: Tensor, logits: Tensor) -> Tensor:
    """Processes logits so that no row ends."""
    return logits.index_fill(1, torch.tensor([EOS]), -torch.inf)


def build_musictx(asked: SimpleNamespace) -> Built:
    from musictx.sampling import engine

    model = ours(asked)

    def decode(prompt: Tensor, new: int) -> object:
        found = list(
            engine.generate(
                model.eval(), prompt[0], max_tokens=new, seeds=[0], processors=[endless]
            )
        )
        assert len(found) == new
        return found

    return model, list(model.parameters()), decode


def build_textbook(asked: SimpleNamespace) -> Built:
    model = ours(asked, "skew")
    return model, list(model.parameters()), lambda prompt, new: recomputed(model, prompt, new)


def x_transformers(asked: SimpleNamespace) -> tuple[nn.Module, Callable[..., object]]:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(
        dim=asked.width,
        depth=asked.layers,
        heads=asked.heads,
        attn_dim_head=asked.width // asked.heads,
        rotary_pos_emb=True,
        attn_flash=True,
    )
    model = TransformerWrapper(
        num_tokens=VOCABULARY, max_seq_len=asked.window, attn_layers=layers, tie_embedding=True
    )
    sampler = AutoregressiveWrapper(model)

    def decode(prompt: Tensor, new: int) -> object:
        return sampler.generate(prompt, new, cache_kv=True)

    return model, decode


def transformers(asked: SimpleNamespace) -> tuple[nn.Module, Callable[..., object]]:
    from transformers import GPT2Config, GPT2LMHeadModel, StaticCache

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=asked.window,
            n_embd=asked.width,
            n_layer=asked.layers,
            n_head=asked.heads,
            resid_pdrop=0.0,  # as in the other rows
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )

    caches: dict[int, StaticCache] = {}

    def decode(prompt: Tensor, new: int, compiled: bool = False) -> object:
        more = {}
        if compiled:  # the same memory in every call, or each would record its graph anew
            room = asked.prompt + asked.new
            more["past_key_values"] = caches.setdefault(
                len(prompt), StaticCache(model.config, max_cache_len=room)
            )
            more["past_key_values"].reset()
        return model.eval().generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=new,
            min_new_tokens=new,
            do_sample=True,
            top_k=0,
            pad_token_id=0,
            **more,
        )

    return model, decode


def build_x_transformers(asked: SimpleNamespace) -> Built:
    model, decode = x_transformers(asked)
    return model, list(model.parameters()), decode


def build_transformers(asked: SimpleNamespace) -> Built:
    model, decode = transformers(asked)
    return lambda ids: model(ids).logits, list(model.parameters()), decode


def modes(asked: SimpleNamespace, given: dict[str, str]) -> dict[str, Callable[[], Decode]]:
    """Name -> what makes a function (rows, new), which decodes ``new`` ids a row."""
    from scripts.bench import graphed
    from scripts.bench.common import milliseconds

    device, dtype = torch.device(given["device"]), getattr(torch, given["dtype"])
    torch.manual_seed(0)
    prompt = torch.randint(4, 300, (asked.prompt,))
    here = prompt.to(device)

    def engine_of(network: nn.Module, cache: str) -> Decode:
        from musictx.sampling import engine

        engine.CACHES = (*[c for c in engine.CACHES if c != "graph"], "graph")
        model = network.to(device, dtype).eval()
        step = engine._step

        def decode(rows: int, new: int) -> float:
            if cache == "graph":
                engine._step = lambda name: graphed.GraphStep  # type: ignore[assignment]
            steps = engine.generate(
                model, prompt, max_tokens=new, seeds=range(rows), cache=cache, processors=[endless]
            )
            try:
                next(steps)
                return milliseconds(lambda: sum(1 for _ in steps), device)
            finally:
                engine._step = step

        return decode

    def piano() -> nn.Module:
        from musictx.apps.train import network
        from musictx.compose import compose

        words = ["experiment=maestro/best", *(["model.layers=2"] if asked.layers == 2 else [])]
        return network(compose("train", words), print)[1]

    def on_device() -> Decode:
        model = ours(asked).to(device, dtype).eval()

        def decode(rows: int, new: int) -> float:
            step = graphed.drawing(model, here, new, rows)  # type: ignore[arg-type]
            with torch.inference_mode():
                return milliseconds(lambda: [step() for _ in range(new - 1)], device)

        return decode

    def other(build: Callable[[SimpleNamespace], Any], **more: object) -> Decode:
        model, decode = build(asked)
        model.to(device, dtype).eval()

        def steps(rows: int, new: int) -> float:
            rest, begin = here.expand(rows, -1).contiguous(), 0.0
            for count, sign in ((1, -1.0), (new, 1.0)):
                begin += sign * milliseconds(lambda: decode(rest, count, **more), device)  # noqa: B023
            return begin

        return steps

    return {
        "musictx": lambda: engine_of(ours(asked), "growing"),
        "musictx, graph": lambda: engine_of(ours(asked), "graph"),
        "musictx, graph, on device": on_device,
        "x-transformers": lambda: other(x_transformers),
        "GPT-2": lambda: other(transformers),
        "GPT-2, compiled": lambda: other(transformers, compiled=True),
        "piano": lambda: engine_of(piano(), "growing"),
        "piano, graph": lambda: engine_of(piano(), "graph"),
    }


def decoding(asked: SimpleNamespace, given: dict[str, str]) -> int:
    """The table of decoding, what takes long last."""
    from scripts.bench.attention_check import say, seconds, short
    from scripts.bench.attention_gpu import at_most
    from scripts.bench.common import record, spread

    device, made, table = torch.device(given["device"]), modes(asked, given), []
    ready: dict[str, Decode] = {}
    plan = [(rows, name) for rows in map(int, several(given["decode"])) for name in made]
    for rows, name in sorted(plan, key=lambda each: each[1] in LONG):
        try:
            if seconds() > float(given["budget"]):
                raise TimeoutError("no time left")
            with at_most(DECODING_SECONDS):
                decode = ready[name] = ready.get(name) or made[name]()
                decode(rows, asked.new if "compiled" in name else 3)
                times = sorted(decode(rows, asked.new) / (asked.new - 1) for _ in range(DECODED))
        except Exception as error:
            table.append(f"{name:28} {rows:5}  {short(error)}")
            continue
        finally:
            say(f"{name}, {rows} rows")
        low, middle, high = spread(times)
        line = f"{name:28} {rows:5} {middle:9.3f} ({low:.3f}-{high:.3f})"
        table.append(f"{line:60}{1e3 * rows / middle:10,.0f}")
        record(
            given["results"], device, times, implementation=f"decode {name}", batch=rows,
            heads=asked.heads, length=asked.prompt, size=asked.width // asked.heads,
            dtype=given["dtype"], extra_peak_mb="-", **{"pass": "step"},
        )  # fmt: skip
    print(f"\n{'decoding':28} {'rows':>5} {'ms a step':>9}{'tokens/s':>26}")
    print("\n".join(table), flush=True)
    return 0


BUILDERS: dict[str, Callable[[SimpleNamespace], Built]] = {
    "musictx": build_musictx,
    "textbook": build_textbook,
    "x_transformers": build_x_transformers,
    "transformers": build_transformers,
}


@torch.inference_mode()
def recomputed(model: nn.Module, prompt: Tensor, new: int) -> Tensor:
    """Sampling as it is done without a cache: a whole forward pass for every token."""
    ids = prompt
    for _ in range(new):
        chances = model.eval()(ids)[:, -1].softmax(-1)
        ids = torch.cat([ids, torch.multinomial(chances, 1)], dim=1)
    return ids


@torch.inference_mode()
def check_textbook(asked: SimpleNamespace) -> None:
    """The textbook's network gives the logits of ours, so it is the same work that is timed."""
    ids = torch.randint(4, VOCABULARY, (1, 200))
    got, expected = ours(asked).eval()(ids), ours(asked, "skew").eval()(ids)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    run(main)
