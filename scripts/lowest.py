"""The lowest version of each dependency that pyproject.toml allows, as constraints for pip.

python -m scripts.lowest > lowest.txt && pip install -c lowest.txt -e ".[bach,mcp,studio]"
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

#: Extras that people use musictx with; the others are tools of its development.
EXTRAS = ("bach", "mcp", "live", "studio", "hub", "plot")


def lowest() -> list[str]:
    """``name==version`` for each dependency of musictx and :data:`EXTRAS` that says ``>=``."""
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = (one for name in EXTRAS for one in project["optional-dependencies"][name])
    bounds = (re.match(r"([\w-]+)>=([\w.]+)", one) for one in (*project["dependencies"], *extras))
    return sorted({f"{one[1]}=={one[2]}" for one in bounds if one})


if __name__ == "__main__":
    print("\n".join(lowest()))
