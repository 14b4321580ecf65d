"""``musictx export``: one step of decoding as an ONNX file."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from musictx import shipped
from musictx.config import ExportConfig
from musictx.errors import UserError
from musictx.files import check_writable, write_bytes

NEEDED = ("onnx", "onnxscript")


def run(config: ExportConfig) -> Path:
    """Write the graph and its metadata; returns the path, printed too.

    ``UserError`` where a package is missing or the name does not end in .onnx; ``WriteError`` for a
    place that cannot be written.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(
            f"export: {' and '.join(missing)} missing; install with pip install 'musictx[export]'"
        )
    folder = shipped.chosen(config.model.path)
    out = Path(config.out or f"{shipped.name_of(folder)}.onnx").expanduser()
    if out.suffix != ".onnx":
        raise UserError(f"out={config.out}: expected the name of a file that ends in .onnx")
    check_writable(out.parent, "out")
    from musictx import bundle  # torch, after all that can be wrong
    from musictx.model import exported

    loaded = bundle.load(folder, device="cpu", weights=config.model.weights)
    capacity = config.context or int(loaded.model.config["context"])
    step = exported.Step(loaded.model, rows=config.rows, capacity=capacity)
    tokens = loaded.tokenizer
    metadata = {
        "musictx.tokenizer": json.dumps(tokens.to_config()),
        "musictx.fingerprint": tokens.fingerprint,
        "musictx.licence": str(loaded.card.get("licence", "")),
    }
    write_bytes(out, exported.onnx(step, metadata))
    print(out, flush=True)
    return out
