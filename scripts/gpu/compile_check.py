"""What the compiler makes of the kernels of attention and decoding for Hopper: no GPU needed.

    python scripts/gpu/compile_check.py             # the configurations worth measuring
    python scripts/gpu/compile_check.py quick=true  # the defaults only

Registers for each thread (255 at most), bytes spilled to memory, shared memory of a program (228
KiB to a multiprocessor), and instructions that tell whether a kernel is what it should be: wgmma
(the matrix units of Hopper), cp.async (loads ahead), shuffles (the gather of plan A), atomic
additions four numbers wide.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from musictx.attention.fused.config import Config, Tile, choose
from musictx.attention.fused.offline import Report, check_decoding, compile_kernel, kernels

#: Tiles to look at beside the defaults, for each pass, at head_dim 64 in bfloat16.
ALTERNATIVES = {
    "forward": ("panel-64x64w4s3", "panel-128x128w8s2", "gather-64x64w4s3", "gather-64x64w4s2"),
    "backward_query": ("panel-64x64w8s2", "panel-64x64w4s1", "gather-64x64w4s2"),
    "backward_key": ("gather-64x64w8s2", "gather-64x64w4s1", "panel-64x64w4s2"),
}


#: What schemes and options ask of the kernel beside the default, at head_dim 64 in bfloat16.
VARIANTS: dict[str, dict[str, bool]] = {
    "packed+dropout": {"PACKED": True, "DROP": True},
    "deterministic": {"FIXED": True},
    "transformer_xl": {"POSITION": True},
    "local": {"PACKED": True, "LOCAL": True},
    "shaw": {"VALUES": True},
    "full": {"CAUSAL": False, "EDGE": True},
    "full shaw": {"CAUSAL": False, "EDGE": True, "VALUES": True},
    "bias": {"TABLE": False, "BIAS": True, "BIAS_GRADIENT": True},
}


def show(what: str, tile: Tile | str, report: Report) -> None:
    print(
        f"{what:22} {report.kernel:15} {tile!s:20} {report.registers:5} {report.spilled:8} "
        f"{report.shared / 1024:9.1f} {report.wgmma:6} {report.cp_async:9} {report.shfl:8} "
        f"{report.wide_atomics:11}",
        flush=True,
    )


def main() -> None:
    quick = "quick=true" in sys.argv[1:]
    print(
        f"{'inputs':22} {'kernel':15} {'tile':20} {'regs':>5} {'spilled':>8} {'shared K':>9} "
        f"{'wgmma':>6} {'cp.async':>9} {'shuffles':>8} {'4w atomics':>11}"
    )
    half = torch.bfloat16
    variants = [("", half, 64, {})]
    if not quick:
        variants += [("", half, 32, {}), ("", half, 128, {}), ("", torch.float32, 64, {})]
        variants += [(name, half, 64, features) for name, features in VARIANTS.items()]
    for what, dtype, head_dim, features in variants:
        config = choose("", dtype, head_dim, features.get("VALUES", False))
        name = f"{str(dtype).removeprefix('torch.').replace('float', 'f')} {head_dim} {what}"
        for kernel, made, constants, tile in kernels(config, dtype, head_dim, **features):
            show(name, tile, compile_kernel(kernel, made, constants, tile, dtype))
    for report in check_decoding(half, 64):
        show("bf16 64 decoding", "", report)
    for wanted, tiles in {} if quick else ALTERNATIVES.items():
        for text in tiles:
            tile = Tile.parse(text)
            for name, kernel, constants, _ in kernels(Config(tile, tile, tile), half, 64):
                if name == wanted:
                    show("bf16 64", tile, compile_kernel(name, kernel, constants, tile, half))


if __name__ == "__main__":
    main()
