"""docs/composing.md, thirty tasks of a songwriter: each command runs and keeps what it promises."""

from __future__ import annotations

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
from musictx.notes import METER, NOTE, TEMPO, Score

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "composing.md").read_text(encoding="utf-8")
TASKS = {
    int(number): command
    for number, command in re.findall(r"^(\d+)\. [^`\n]+: `(musictx [^`]+)` \(", PAGE, re.M)
}
BAR, QUARTER = 2.0, 0.5  # seconds: four bars of 4/4 at 120
TUNE = [72, 76, 79, 76, 69, 72, 76, 72, 65, 69, 72, 74, 67, 71, 74, 79]
ROOTS = [(48, (60, 64, 67)), (45, (57, 60, 64)), (41, (60, 65, 69)), (43, (59, 62, 67))]
SLASHES = ["C:maj", "G:maj", "A:min7", "N"]
ORDER = ["Lead", "Keys", "Bass", "Drums"]


def rows(what: str) -> list[tuple[float, float, int]]:
    """Start, end and pitch of the notes of a track."""
    if what == "Lead":
        return [(QUARTER * n, QUARTER * (n + 0.9), pitch) for n, pitch in enumerate(TUNE)]
    found = []
    for bar, (root, triad) in enumerate(ROOTS):
        at = BAR * bar
        if what == "Keys":
            found += [(at, at + 1.9, pitch) for pitch in triad]
        if what == "Bass":
            found += [(at + QUARTER * n, at + QUARTER * n + 0.4, root - 12) for n in (0, 2, 3)]
        if what == "Drums":
            found += [(at + n * QUARTER / 2, at + n * QUARTER / 2 + 0.1, 42) for n in range(8)]
            found += [(at + n, at + n + 0.1, 36) for n in (0.0, 1.0)]
            found += [(at + n, at + n + 0.1, 38) for n in (0.5, 1.5)]
    return sorted(found)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the music that the page speaks of; the song has bends and controllers."""
    folder = tmp_path_factory.mktemp("songwriter")
    song = mido.MidiFile(ticks_per_beat=480)
    head = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=500_000)])
    head.append(mido.MetaMessage("time_signature", numerator=4, denominator=4))
    song.tracks.append(head)
    for channel, (name, program) in enumerate(zip(ORDER, (80, 0, 33, 0))):
        channel = 9 if name == "Drums" else channel
        events = [(0, mido.Message("control_change", control=7, value=90, channel=channel))]
        events += [(10, mido.Message("pitchwheel", pitch=300, channel=channel))]
        events += [(20, mido.Message("pitchwheel", pitch=0, channel=channel))]
        for start, end, pitch in rows(name):
            for at, kind in ((start, "note_on"), (end, "note_off")):
                said = {"note": pitch, "velocity": 80, "channel": channel}
                events.append((round(at * 960), mido.Message(kind, **said)))
        track = mido.MidiTrack([mido.MetaMessage("track_name", name=name)])
        track.append(mido.Message("program_change", program=program, channel=channel))
        now = 0
        for at, event in sorted(events, key=lambda one: (one[0], one[1].type == "note_on")):
            track.append(event.copy(time=at - now))
            now = at
        song.tracks.append(track)
    song.save(folder / "song.mid")
    table = [(start, end, pitch, 80, 0, False, 0) for start, end, pitch in rows("Lead")]
    marks = {"tempos": np.array([(0.0, 120.0)], TEMPO), "meters": np.array([(0.0, 4, 4)], METER)}
    tune = Score(np.array(table, NOTE), names={0: "Tune"}, ticks_per_quarter=480, **marks)
    musictx.write(tune, folder / "tune.mid")
    symbols = tuple((BAR * n, name) for n, name in enumerate(("C:maj", "A:min", "F:maj", "G:maj")))
    musictx.write(replace(tune, markers=symbols), folder / "sheet.musicxml")
    return folder


class Made:
    """What a command printed and wrote, beside what it was given."""

    def __init__(self, files: Path, here: Path, command: str, said: str, status: int) -> None:
        self.said, self.status = said, status
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
        left, found = Counter(plain(self.given.notes)), []
        for note, key in zip(self.score.notes, plain(self.score.notes)):
            left[key] -= 1
            if left[key] < 0:
                found.append(note)
        return np.array(found, self.score.notes.dtype)

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
    assert notes["pitch"].min() >= 35
    assert notes["pitch"].max() <= 81
    return notes


def tune_stays(made: Made) -> bool:
    return not Counter(plain(made.given.notes)) - Counter(plain(made.score.notes))


def sections(score: Score) -> list[str]:
    return [text for _, text in score.markers if re.fullmatch(r"[A-M]'?", text)]


def check(number: int, made: Made) -> None:
    """What the page promises of each task."""
    score, new = (made.score, made.new()) if made.scores else (made.given, made.given.notes[:0])
    if number == 1:
        assert made.said.split("\n")[0].split() == ["|", "C", "|", "Am", "|", "F", "|", "G", "|"]
        assert "Sections" in made.said
    elif number == 2:
        assert not made.changed(markers=True)
        assert named(score) == [(0, "C:maj"), (1, "A:min"), (2, "F:maj"), (3, "G:maj")]
    elif number == 4:
        assert len(new) >= 4
        assert in_chords(score.notes, ["C", "Am", "F", "G"]) > 0.85
        assert 3 * BAR < score.duration < 5 * BAR
    elif number == 5:
        assert named(score) == [(n, SLASHES[n % 4]) for n in range(8)]
    elif number == 6:
        notes = made.track("Bass")
        assert one_at_a_time(notes)
        first = notes[np.abs(notes["start"] / BAR - np.round(notes["start"] / BAR)) < 1e-3]
        roots = [(2, 7, 0, 0)[round(at / BAR) % 4] for at in first["start"]]
        assert np.mean(first["pitch"] % 12 == roots) >= 0.5
    elif number == 7:
        assert [name for _, name in named(score)] == ["F:maj", "Bb:maj"] * 2
        assert in_chords(new, ["F", "Bb"]) > 0.8
        assert tune_stays(made)
    elif number == 8:
        assert in_chords(new, ["C", "Am", "F", "G"]) > 0.8
    elif number == 9:
        assert not made.changed()
        assert one_at_a_time(new)
    elif number in (10, 11):
        assert len(drums(made)) > 8
        if number == 11:
            at = set((made.track("Drums")["start"] / QUARTER).round(2).tolist())
            assert len(at & set(map(float, range(16)))) >= 12
    elif number == 12:
        assert made.status == 2
        assert "jazz, latin" in made.said
    elif number in (13, 14):
        wanted = ["Bass", "Drums"] + ["Piano"] * (number == 14)
        assert all(len(made.track(name)) for name in wanted)
        assert one_at_a_time(made.track("Bass"))
        drums(made)
    elif number == 15:
        assert not made.changed()
        assert set(made.track("Strings")["program"].tolist()) == {48}
    elif number == 16:
        assert len(new)
        assert new["pitch"].max() <= 72
    elif number == 17:
        assert one_at_a_time(made.track("Lead"))
        assert set((new["pitch"] % 12).tolist()) <= {0, 2, 4, 5, 7, 9, 11}
    elif number == 18:
        assert tune_stays(made)
        assert len(new)
    elif number == 19:
        assert len(made.scores) == 2
        assert plain(made.scores[0].notes) != plain(made.scores[1].notes)
    elif number == 20:
        assert made.changed() <= {"Lead"}
        assert one_at_a_time(made.track("Lead"))
        assert inside(new, BAR, 3 * BAR)
    elif number == 21:
        assert made.changed() <= {"Drums"}
        assert inside(new, 3 * BAR, 4 * BAR)
    elif number == 22:
        assert made.changed() <= {"Bass"}
        assert one_at_a_time(made.track("Bass"))
        assert np.abs(new["pitch"].astype(int) - 32).max(initial=0) <= 8
    elif number == 23:
        assert made.changed() <= {"Lead", "Bass"}
        assert inside(new, BAR, 2 * BAR)
    elif number == 24:
        assert made.changed() <= {"Keys"}
        assert inside(new, 4.0, 5.0)
    elif number == 25:
        assert "Drums" not in made.changed()
        assert inside(new, 2 * BAR, 3 * BAR)
    elif number == 26:
        assert inside(new, 4 * BAR, 6 * BAR)
        assert {*new["program"].tolist()} <= {0, 33, 80}
    elif number == 27:
        assert len(score)
        assert score.duration <= 2 * BAR + 1e-3
    elif number == 28:
        assert sections(score) == ["A", "B", "A"]
        first = made.given.notes[made.given.notes["start"] < BAR]
        assert not Counter(plain(first)) - Counter(plain(score.notes))
    elif number == 29:
        assert sections(score) == ["A", "B"]
    elif number == 30:
        at = drums(made)["start"] / QUARTER * 3
        assert np.abs(at - np.round(at)).max() < 0.02


@pytest.mark.slow
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
    check(number, made)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_another_bass_is_not_silent(seed, files):
    """The song has a bass already: the model would leave it at that."""
    song = musictx.read(files / "song.mid")
    (sample,) = musictx.accompany(song, "song", add="bass", seed=seed)
    assert len(sample.score) - len(song) >= 2
