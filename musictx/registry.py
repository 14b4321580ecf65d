"""The registry of what optional components add, by import path.

``chorale``, ``evaluate``, ``live``, ``mcp``, ``musicxml``, ``render``, ``songs``, ``speed`` and
``studio`` are optional components: the core never imports them (``lint-imports`` checks this) and
works without their folders. The tables below map names to ``package.module:Name`` or
``package.module``, which is imported when it is first used. The entries of a missing component are
left out (:class:`Table`). Commands are in ``musictx/commands.py``.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def is_present(path: str) -> bool:
    """Whether the folder of the component of an import path exists."""
    return (_HERE / path.split(".")[1]).is_dir()


class Table(dict[str, str]):
    """Name -> import path, for those ``paths`` whose component is present."""

    def __init__(self, **paths: str) -> None:
        super().__init__({name: path for name, path in paths.items() if is_present(path)})
        self._paths = paths

    def missing_message(self, name: str) -> str:
        """Return the end of an error message about ``name``, whose component is missing."""
        folder = "/".join(self._paths[name].split(".")[:2])
        return f"expected the folder {folder}, which is missing"


#: Classes for ``tokenizer.name``.
TOKENIZERS = Table(
    notes="musictx.songs.bar_tokens:BarTokenizer",
    chorale="musictx.chorale.tokenizer:ChoraleTokenizer",
)
#: Classes for ``corpus.name``.
CORPORA = Table(
    bach="musictx.chorale.corpora:BachChorales",
    jsb="musictx.chorale.corpora:Published",
)
#: Classes for the names in ``model.features``.
FEATURES = Table(
    bars="musictx.songs.features.bars:EarlierBars",
    ahead="musictx.songs.features.lookahead:Lookahead",
    harmony="musictx.songs.features.harmony:Harmony",
    intervals="musictx.chorale.features.intervals:Intervals",
    ages="musictx.chorale.features.note_ages:NoteAges",
    repeats="musictx.chorale.features.repeats:Repeats",
    counterpoint="musictx.chorale.features.counterpoint:Counterpoint",
    token_noise="musictx.chorale.features.noise:TokenNoise",
    calibration="musictx.chorale.features.calibration:Calibration",
)
#: Modules for ``model.attention``, the fastest first; ``attention/api.py`` lists their members.
ATTENTION = Table(
    native="musictx.speed.native",
    fused="musictx.speed.fused",
    chunked="musictx.speed.chunked",
)
#: The implementation of attention for a single query over earlier keys.
DECODING = Table(decode="musictx.speed.single_query")
#: Classes that let the layers process a group of ids as one token (``model.transformer``).
GROUPS = Table(cascade="musictx.songs.grouped:Cascade")
#: Faster implementations of a step of decoding for ``sampling.engine.Decoder``, in order of
#: preference. Their interface is that of ``NativeStep``.
STEPS = Table(native="musictx.speed.step:NativeStep")
#: What can be accompanied other than a melody -> the function (score, options) that returns the
#: ``apps.tasks.Task``.
CHARTS = Table(chords="musictx.songs.infill:under_chords")
#: Tokenizer -> the class of its training tasks (``data.tasks.Tasks``).
TRAINING_TASKS = Table(notes="musictx.songs.bar_tasks:BarTasks")
#: The function that tracks beats in a Score without usable tempo marks (``grid.in_time``).
TRACKERS = Table(beats="musictx.songs.tracking:track_beats")
#: Measures and distributions of ``compare`` for music on a grid.
IN_BARS = Table(
    measures="musictx.songs.measures:MEASURES",
    distributions="musictx.songs.measures:DISTRIBUTIONS",
)
#: The class that reads many events of a MIDI track at once (``midi/scan.py``).
SCANNERS = Table(midi="musictx.speed.stretches:Stretches")
#: Modules that read files other than MIDI.
READERS = Table(chords="musictx.songs.chord_files", notation="musictx.musicxml")
#: Ending of a file name -> the function (score, path, **options) that writes sound or an image.
#: Images have the options ``seam`` and ``end``, the seconds at which new music begins and ends.
WRITERS = Table(**{".wav": "musictx.render.audio:write", ".png": "musictx.render.pianoroll:draw"})
#: Measures of ``compare`` for a kind of music: subclasses of ``evaluate.compare.GeneralMeasures``.
MEASURES = Table(chorales="musictx.chorale.evaluation:ChoraleMeasures")
#: Tasks of ``compare`` with these measures -> the function that returns a sample for each piece.
TASKS = Table(harmonise="musictx.chorale.evaluation:harmonised")
#: Heading in the report of doctor -> the function that returns a sentence about this machine.
CHECKS = Table(
    **{
        "MIDI ports": "musictx.live.ports:check",
        "C++": "musictx.speed.native:check",
        "compiler": "musictx.speed.native.build:check",
        "browser": "musictx.studio.program:check",
    }
)
#: The folders ``conf`` and ``models`` of the components: YAML files of options; included models.
CONF, MODELS = (
    [folder for package in ("chorale", "songs") if (folder := _HERE / package / name).is_dir()]
    for name in ("conf", "models")
)


def load(path: str) -> Any:
    """Import ``package.module:Name``, or the module ``package.module``. Raises ``ImportError`` or
    ``AttributeError``."""
    module, _, attribute = path.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
