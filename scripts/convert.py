"""Model folders of an older musictx, with a config.yaml, in the format of this one.

    python -m scripts.convert FOLDER...

Writes config.json and removes config.yaml; all other files stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from musictx.files import write_text
from scripts.harness import run


def main(*folders: str) -> None:
    for folder in map(Path, folders):
        config = yaml.safe_load((folder / "config.yaml").read_bytes()) | {"format": 3}
        text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
        write_text(folder / "config.json", text)
        (folder / "config.yaml").unlink()


if __name__ == "__main__":
    run(main)
