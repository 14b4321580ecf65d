"""Tables of the classes and functions that optional components add to the core.

The optional components are ``chorale``, ``evaluate``, ``live``, ``mcp``, ``musicxml``, ``render``,
``songs``, ``speed`` and ``studio``. The core does not import them (``lint-imports`` checks this)
and works without their folders. Each table maps a name to an import path,
``package.module:Name`` or ``package.module``, which is imported on first use. If the folder of a
component is missing, its entries are left out. Commands are in ``musictx/commands.py``.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def is_present(path: str) -> bool:
    """Whether the component of an import path is installed: its folder exists."""
    return (_HERE / path.split(".")[1]).is_dir()


def _present(**paths: str) -> dict[str, str]:
    """Keep the entries whose component is installed."""
    return {name: path for name, path in paths.items() if is_present(path)}


#: ``tokenizer.name`` -> tokenizer class.
TOKENIZERS = _present(
    notes="musictx.songs.bar_tokens:BarTokenizer",
    chorale="musictx.chorale.tokenizer:ChoraleTokenizer",
)
#: ``corpus.name`` -> corpus class.
CORPORA = _present(
    bach="musictx.chorale.corpora:BachChorales",
    jsb="musictx.chorale.corpora:Published",
)
#: Name in ``model.features`` -> feature class.
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
#: ``model.attention`` -> module (its members: ``attention/api.py``), the fastest first.
ATTENTION = _present(
    native="musictx.speed.native",
    fused="musictx.speed.fused",
    chunked="musictx.speed.chunked",
)
#: Attention module for decoding, where one query attends to the keys in the cache. The modules in
#: ``ATTENTION`` use it.
DECODING = _present(decode="musictx.speed.decode")
#: Class that lets the layers process a group of ids as one position (``model.transformer``).
GROUPS = _present(cascade="musictx.songs.grouped:Cascade")
#: Faster implementations of ``sampling.engine.Step``, a step of decoding, tried in this order.
STEPS = _present(native="musictx.speed.step:NativeStep")
#: Tokenizer -> subclass of ``sampling.idiom.Idiom``: how music is composed in these tokens.
IDIOMS = _present(notes="musictx.songs.idiom:BarIdiom")
#: Tokenizer -> class that fills gaps of a piece (``apps.infill.Filler``).
FILLERS = _present(notes="musictx.songs.infill:BarFiller", chorale="musictx.chorale.app:GapFiller")
#: Tokenizer -> function that composes pieces with a form, and loops (``apps.generate.pieces``).
PIECES = _present(notes="musictx.songs.generate:pieces")
#: Kind of input of ``accompany`` other than a melody -> function (score, options) that returns the
#: ``apps.tasks.Task``.
CHARTS = _present(chords="musictx.songs.infill:under_chords")
#: Tokenizer -> class that builds its training windows (``data.tasks.Tasks``).
ARRANGED = _present(notes="musictx.songs.bar_tasks:BarTasks")
#: Function that tracks the beats of a Score whose notes are not on the beats of its file
#: (``grid.in_time``).
TRACKERS = _present(beats="musictx.songs.tracking:tracked")
#: Tables of the measures and distributions that ``compare`` computes for music on beats.
IN_BARS = _present(
    measures="musictx.songs.measures:MEASURES",
    distributions="musictx.songs.measures:DISTRIBUTIONS",
)
#: Class that reads many events of a MIDI track at once (``midi/scan.py``).
SCANNERS = _present(midi="musictx.speed.stretches:Stretches")
#: Format other than MIDI -> module that reads it.
READERS = _present(chords="musictx.songs.chord_files", notation="musictx.musicxml")
#: Ending of a file name -> function (score, path, **options) that writes sound or a picture. For
#: pictures the option ``seam`` is the second at which generated music begins.
WRITERS = _present(
    **{".wav": "musictx.render.audio:write", ".png": "musictx.render.pianoroll:draw"}
)
#: Kind of music -> subclass of ``evaluate.compare.AnyMusic``: what ``compare`` measures.
MEASURES = _present(chorales="musictx.chorale.evaluation:ChoraleMeasures")
#: Task of ``compare`` that is specific to some measures -> function that makes a sample for each
#: piece.
TASKS = _present(harmonise="musictx.chorale.evaluation:harmonised")
#: Label in the report of ``doctor`` -> function that describes this machine in a sentence.
CHECKS = _present(
    **{
        "MIDI ports": "musictx.live.ports:check",
        "C++": "musictx.speed.native:check",
        "compiler": "musictx.speed.native.build:check",
        "browser": "musictx.studio.program:check",
    }
)
#: Folders of YAML files in addition to ``conf/``, and folders that contain model folders.
CONF, MODELS = (
    [folder for part in ("chorale", "songs") if (folder := _HERE / part / name).is_dir()]
    for name in ("conf", "models")
)


def load(path: str) -> Any:
    """Import the object ``package.module:Name``, or the module ``package.module``.

    Raises ``ImportError`` or ``AttributeError``."""
    module, _, attribute = path.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
