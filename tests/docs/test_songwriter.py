"""docs/recipes.md, thirty tasks of a songwriter: each command runs, and its result has the promised
properties."""

import io
import re
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import mido
import numpy as np
import pytest

import musictx
from musictx import chords, cli
from musictx.midi.scan import track_chunks
from musictx.notes import Score
from tests.pieces import of_track, score

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
TASKS = {
    int(number): command
    for number, command in re.findall(r"^(\d+)\. [^`\n]+: `(musictx [^`]+)` \(", PAGE, re.M)
}
BAR, QUARTER = 2.0, 0.5  # seconds: four bars of 4/4 at 120
TUNE = [72, 76, 79, 76, 69, 72, 76, 72, 65, 69, 72, 74, 67, 71, 74, 79]
ROOTS = [(48, (60, 64, 67)), (45, (57, 60, 64)), (41, (60, 65, 69)), (43, (59, 62, 67))]
SLASHES = ["C:maj", "G:maj/3", "A:min7", "N"]
ORDER = {"Lead": 80, "Keys": 0, "Bass": 33, "Drums": 0}


def song() -> Score:
    """Return four bars of a lead, keys, bass and drums."""
    rows = [(n, n + 0.9, pitch, 0) for n, pitch in enumerate(TUNE)]
    for at, (root, triad) in zip(range(0, 16, 4), ROOTS):
        rows += [(at, at + 3.8, pitch, 1) for pitch in triad]
        rows += [(at + n, at + n + 0.8, root - 12, 2) for n in (0, 2, 3)]
        rows += [(at + n / 2, at + n / 2 + 0.2, 42, 3) for n in range(8)]
        rows += [(at + n, at + n + 0.2, 36 + n % 2 * 2, 3) for n in range(4)]
    programs = [*ORDER.values()]
    table = [(QUARTER * a, QUARTER * b, pitch, 80, programs[track], track == 3, track)
             for a, b, pitch, track in rows]  # fmt: skip
    return score(table, names=dict(enumerate(ORDER)))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Make a folder with the music that the page names; the song has bends and controllers."""
    folder, band = tmp_path_factory.mktemp("songwriter"), song()
    bent = mido.MidiFile(file=io.BytesIO(musictx.to_bytes(band)))
    for track in bent.tracks[1:]:
        channel = next(one.channel for one in track if one.type == "note_on")
        track.insert(0, mido.Message("control_change", control=7, value=90, channel=channel))
        track.insert(0, mido.Message("pitchwheel", pitch=300, channel=channel))
    bent.save(folder / "song.mid")
    lead = band.notes[band.notes["track"] == 0]
    lead["program"] = 0
    tune = replace(band, notes=lead, names={0: "Tune"})
    musictx.write(tune, folder / "tune.mid")
    symbols = tuple((BAR * n, name) for n, name in enumerate(("C:maj", "A:min", "F:maj", "G:maj")))
    musictx.write(replace(tune, markers=symbols), folder / "sheet.musicxml")
    return folder


class Made:
    """The output, the files and the input of a command."""

    def __init__(self, here: Path, command: str, text: str, status: int) -> None:
        self.text, self.status = text, status
        given = ("song.mid", "tune.mid", "sheet.musicxml")
        self.paths = sorted(set(here.rglob("*.mid")) - set(map(here.joinpath, given)))
        self.given = musictx.read(here / next((n for n in given if n in command), "tune.mid"))
        self.scores = [musictx.read(path) for path in self.paths]
        self.score = (self.scores or [Score()])[0]
        self.data = (here / "song.mid").read_bytes()

    def track(self, name: str) -> np.ndarray:
        return of_track(self.score, name)

    def new(self) -> np.ndarray:
        given = {*plain(self.given.notes)}
        return self.score.notes[[key not in given for key in plain(self.score.notes)]]

    def changed(self, markers: bool = False) -> set[str]:
        """Return the names of tracks whose bytes have changed. The first track (tempo, markers) may
        change only with ``markers``."""
        before, after = (
            [data[begin:end] for begin, end in track_chunks(data, Counter())]
            for data in (self.data, self.paths[0].read_bytes())
        )
        assert markers or after[0] == before[0]
        return {name for name, old, new in zip(ORDER, before[1:], after[1:]) if old != new}


def plain(notes: np.ndarray) -> list[tuple[int, int, int, bool]]:
    return [(round(note["start"] * 960), round(note["end"] * 960), int(note["pitch"]),
             bool(note["drum"])) for note in notes]  # fmt: skip


def one_at_a_time(notes: np.ndarray) -> bool:
    return len(notes) > 0 and bool((notes["end"][:-1] <= notes["start"][1:] + 1e-6).all())


def inside(notes: np.ndarray, begin: float, end: float) -> bool:
    return bool(((notes["start"] >= begin - 1e-6) & (notes["start"] < end - 1e-6)).all())


def in_chords(notes: np.ndarray, names: list[str], bar: float = BAR) -> float:
    """Return the share of ``notes`` that are tones of the chord of their bar."""
    tones = [chords.parse_chord(name).chord.classes for name in names]
    bars = (notes["start"] / bar + 1e-6).astype(int) % len(names)
    return float(np.mean([pitch % 12 in tones[n] for n, pitch in zip(bars, notes["pitch"])]))


def named(score: Score) -> list[tuple[int, str]]:
    """Return (bar from 0, name) of each chord marker."""
    return [(round(at / BAR), text) for at, text in score.markers if chords.parse_name(text)]


def tune_stays(made: Made) -> bool:
    return not Counter(plain(made.given.notes)) - Counter(plain(made.score.notes))


def composed_line(made: Made, name: str, begin: float = 0.0, end: float = 1e9) -> bool:
    """Whether the track ``name`` alone has changed, is monophonic and has new notes within these
    seconds."""
    line = one_at_a_time(made.track(name))
    return made.changed() <= {name} and line and inside(made.new(), begin, end)


def drums(made: Made) -> np.ndarray:
    notes = made.track("Drums")
    assert notes["drum"].all()
    assert set(notes["pitch"].tolist()) <= {*range(35, 82)}
    return notes


def bass_of_the_sheet(made: Made) -> bool:
    """Whether the bass is monophonic and mostly begins bars on the root of the sheet's chord."""
    notes = made.track("Bass")
    first = notes[np.abs(notes["start"] / BAR - np.round(notes["start"] / BAR)) < 1e-3]
    roots = [(2, 7, 0, 0)[round(at / BAR) % 4] for at in first["start"]]
    return one_at_a_time(notes) and float(np.mean(first["pitch"] % 12 == roots)) >= 0.5


FOUR = ["C", "Am", "F", "G"]
#: Number of a task -> whether a result is as the page promises. The third writes notation.
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
    17: lambda m: one_at_a_time(m.track("Counter-melody"))
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
    28: lambda m: [text for _, text in m.score.markers if len(text) == 1] == ["A", "B", "A"]
    and not Counter(plain(m.given.notes[m.given.notes["start"] < BAR]))
    - Counter(plain(m.score.notes)),
    29: lambda m: [text for _, text in m.score.markers if len(text) == 1] == ["A", "B"],
    30: lambda m: np.allclose(drums(m)["start"] * 6, (drums(m)["start"] * 6).round(), atol=0.02),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize("number", TASKS)
def test_each_task_is_done_as_promised(number, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    words = shlex.split(TASKS[number])[1:]
    composing = words[0] in ("accompany", "infill", "continue", "generate")
    status = cli.main([*words, "seed=2"] if composing else words)
    printed = capsys.readouterr()
    made = Made(tmp_path, TASKS[number], printed.out + printed.err, status)
    assert status == (2 if number == 12 else 0)
    if number == 3:
        assert (tmp_path / "lead.musicxml").read_text("utf-8").count("<harmony") >= 2
        return
    assert PROMISES[number](made)
