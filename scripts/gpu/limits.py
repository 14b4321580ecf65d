"""What training and decoding cost at least, counted and not measured: no GPU needed.

    python scripts/gpu/limits.py [models=paper,large] [position=1024] [bandwidth=4.8e12] [rate=...]

Floating-point operations of a training step for each token (train_cases.operations_per_token), and
the bytes a step of decoding must read in bfloat16 (decode.bytes_of_a_step). Divided by ``rate``
(dense bfloat16 operations a second) and ``bandwidth`` (bytes a second), by default those of an
H200's data sheet, they are the fewest seconds; what is faster has been measured wrongly.
"""

from __future__ import annotations

import sys

from common import build, model_shape, several
from decode import bytes_of_a_step
from train_cases import operations_per_token

DEFAULTS = {"models": "paper,large", "position": "1024", "bandwidth": "4.8e12", "rate": "989.4e12"}


def main(words: list[str]) -> None:
    given = DEFAULTS | dict(word.split("=", 1) for word in words if "=" in word)
    position, bandwidth, rate = (float(given[x]) for x in ("position", "bandwidth", "rate"))
    for name in several(given["models"]):
        length = model_shape(name)["context"]
        model = build(name).bfloat16()
        work = operations_per_token(model, length)
        total = sum(work.values())
        count = sum(p.numel() for p in model.parameters())
        print(f"{name}: {count:,} parameters, rows of {length} tokens")
        print(
            f"  training, operations a token: {total:.4g} ("
            + ", ".join(f"{what} {x:.4g}" for what, x in work.items())
            + f"), at most {rate / total:,.0f} tokens/s"
        )
        for rows in (1, 64, 256):
            read = bytes_of_a_step(model, rows, int(position))
            print(
                f"  decoding at position {position:.0f}, {rows} rows: "
                + ", ".join(f"{what} {x / 1e6:.4g} MB" for what, x in read.items())
                + f"; at most {rows * bandwidth / sum(read.values()):,.0f} tokens/s"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
