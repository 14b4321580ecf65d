"""musictx and other ways to get a music transformer: training step, memory, decoding.

    pip install x-transformers transformers          # not needed by musictx itself
    python -m scripts.bench.others                   # a table; nothing else should run meanwhile
    python -m scripts.bench.others only=musictx,textbook window=512 threads=1
    python -m scripts.bench.others rehearse=true     # tiny, within seconds
    python -m scripts.bench.others device=cuda dtype=bfloat16 steps=0 decode=256,64,1 layers=7 \
        width=320 heads=5 window=2048 new=64 results=FILE.csv    # decoding alone

Every network has the same shape (``layers= width= heads=``), vocabulary and window; tokens are
random, weights in ``dtype``, the optimizer AdamW. Each runs in a process of its own and reports

    train     tokens a second of whole steps (forward, backward, optimizer), median of ``steps``
    memory    peak resident memory of those steps beyond what the process held before, MB
    decode    for so many rows new tokens a second, after a prompt of half a window, median of three

``textbook`` is what published PyTorch versions of the Music Transformer do: the skew with L x L
logits for each head, and no cache, so the prefix is computed again for every token. It is computed
here by musictx with ``attention=skew``, whose logits are compared with those of ``musictx`` first.
``compiled`` is GPT-2 with a static cache, by ``torch.compile``. A package that is not installed is
named and left out.
"""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import resource
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from musictx.errors import UserError
from musictx.model import MusicTransformer
from musictx.sampling import engine
from scripts.bench.common import milliseconds, record, short, spread
from scripts.harness import run

VOCABULARY, EOS = 392, 2
TIMES = 3


@dataclass(frozen=True)
class Shape:
    """Of every network; ``new`` ids are decoded."""

    layers: int
    width: int
    heads: int
    window: int
    new: int
    device: str = "cpu"
    dtype: str = "float32"


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


def musictx(shape: Shape) -> Network:
    model = ours(shape)

    def endless(ids: Tensor, logits: Tensor) -> Tensor:
        return logits.index_fill(1, torch.tensor([EOS]), -torch.inf)

    def decode(prompt: Tensor, new: int) -> object:
        options = {"max_tokens": new, "seeds": range(len(prompt)), "processors": [endless]}
        ids = list(engine.generate(model.eval(), prompt[0].cpu(), **options))
        assert len(ids) == new
        return ids

    return Network(model, model, decode)


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
            cache = StaticCache(model.config, max_cache_len=shape.window // 2 + shape.new)
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
    "compiled": ("the same by torch.compile", "transformers", partial(transformers, compiled=True)),
}
USUAL = tuple(name for name in CASES if name != "compiled")

# --------------------------------------------------------------------------------------- measured


def measured(
    case: str, shape: Shape, rows: int, steps: int, threads: int, decode: Sequence[int] = (1,)
) -> tuple[int, float, float, dict[int, list[float]]]:
    """Of a network in this process: parameters, tokens a second of training, memory of that in MB,
    and for each number of rows sorted milliseconds of decoding a token."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    built, device = CASES[case][2](shape), torch.device(shape.device)
    built.module.to(device, getattr(torch, shape.dtype))
    parameters = list(built.module.parameters())
    ids = torch.randint(4, VOCABULARY, (max(rows, *decode), shape.window + 1), device=device)
    before = peak_memory()
    times = trained(built, parameters, ids[:rows], steps, device) if steps else [math.nan]
    memory, decoded = peak_memory() - before, {}
    built.module.eval()
    for count in decode:
        prompt = ids[:1, : shape.window // 2].expand(count, -1).contiguous()
        built.decode(prompt, shape.new)  # what is compiled on first use is compiled here
        act = partial(built.decode, prompt, shape.new)
        decoded[count] = sorted(milliseconds(act, device) / shape.new for _ in range(TIMES))
    rate = rows * shape.window / statistics.median(times) * 1e3
    return sum(p.numel() for p in parameters), rate, memory, decoded


def trained(
    built: Network, parameters: list[nn.Parameter], ids: Tensor, steps: int, device: torch.device
) -> list[float]:
    """Milliseconds of each of so many steps after a first one."""
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)

    def step() -> None:
        loss = F.cross_entropy(built.logits(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return [milliseconds(step, device) for _ in range(steps + 1)][1:]


def peak_memory() -> float:
    """Peak resident memory of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@torch.inference_mode()
def check_textbook(shape: Shape) -> None:
    """The textbook's network gives the logits of ours, so it is the same work that is timed."""
    ids = torch.randint(4, VOCABULARY, (1, 200))
    got, expected = ours(shape, "skew").eval()(ids), ours(shape).eval()(ids)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def main(  # noqa: PLR0913 - the words of the script
    layers: int = 6,
    width: int = 256,
    heads: int = 4,
    window: int = 1024,
    rows: int = 2,
    steps: int = 5,
    new: int = 128,
    decode: Sequence[int] = (1,),
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 0,
    only: Sequence[str] = USUAL,
    results: Path | None = None,
    rehearse: bool = False,
) -> int:
    if rehearse:
        layers, width, heads, window, steps, new = 2, 32, 2, 64, 1, 8
    if unknown := [case for case in only if case not in CASES]:
        raise UserError(f"only={unknown[0]}: expected some of {', '.join(CASES)}")
    torch.set_num_threads(threads or torch.get_num_threads())
    shape = Shape(layers, width, heads, window, new, device, dtype)
    check_textbook(shape)
    print(f"{shape}, {rows} rows, {torch.get_num_threads()} threads, torch {torch.__version__}\n")
    columns = "".join(f"{f'decode {count}':>12}" for count in decode)
    print(f"{'':44}{'parameters':>11}{'train tok/s':>12}{'memory MB':>10}{columns} tok/s")
    failed = 0
    for case in only:
        name, package, _ = CASES[case]
        if importlib.util.find_spec(package) is None:
            print(f"{name:44} not installed")
            continue
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            given = (case, shape, rows, steps, torch.get_num_threads(), decode)
            job = pool.submit(measured, *given)
            if error := job.exception():
                failed += 1
                print(f"{name:44} failed: {short(error)}")
                continue
        parameters, rate, memory, decoded = job.result()
        rates = "".join(f"{1e3 * n / spread(ms)[1]:12,.1f}" for n, ms in decoded.items())
        print(f"{name:44}{parameters:11,}{rate:12,.0f}{memory:10,.0f}{rates}", flush=True)
        for count, times in decoded.items():
            record(
                results, torch.device(device), times, implementation=f"decode {case}", batch=count,
                heads=heads, length=window // 2, size=width // heads, dtype=dtype,
                **{"pass": "step"},
            )  # fmt: skip
    return int(bool(failed))


if __name__ == "__main__":
    run(main)
