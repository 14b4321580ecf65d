"""The doors of the core: how a wing adds tokenizers, corpora, features, commands and fast paths.

A *wing* is a package that the core can do without. It says what it adds in one small module that
imports nothing heavy: a folder of musictx holds a ``wing.py`` with a constant ``WING``; any other
installed package names such a constant in the entry-point group ``musictx.wings``:

    [project.entry-points."musictx.wings"]
    kerple = "kerple.wing:WING"

What a wing adds is named by import path, ``package.module:Name`` or ``package.module``, and
imported when it is first used. The core asks this module and names no wing; without a wing's folder
the rest still works.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

#: The entry-point group in which other packages name their wings.
GROUP = "musictx.wings"


@dataclass(frozen=True)
class Wing:
    """What one wing adds; each mapping is name -> import path ``package.module:Name``.

    name        of the wing, such as "chorale"
    tokenizers  classes for ``tokenizer.name``
    corpora     classes for ``corpus.name``
    features    classes for the names in ``model.features``
    attention   modules for ``model.attention``, the fastest first (``attention/api.py`` says what
                they have); one named decode takes single queries over earlier keys
    steps       faster forms of one step of decoding, tried in this order (``sampling/engine.py``:
                ``Step``)
    commands    what commands say of themselves (``config.command.Command``), by the word typed
    fills       functions that write gaps of a piece in their own way, by the name of a tokenizer
                (``apps/infill.py`` says how they are called)
    writers     functions (score, path, **more) that write a file of sound or of a picture, by the
                ending of its name (``formats.writer``); a picture takes ``seam``, the second at
                which new music begins
    measures    classes of ``apps.wing_measures.WingMeasures`` for ``measures`` of compare
    checks      functions that say in a sentence what this machine has, by what doctor calls it
    tasks       of compare that only certain measures know: task -> name of the measures
    conf        package whose YAML files join those of conf/, "" for none; a position scheme needs
                no more: position/NAME.yaml with its import path
    models      folder of model folders that come along, None for none
    """

    name: str
    tokenizers: dict[str, str] = field(default_factory=dict)
    corpora: dict[str, str] = field(default_factory=dict)
    features: dict[str, str] = field(default_factory=dict)
    attention: dict[str, str] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    fills: dict[str, str] = field(default_factory=dict)
    writers: dict[str, str] = field(default_factory=dict)
    measures: dict[str, str] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    conf: str = ""
    models: Path | None = None


@cache
def own() -> tuple[Wing, ...]:
    """The wings whose folders stand inside musictx, by name."""
    here = Path(__file__).parent
    names = sorted(module.name for module in pkgutil.iter_modules([str(here)]) if module.ispkg)
    return tuple(
        importlib.import_module(f"musictx.{name}.wing").WING
        for name in names
        if (here / name / "wing.py").is_file()
    )


@cache
def foreign() -> tuple[Wing, ...]:
    """The wings of other installed packages. Slower to find than our own: asked for second."""
    return tuple(point.load() for point in entry_points(group=GROUP))


def every() -> tuple[Wing, ...]:
    """All wings: our own, then those of other packages."""
    return (*own(), *foreign())


def conf_folders() -> list[Path]:
    """The folders of YAML files that wings add to those of ``conf/``."""
    specs = [importlib.util.find_spec(wing.conf) for wing in every() if wing.conf]
    places = [spec.submodule_search_locations for spec in specs if spec is not None]
    return [Path(next(iter(place))) for place in places if place]


def everywhere(door: str) -> dict[str, str]:
    """Name -> import path of all that wings add at ``door``, a mapping of :class:`Wing`."""
    found: dict[str, str] = {}
    for wing in (*foreign(), *own()):
        found.update(getattr(wing, door))
    return found


def place(door: str, name: str) -> str | None:
    """The import path of ``name`` at ``door``; ``None`` where no wing adds it."""
    for wings in (own, foreign):
        for wing in wings():
            path: str | None = getattr(wing, door).get(name)
            if path is not None:
                return path
    return None


def load(path: str) -> Any:
    """The object at an import path ``package.module:Name``, or the module ``package.module``.

    Raises ``ImportError`` or ``AttributeError`` as Python does."""
    module, _, attribute = path.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found
