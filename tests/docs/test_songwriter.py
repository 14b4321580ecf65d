"""docs/recipes.md, thirty tasks of a songwriter: each command runs and keeps what it promises."""

from __future__ import annotations

import io
import re
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path

import mido
import numpy as np
import pytest

import musictx
from musictx import chords, cli
from musictx.beats import Beats
from musictx.midi.scan import track_chunks
from musictx.notes import METER, TEMPO, Score

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
TASKS = {
    int(number): command
    for number, command in re.findall(r"^(\d+)\. [^`\n]+: `(musictx [^`]+)` \(", PAGE, re.M)
}
BAR, QUARTER = 2.0, 0.5  # seconds: four bars of 4/4 at 120
TUNE = [72, 76, 79, 76, 69, 72, 76, 72, 65, 69, 72, 74, 67, 71, 74, 79]
ROOTS = [(48, (60, 64, 67)), (45, (57, 60, 64)), (41, (60, 65, 69)), (43, (59, 62, 67))]
SLASHES = ["C:maj", "G:maj/3", "A:min7", "N"]
ORDER = ["Lead", "Keys", "Bass", "Drums"]


def rows(what: str) -> list[tuple[float, float, int]]:
    """Start, end and pitch of the notes of a track."""
    if what == "Lead":
        return [(QUARTER * n, QUARTER * (n + 0.9), pitch) for n, pitch in enumerate(TUNE)]
    notes = []
    for bar, (root, triad) in enumerate(ROOTS):
        at = BAR * bar
        if what == "Keys":
            notes += [(at, at + 1.9, pitch) for pitch in triad]
        if what == "Bass":
            notes += [(at + QUARTER * n, at + QUARTER * n + 0.4, root - 12) for n in (0, 2, 3)]
        if what == "Drums":
            notes += [(at + n * QUARTER / 2, at + n * QUARTER / 2 + 0.1, 42) for n in range(8)]
            notes += [(at + n, at + n + 0.1, 36) for n in (0.0, 1.0)]
            notes += [(at + n, at + n + 0.1, 38) for n in (0.5, 1.5)]
    return sorted(notes)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the music that the page speaks of; the song has bends and controllers."""
    folder = tmp_path_factory.mktemp("songwriter")
    table = [
        (start, end, pitch, 80, program, name == "Drums", track)
        for track, (name, program) in enumerate(zip(ORDER, (80, 0, 33, 0)))
        for start, end, pitch in rows(name)
    ]
    marks = {"tempos": np.array([(0.0, 120.0)], TEMPO), "meters": np.array([(0.0, 4, 4)], METER)}
    song = Score(table, names=dict(enumerate(ORDER)), ticks_per_quarter=480, **marks)
    bent = mido.MidiFile(file=io.BytesIO(musictx.to_bytes(song)))
    for track in bent.tracks[1:]:
        channel = next(one.channel for one in track if one.type == "note_on")
        messages = [mido.Message("control_change", control=7, value=90, channel=channel)]
        messages += [mido.Message("pitchwheel", pitch=bend, channel=channel) for bend in (300, 0)]
        track[0:0] = messages
    bent.save(folder / "song.mid")
    lead = [(start, end, pitch, 80, 0, False, 0) for start, end, pitch in rows("Lead")]
    tune = Score(lead, names={0: "Tune"}, ticks_per_quarter=480, **marks)
    musictx.write(tune, folder / "tune.mid")
    symbols = tuple((BAR * n, name) for n, name in enumerate(("C:maj", "A:min", "F:maj", "G:maj")))
    musictx.write(replace(tune, markers=symbols), folder / "sheet.musicxml")
    return folder


class Made:
    """What a command printed and wrote, and what it was given."""

    def __init__(self, files: Path, here: Path, command: str, text: str, status: int) -> None:
        self.text, self.status = text, status
        self.paths = sorted(set(here.rglob("*.mid")) - set(map(here.joinpath, GIVEN)))
        self.given = musictx.read(here / next((n for n in GIVEN if n in command), "tune.mid"))
        self.scores = [musictx.read(path) for path in self.paths]
        self.data = (here / "song.mid").read_bytes()

    @property
    def score(self) -> Score:
        return self.scores[0]

    def track(self, name: str) -> np.ndarray:
        (number,) = [n for n, named in self.score.names.items() if named == name]
        return self.score.notes[self.score.notes["track"] == number]

    def new(self) -> np.ndarray:
        left, added = Counter(plain(self.given.notes)), []
        for note, key in zip(self.score.notes, plain(self.score.notes)):
            left[key] -= 1
            if left[key] < 0:
                added.append(note)
        return np.array(added, self.score.notes.dtype)

    def changed(self, markers: bool = False) -> set[str]:
        """Names of the song's tracks that are not what they were, byte for byte; the first, that of
        tempo and markers, has none."""
        before, after = chunks(self.data), chunks(self.paths[0].read_bytes())
        assert markers or after[0] == before[0]
        return {name for name, one, two in zip(ORDER, before[1:], after[1:]) if one != two}


GIVEN = ("song.mid", "tune.mid", "sheet.musicxml")


def chunks(data: bytes) -> list[bytes]:
    return [data[begin:end] for begin, end in track_chunks(data, Counter())]


def plain(notes: np.ndarray) -> list[tuple[int, int, int, bool]]:
    return [(round(one["start"] * 960), round(one["end"] * 960), int(one["pitch"]),
             bool(one["drum"])) for one in notes]  # fmt: skip


def one_at_a_time(notes: np.ndarray) -> bool:
    return len(notes) > 0 and bool((notes["end"][:-1] <= notes["start"][1:] + 1e-6).all())


def inside(notes: np.ndarray, begin: float, end: float) -> bool:
    return bool(((notes["start"] >= begin - 1e-6) & (notes["start"] < end - 1e-6)).all())


def in_chords(notes: np.ndarray, names: list[str], bar: float = BAR) -> float:
    """The share of ``notes`` that are tones of the chord of their bar."""
    tones = [chords.symbol(name).classes for name in names]
    bars = (notes["start"] / bar + 1e-6).astype(int) % len(names)
    return float(np.mean([pitch % 12 in tones[n] for n, pitch in zip(bars, notes["pitch"])]))


def named(score: Score) -> list[tuple[int, str]]:
    """Bar, from 0, and name of each chord marker."""
    clock = Beats(score)
    return [
        (clock.bar(float(clock.quarters(at)) + 1e-3)[0] - 1, text)
        for at, text in score.markers
        if chords.named(text) is not None
    ]


def drums(made: Made) -> np.ndarray:
    notes = made.track("Drums")
    assert notes["drum"].all()
    assert set(notes["pitch"].tolist()) <= {*range(35, 82)}
    return notes


def tune_stays(made: Made) -> bool:
    return not Counter(plain(made.given.notes)) - Counter(plain(made.score.notes))


def sections(score: Score) -> list[str]:
    return [text for _, text in score.markers if re.fullmatch(r"[A-M]'?", text)]


def composed_line(made: Made, name: str, begin: float = 0.0, end: float = 1e9) -> bool:
    """One note at a time in the track ``name``, which alone has changed, within these seconds."""
    line = one_at_a_time(made.track(name))
    return made.changed() <= {name} and line and inside(made.new(), begin, end)


def bass_of_the_sheet(made: Made) -> bool:
    """A bass of one line, mostly on the root of its sheet where a bar begins."""
    notes = made.track("Bass")
    first = notes[np.abs(notes["start"] / BAR - np.round(notes["start"] / BAR)) < 1e-3]
    roots = [(2, 7, 0, 0)[round(at / BAR) % 4] for at in first["start"]]
    return one_at_a_time(notes) and float(np.mean(first["pitch"] % 12 == roots)) >= 0.5


def on(notes: np.ndarray, parts: int) -> np.ndarray:
    """How far each note is from a line, of ``parts`` a quarter, in parts."""
    at = notes["start"] / QUARTER * parts
    return np.abs(at - np.round(at))


FOUR = ["C", "Am", "F", "G"]
#: What the page promises of each task; of the third a file of notation with chord symbols.
PROMISES = {
    1: lambda m: m.text.split("\n")[0].split() == ["|", "C", "|", "Am", "|", "F", "|", "G", "|"]
    and "Sections" in m.text,
    2: lambda m: not m.changed(markers=True)
    and named(m.score) == [(0, "C:maj"), (1, "A:min"), (2, "F:maj"), (3, "G:maj")],
    4: lambda m: len(m.new()) >= 4 and in_chords(m.score.notes, FOUR) > 0.85
    and 3 * BAR < m.score.duration < 5 * BAR,
    5: lambda m: named(m.score) == [(n, SLASHES[n % 4]) for n in range(8)],
    6: bass_of_the_sheet,
    7: lambda m: [name for _, name in named(m.score)] == ["F:maj", "Bb:maj"] * 2
    and in_chords(m.new(), ["F", "Bb"]) > 0.8 and tune_stays(m),
    8: lambda m: in_chords(m.new(), FOUR) > 0.8,
    9: lambda m: not m.changed() and one_at_a_time(m.new()),
    10: lambda m: len(drums(m)) > 8,
    11: lambda m: len(drums(m)) > 8
    and len({*(drums(m)["start"] / QUARTER).round(2).tolist()} & {*map(float, range(16))}) >= 12,
    12: lambda m: m.status == 2 and "jazz, latin" in m.text,
    13: lambda m: one_at_a_time(m.track("Bass")) and len(drums(m)) > 0,
    14: lambda m: one_at_a_time(m.track("Bass")) and len(drums(m)) and len(m.track("Piano")) > 0,
    15: lambda m: not m.changed() and set(m.track("Strings")["program"].tolist()) == {48},
    16: lambda m: len(m.new()) and m.new()["pitch"].max() <= 72,
    17: lambda m: one_at_a_time(m.track("Lead"))
    and set((m.new()["pitch"] % 12).tolist()) <= {0, 2, 4, 5, 7, 9, 11},
    18: lambda m: tune_stays(m) and len(m.new()) > 0,
    19: lambda m: len(m.scores) == 2 and plain(m.scores[0].notes) != plain(m.scores[1].notes),
    20: lambda m: composed_line(m, "Lead", BAR, 3 * BAR),
    21: lambda m: m.changed() <= {"Drums"} and inside(m.new(), 3 * BAR, 4 * BAR),
    22: lambda m: composed_line(m, "Bass")
    and np.abs(m.new()["pitch"].astype(int) - 32).max(initial=0) <= 8,
    23: lambda m: m.changed() <= {"Lead", "Bass"} and inside(m.new(), BAR, 2 * BAR),
    24: lambda m: m.changed() <= {"Keys"} and inside(m.new(), 4.0, 5.0),
    25: lambda m: "Drums" not in m.changed() and inside(m.new(), 2 * BAR, 3 * BAR),
    26: lambda m: inside(m.new(), 4 * BAR, 6 * BAR)
    and {*m.new()["program"].tolist()} <= {0, 33, 80},
    27: lambda m: len(m.score) and m.score.duration <= 2 * BAR + 1e-3,
    28: lambda m: sections(m.score) == ["A", "B", "A"]
    and not Counter(plain(m.given.notes[m.given.notes["start"] < BAR]))
    - Counter(plain(m.score.notes)),
    29: lambda m: sections(m.score) == ["A", "B"],
    30: lambda m: on(drums(m), 3).max() < 0.02,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize("number", TASKS)
def test_each_task_is_done_as_promised(number, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in GIVEN:
        (tmp_path / name).write_bytes((files / name).read_bytes())
    words = shlex.split(TASKS[number])[1:]
    composing = words[0] in ("accompany", "infill", "continue", "generate")
    status = cli.main([*words, "seed=1"] if composing else words)
    printed = capsys.readouterr()
    made = Made(files, tmp_path, TASKS[number], printed.out + printed.err, status)
    assert status == (2 if number == 12 else 0)
    if number == 3:
        assert (tmp_path / "lead.musicxml").read_text("utf-8").count("<harmony") >= 2
        return
    assert PROMISES[number](made)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_another_bass_is_not_silent(seed, files):
    """The song has a bass already: the model would leave it at that."""
    song = musictx.read(files / "song.mid")
    (sample,) = musictx.accompany(song, "song", add="bass", seed=seed)
    assert len(sample.score) - len(song) >= 2
