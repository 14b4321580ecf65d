"""The registry: what the optional components of musictx add, by import path.

``chorale``, ``evaluate``, ``live``, ``mcp``, ``musicxml``, ``render``, ``songs``, ``speed`` and
``studio`` are optional components: the core never imports them (``lint-imports`` checks this) and
works without their folders. What they add stands in the tables below, name ->
``package.module:Name`` or ``package.module``, and is imported when it is first used (their commands
stand in ``musictx/commands.py``). The tables hold what is there: where a folder is missing, so are
its entries.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def is_present(path: str) -> bool:
    """Whether the folder of the component that an import path leads to is there."""
    return (_HERE / path.split(".")[1]).is_dir()


def _present(**paths: str) -> dict[str, str]:
    return {name: path for name, path in paths.items() if is_present(path)}


#: Classes for ``tokenizer.name``.
TOKENIZERS = _present(
    notes="musictx.songs.bar_tokens:BarTokenizer",
    chorale="musictx.chorale.tokenizer:ChoraleTokenizer",
)
#: Classes for ``corpus.name``.
CORPORA = _present(
    bach="musictx.chorale.corpora:BachChorales",
    jsb="musictx.chorale.corpora:Published",
)
#: Classes for the names in ``model.features``.
FEATURES = _present(
    bars="musictx.songs.features.bars:Bars",
    ahead="musictx.songs.features.lookahead:Lookahead",
    harmony="musictx.songs.features.harmony:Harmony",
    intervals="musictx.chorale.features.intervals:Intervals",
    ages="musictx.chorale.features.note_ages:NoteAges",
    repeats="musictx.chorale.features.repeats:Repeats",
    counterpoint="musictx.chorale.features.counterpoint:Counterpoint",
    token_noise="musictx.chorale.features.noise:TokenNoise",
    calibration="musictx.chorale.features.calibration:Calibration",
)
#: Modules for ``model.attention``, the fastest first (``attention/api.py`` says what they have).
ATTENTION = _present(
    native="musictx.speed.native",
    fused="musictx.speed.fused",
    chunked="musictx.speed.chunked",
)
#: The implementation that computes a single query over earlier keys for those above.
DECODING = _present(decode="musictx.speed.decode")
#: What takes a group of ids as one step of the layers (``model.transformer``).
GROUPS = _present(cascade="musictx.songs.grouped:Cascade")
#: Faster forms of a step of decoding, tried in this order (``sampling.engine.Step``).
STEPS = _present(native="musictx.speed.step:NativeStep")
#: Tokenizer -> the class of its idiom, how music is composed in it (``sampling/idiom.py``).
IDIOMS = _present(notes="musictx.songs.idiom:BarIdiom")
#: Tokenizer -> the class of what fills gaps of a piece with it (``apps.infill.Filler``).
FILLERS = _present(notes="musictx.songs.infill:BarFiller", chorale="musictx.chorale.app:GapFiller")
#: Tokenizer -> the function that composes pieces by a form, and loops (``apps.generate.pieces``).
PIECES = _present(notes="musictx.songs.generate:pieces")
#: What is accompanied besides melodies -> function (score, options) that says what is to be
#: composed (``apps.tasks.Task``).
CHARTS = _present(chords="musictx.songs.infill:under_chords")
#: Tokenizer -> the class that arranges its training windows (``data.tasks.Tasks``).
ARRANGED = _present(notes="musictx.songs.bar_tasks:BarTasks")
#: Score -> the beats of music that keeps to none of its file (``grid.in_time``).
TRACKERS = _present(beats="musictx.songs.tracking:tracked")
#: What compare measures of music on a grid: a table of measures, and one of distributions.
IN_BARS = _present(
    measures="musictx.songs.measures:MEASURES",
    distributions="musictx.songs.measures:DISTRIBUTIONS",
)
#: The class that reads many events of a MIDI track at once (``midi/scan.py``).
SCANNERS = _present(midi="musictx.speed.stretches:Stretches")
#: Files that are no MIDI -> the module that reads them.
READERS = _present(chords="musictx.songs.chord_files", notation="musictx.musicxml")
#: Ending of a file name -> function (score, path, **more) that writes a file of sound or a picture;
#: a picture takes ``seam``, the second at which new music begins.
WRITERS = _present(
    **{".wav": "musictx.render.audio:write", ".png": "musictx.render.pianoroll:draw"}
)
#: Classes derived from ``evaluate.compare.AnyMusic``: what compare measures of some music.
MEASURES = _present(chorales="musictx.chorale.evaluation:ChoraleMeasures")
#: Tasks of compare that only certain measures have -> the function that makes a sample for each of
#: their pieces.
TASKS = _present(harmonise="musictx.chorale.evaluation:harmonised")
#: What doctor calls it -> function that says in a sentence what this machine has.
CHECKS = _present(
    **{
        "MIDI ports": "musictx.live.ports:check",
        "C++": "musictx.speed.native:check",
        "compiler": "musictx.speed.native.build:check",
        "browser": "musictx.studio.program:check",
    }
)
#: Folders of YAML files, which join those of ``conf/``; and of model folders.
CONF, MODELS = (
    [folder for room in ("chorale", "songs") if (folder := _HERE / room / name).is_dir()]
    for name in ("conf", "models")
)


def load(path: str) -> Any:
    """The object at an import path ``package.module:Name``, or the module ``package.module``.

    Raises ``ImportError`` or ``AttributeError`` as Python does."""
    module, _, attribute = path.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
