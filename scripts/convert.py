"""Model folders of an older musictx, with a config.yaml, in the format of this one.

    python -m scripts.convert FOLDER...

Writes config.json and removes config.yaml; all other files stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

from musictx import bundle
from musictx.files import write_text
from musictx.shipped import OLD_CONFIG
from scripts.harness import run


def main(*folders: str) -> None:
    for folder in map(Path, folders):
        config = bundle.read_config(folder)
        text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
        write_text(folder / "config.json", text)
        (folder / OLD_CONFIG).unlink(missing_ok=True)


if __name__ == "__main__":
    run(main)
