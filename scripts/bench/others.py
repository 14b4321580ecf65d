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
logits for each head, and no cache, so the prefix is computed again for every token. It is computed
here by musictx with ``attention=skew``, whose logits are compared with those of ``musictx`` first.
A package that is not installed is named and left out.

With ``decode=ROWS`` all run in one process on ``device`` and continue so many rows of ``prompt``
ids by ``new`` each; ms a step is what the ids after the first one take. ``piano`` is the network of
``experiment=maestro/best`` with its features; ``compiled`` is GPT-2 with a static cache, by
``torch.compile``. Nothing new begins after ``budget`` seconds.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.apps.train import network
from musictx.compose import compose
from musictx.errors import UserError
from musictx.model import MusicTransformer
from musictx.sampling import engine
from scripts.bench.common import milliseconds, record, say, seconds, short, spread
from scripts.harness import run

VOCABULARY, EOS = 392, 2
TIMES = 3


@dataclass(frozen=True)
class Shape:
    """Of every network; ``new`` ids are decoded, ``room`` is what a static cache holds."""

    layers: int
    width: int
    heads: int
    window: int
    new: int
    room: int = 0


class Network(NamedTuple):
    """``logits`` of ids (rows, length); ``decode(prompt, new)`` continues ids (rows, length)."""

    module: nn.Module
    logits: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor, int], object]


# --------------------------------------------------------------------------------------- networks


def ours(shape: Shape, attention: str = "auto") -> MusicTransformer:
    torch.manual_seed(0)
    return MusicTransformer(
        VOCABULARY,
        layers=shape.layers,
        width=shape.width,
        heads=shape.heads,
        feedforward=4 * shape.width,
        context=shape.window,
        attention=attention,
        position={"name": "huang", "max_distance": shape.window},
    )


def with_cache(model: MusicTransformer) -> Network:
    def endless(ids: Tensor, logits: Tensor) -> Tensor:
        return logits.index_fill(1, torch.tensor([EOS]), -torch.inf)

    def decode(prompt: Tensor, new: int) -> object:
        rows = range(len(prompt))
        options = {"max_tokens": new, "seeds": rows, "processors": [endless]}
        found = list(engine.generate(model.eval(), prompt[0].cpu(), **options))
        assert len(found) == new
        return found

    return Network(model, model, decode)


def musictx(shape: Shape) -> Network:
    return with_cache(ours(shape))


def piano(shape: Shape) -> Network:
    return with_cache(network(compose("train", ["experiment=maestro/best"]), print)[1])


def textbook(shape: Shape) -> Network:
    model = ours(shape, "skew")

    @torch.inference_mode()
    def decode(ids: Tensor, new: int) -> Tensor:
        """A whole forward pass for every token."""
        for _ in range(new):
            chances = model.eval()(ids)[:, -1].softmax(-1)
            ids = torch.cat([ids, torch.multinomial(chances, 1)], dim=1)
        return ids

    return Network(model, model, decode)


def x_transformers(shape: Shape) -> Network:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(
        dim=shape.width,
        depth=shape.layers,
        heads=shape.heads,
        attn_dim_head=shape.width // shape.heads,
        rotary_pos_emb=True,
        attn_flash=True,
    )
    model = TransformerWrapper(
        num_tokens=VOCABULARY, max_seq_len=shape.window, attn_layers=layers, tie_embedding=True
    )
    sampler = AutoregressiveWrapper(model)
    return Network(model, model, lambda ids, new: sampler.generate(ids, new, cache_kv=True))


def transformers(shape: Shape, compiled: bool = False) -> Network:
    from transformers import GPT2Config, GPT2LMHeadModel, StaticCache

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=shape.window,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            resid_pdrop=0.0,  # as in the other rows
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=1,
            eos_token_id=EOS,
        )
    )
    caches: dict[int, StaticCache] = {}

    def decode(prompt: Tensor, new: int) -> object:
        more = {}
        if compiled:  # the same memory in every call, or each would record its graph anew
            cache = StaticCache(model.config, max_cache_len=shape.room)
            more["past_key_values"] = caches.setdefault(len(prompt), cache)
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

    return Network(model, lambda ids: model(ids).logits, decode)


#: Name -> what a row is called, the package that it needs, and what builds it.
CASES: dict[str, tuple[str, str, Callable[[Shape], Network]]] = {
    "musictx": ("musictx, relative attention (huang)", "musictx", musictx),
    "textbook": ("textbook Music Transformer: skew, no cache", "musictx", textbook),
    "x_transformers": ("x-transformers, rotary", "x_transformers", x_transformers),
    "transformers": ("Hugging Face GPT-2, absolute positions", "transformers", transformers),
}
DECODING: dict[str, Callable[[Shape], Network]] = {
    "musictx": musictx,
    "x-transformers": x_transformers,
    "GPT-2": transformers,
    "piano": piano,
    "GPT-2, compiled": lambda shape: transformers(shape, compiled=True),
}

# --------------------------------------------------------------------------------------- measured


def measured(case: str, shape: Shape, rows: int, steps: int, threads: int) -> dict[str, float]:
    """Training, memory and decoding of a network, in this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    built = CASES[case][2](shape)
    parameters = list(built.module.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    ids = torch.randint(4, VOCABULARY, (rows, shape.window + 1))
    before, times = peak_memory(), []
    for _ in range(steps + 1):
        begun = time.perf_counter()
        loss = F.cross_entropy(built.logits(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begun)
    memory = peak_memory() - before
    prompt, decoded = ids[:1, : shape.window // 2], []
    built.decode(prompt, 2)  # what is compiled on first use is compiled here
    for _ in range(TIMES):
        begun = time.perf_counter()
        built.decode(prompt, shape.new)
        decoded.append(time.perf_counter() - begun)
    return {
        "parameters": sum(p.numel() for p in parameters),
        "train": rows * shape.window / statistics.median(times[1:]),
        "memory": memory,
        "decode": shape.new / statistics.median(decoded),
    }


def peak_memory() -> float:
    """Peak resident memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@torch.inference_mode()
def check_textbook(shape: Shape) -> None:
    """The textbook's network gives the logits of ours, so it is the same work that is timed."""
    ids = torch.randint(4, VOCABULARY, (1, 200))
    got, expected = ours(shape, "skew").eval()(ids), ours(shape).eval()(ids)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def table(shape: Shape, rows: int, steps: int, only: Sequence[str]) -> int:
    check_textbook(shape)
    threads = torch.get_num_threads()
    print(f"{shape}, {rows} rows, {threads} threads, torch {torch.__version__}\n")
    print(f"{'':44} {'parameters':>11} {'train tok/s':>12} {'memory MB':>10} {'decode tok/s':>13}")
    failed = 0
    for case in only:
        if case not in CASES:
            raise UserError(f"only={case}: expected some of {', '.join(CASES)}")
        name, package, _ = CASES[case]
        if importlib.util.find_spec(package) is None:
            print(f"{name:44} not installed")
            continue
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            job = pool.submit(measured, case, shape, rows, steps, threads)
            if error := job.exception():
                failed += 1
                print(f"{name:44} failed: {short(error)}")
                continue
        numbers = job.result()
        print(
            f"{name:44} {numbers['parameters']:>11,} {numbers['train']:>12,.0f} "
            f"{numbers['memory']:>10,.0f} {numbers['decode']:>13,.1f}",
            flush=True,
        )
    return int(bool(failed))


def decoding(
    shape: Shape, rows: Sequence[int], prompt: int, device: torch.device, dtype: str,
    budget: float, results: Path | None,
) -> None:  # fmt: skip
    """The table of decoding; what takes long to compile comes last."""
    torch.manual_seed(0)
    ids, lines = torch.randint(4, 300, (prompt,), device=device), []
    for name, build in DECODING.items():
        if name == "piano" and shape.window < 1024:  # a rehearsal
            continue
        built: Network | None = None
        for count in rows:
            try:
                if seconds() > budget:
                    raise TimeoutError("no time left")
                if built is None:
                    built = build(shape)
                    built.module.to(device, getattr(torch, dtype)).eval()
                given = ids.expand(count, -1).contiguous()
                times = timed(built, given, shape.new, device)
            except Exception as error:
                lines.append(f"{name:18} {count:5}  {short(error)}")
                continue
            low, middle, high = spread(times)
            line = f"{name:18} {count:5} {middle:9.3f} ({low:.3f}-{high:.3f})"
            lines.append(f"{line:50}{1e3 * count / middle:10,.0f}")
            record(
                results, device, times, implementation=f"decode {name}", batch=count,
                heads=shape.heads, length=prompt, size=shape.width // shape.heads, dtype=dtype,
                **{"pass": "step"},
            )  # fmt: skip
            say(f"{name}, {count} rows")
    print(f"\n{'decoding':18} {'rows':>5} {'ms a step':>9}{'tokens/s':>26}")
    print("\n".join(lines), flush=True)


def timed(built: Network, given: Tensor, new: int, device: torch.device) -> list[float]:
    """Sorted milliseconds a step: all ids less the first one."""

    def took(count: int) -> float:
        return milliseconds(lambda: built.decode(given, count), device)

    took(new)
    return sorted((took(new) - took(1)) / (new - 1) for _ in range(TIMES))


def main(  # noqa: PLR0913 - the words of the script
    layers: int = 6,
    width: int = 256,
    heads: int = 4,
    window: int = 1024,
    rows: int = 2,
    steps: int = 5,
    new: int = 128,
    threads: int = 0,
    only: Sequence[str] = tuple(CASES),
    decode: Sequence[int] = (),
    prompt: int = 512,
    device: str = "cpu",
    dtype: str = "float32",
    budget: float = 600,
    results: Path | None = None,
    rehearse: bool = False,
) -> int:
    if rehearse:
        layers, width, heads, window, steps, new, prompt = 2, 32, 2, 64, 1, 8, 20
    torch.set_num_threads(threads or torch.get_num_threads())
    shape = Shape(layers, width, heads, window, new, prompt + new)
    if not decode:
        return table(shape, rows, steps, only)
    decoding(shape, decode, prompt, torch.device(device), dtype, budget, results)
    return 0


if __name__ == "__main__":
    run(main)
