"""The lowest version of each dependency that pyproject.toml allows, as constraints for pip.

python -m scripts.lowest > lowest.txt && pip install -c lowest.txt -e ".[bach,mcp,studio]"
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

#: Extras for users; the other extras are for development.
EXTRAS = ("bach", "mcp", "live", "studio", "hub", "plot")


def lowest() -> list[str]:
    """``name==version`` for each dependency of musictx and :data:`EXTRAS` with a ``>=``."""
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = (line for name in EXTRAS for line in project["optional-dependencies"][name])
    matches = (re.match(r"([\w-]+)>=([\w.]+)", x) for x in (*project["dependencies"], *extras))
    return sorted({f"{match[1]}=={match[2]}" for match in matches if match})


if __name__ == "__main__":
    print("\n".join(lowest()))
