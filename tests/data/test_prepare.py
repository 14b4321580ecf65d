"""A corpus becomes shards: every file is there with its ids, or is left out with its reason."""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from musictx import formats
from musictx.config import Limits
from musictx.data import encode
from musictx.data.corpora import Item
from musictx.data.shards import Shards
from musictx.errors import UserError
from musictx.notes import Score
from musictx.tokens.build import build
from tests.data.helpers import TOKENIZER, Given, contents, run, song, write_songs


def by_name(folder: Path) -> dict[str, np.ndarray]:
    shards = Shards(folder)
    return {p.name: shards.tokens(p.number) for p in shards.pieces()}


@pytest.fixture
def corpus(tmp_path):
    """Good, broken and doubled files at several depths."""
    root = write_songs(tmp_path / "corpus", range(40))
    write_songs(root / "deep" / "er", range(35, 50))
    (root / "UPPER.MID").write_bytes(formats.to_bytes(song(90)))
    (root / "broken.mid").write_bytes(b"no MIDI at all")
    (root / "cut.mid").write_bytes(formats.to_bytes(song(91))[:20])
    (root / "empty.kar").write_bytes(b"")
    formats.write(song(92, notes=1), root / "short.mid")
    formats.write(song(93, drums=True), root / "drums.mid")
    return root


def test_a_score_goes_in_and_its_tokens_come_out_or_the_reason(corpus, tmp_path):
    report = run(corpus, tmp_path / "out")
    tokens = by_name(tmp_path / "out")
    pieces = {f"{'deep/er/' * (seed >= 35)}song-{seed:03}.mid": song(seed) for seed in range(50)}
    pieces["UPPER.MID"] = song(90)
    assert tokens.keys() == pieces.keys()
    for name, piece in pieces.items():
        np.testing.assert_array_equal(tokens[name], TOKENIZER.encode(piece))
    shards = report.shards
    assert len(shards) == 51
    shards.check(TOKENIZER)
    assert build(**shards.tokenizer_config).fingerprint == TOKENIZER.fingerprint
    assert sum(p.notes for p in shards.pieces()) == 51 * 12
    assert shards.totals().seconds == pytest.approx(sum(p.duration for p in pieces.values()))
    for piece in shards.pieces():
        assert piece.hash == formats.read(corpus / piece.name).content_hash()
    left_out = {item.name: item for item in report.left_out}
    assert report.files == 61 == 51 + len(left_out)
    assert left_out["short.mid"].reason == "too short"
    assert left_out["drums.mid"].reason == "no notes for this tokenizer"
    for name in (f"song-{seed:03}.mid" for seed in range(35, 40)):
        assert left_out[name].reason == "duplicate"
        assert left_out[name].detail.endswith(f"deep/er/{name}")
    for name, words in ("broken.mid", "broken"), ("empty.kar", "empty"), ("cut.mid", "0 notes"):
        assert words in left_out[name].detail
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert written["reasons"] == Counter(item.reason for item in report.left_out)
    assert written["left_out"] == [item._asdict() for item in report.left_out]


def test_the_bytes_depend_neither_on_workers_nor_on_the_order_of_writing(tmp_path):
    bytes_of_runs = []
    for name, seeds, workers in ("a", range(30), 1), ("b", range(29, -1, -1), 1), ("b", [], 2):
        corpus = write_songs(tmp_path / name / "c", seeds)
        for path in corpus.iterdir():
            os.utime(path, (1, 1))  # part of a corpus's identity, like names and sizes
        report = run(corpus, tmp_path / f"{name}-{workers}", validation=0.3, workers=workers)
        bytes_of_runs.append(contents(report.shards.folder))
    assert bytes_of_runs == bytes_of_runs[:1] * 3


def interrupt_after(monkeypatch, count: int) -> None:
    real, calls = encode.encode_item, []

    def work(item, **options):
        calls.append(item)
        if len(calls) > count:
            raise KeyboardInterrupt
        return real(item, **options)

    monkeypatch.setattr(encode, "encode_item", work)


def test_a_stopped_run_leaves_nothing_and_old_shards_as_they_were(corpus, tmp_path, monkeypatch):
    first = run(corpus, tmp_path / "old")
    before = contents(tmp_path / "old")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 0)  # what is up to date is not made again
        second = run(corpus, tmp_path / "old", workers=2)
    assert (first.up_to_date, second.up_to_date) == (False, True)
    assert second[1:-1] == first[1:-1]
    formats.write(song(200), corpus / "new.mid")
    for out in (tmp_path / "old", tmp_path / "new"):
        with monkeypatch.context() as patch:
            interrupt_after(patch, 20)
            with pytest.raises(KeyboardInterrupt):
                run(corpus, out)
    assert contents(tmp_path / "old") == before
    assert sorted(os.listdir(tmp_path)) == ["corpus", "old"]


#: Options, and new contents of files (None: the file is deleted).
CHANGES = [
    ({}, {"corpus/song-001.mid": formats.to_bytes(song(3))}),
    ({}, {"corpus/song-001.mid": None}),
    ({}, {"corpus/m.csv": b"split,midi_filename\ntest,song-001.mid\n"}),
    ({"validation": 0.5}, {}),
    ({"limits": Limits(read_seconds=59)}, {}),
    ({"tokenizer": build(name="performance", velocity_bins=8)}, {}),
    *(({}, {f"out/{name}": b"12"}) for name in ("tokens.bin", "report.json")),
    ({}, {"out/header.json": b'{"format": 2}'}),
]


@pytest.mark.parametrize(("options", "files"), CHANGES)
def test_shards_are_made_again_when_something_changed(tmp_path, options, files):
    corpus = write_songs(tmp_path / "corpus", range(4))
    run(corpus, tmp_path / "out")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content) if content else (tmp_path / name).unlink()
    assert not run(corpus, tmp_path / "out", **options).up_to_date
    Shards(tmp_path / "out").check(options.get("tokenizer", TOKENIZER))


class Longer(Given):
    """The same pieces by their identity, but they are read as longer ones."""

    @staticmethod
    def read(content, tokenizer, repairs, limits):
        return song(content, notes=9), None


def test_the_shards_of_another_class_of_ones_own_are_not_reused(tmp_path):
    given, longer, notes = "tests.data.helpers:Given", f"{__name__}:Longer", []
    for name in (given, given, longer, given):
        report = run(None, tmp_path / "out", name=name)
        notes.append((report.shards.totals().notes, report.up_to_date))
    assert notes == [(12, False), (12, True), (18, False), (12, False)]


class Actions(Given):
    """A piece for each word of ``corpus.path``, which says what happens when it is read."""

    label = "actions"

    def __init__(self, path):
        self.pieces = path.split()

    def items(self):
        return (Item(f"{i:02} {word}", word) for i, word in enumerate(self.pieces))

    @staticmethod
    def read(word, tokenizer, repairs, limits):
        harm = {"sleeps": (time.sleep, 600), "fills": (np.ones, 2**28), "dies": (os._exit, 11)}
        if word in harm:
            function, argument = harm[word]
            function(argument)
        if word == "fails":
            raise RuntimeError("a bug of ours")
        if word == "no_score":
            return None, None
        if word == "beyond":
            return song(1), np.array([TOKENIZER.vocabulary.size])
        return song(int(word)), TOKENIZER.encode(song(int(word)))[None]  # of any shape


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_a_file_that_harms_its_reader_costs_only_itself(tmp_path):
    reasons = {"sleeps": "took too long", "fills": "too large", "dies": "crashed the reader"}
    reasons |= {"fails": "unreadable", "beyond": "not encodable", "no_score": "not encodable"}
    words = [str(n) for n in range(40)]
    words[::7] = reasons
    options = {"name": f"{__name__}:Actions", "limits": Limits(read_seconds=5, read_mb=512)}
    report = run(" ".join(words), tmp_path / "out", workers=2, **options)
    assert {item.name[3:]: item.reason for item in report.left_out} == reasons
    details = {item.reason: item.detail for item in report.left_out}
    assert "limits.read_seconds=5" in details["took too long"]
    assert "limits.read_mb=512" in details["too large"]
    assert details["unreadable"] == "RuntimeError: a bug of ours"
    assert list(by_name(tmp_path / "out")) == [f"{i:02} {i}" for i in range(40) if i % 7]


def test_by_default_each_corpus_and_tokenizer_has_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = write_songs(tmp_path / "My Music! ", range(3))
    first = run(root).shards.folder
    second = run(root, tokenizer=build(name="performance", tracks="programs")).shards.folder
    assert first.parent == Path("data", "shards") == second.parent
    assert first != second
    assert first.name.startswith("My-Music-")
    assert run(root).up_to_date
    assert run(root, shards="elsewhere").shards.folder == Path("elsewhere")


def test_a_place_that_cannot_be_written_is_refused_before_reading(corpus, tmp_path, monkeypatch):
    interrupt_after(monkeypatch, 0)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "out", corpus, tmp_path / "file"):
        with pytest.raises(UserError, match=f"{tmp_path}/(file|corpus)"):
            run(corpus, folder)
    assert sorted(os.listdir(tmp_path)) == ["corpus", "file"]


def test_tracks_of_one_program_are_kept_apart_by_their_names(tmp_path):
    notes = song(9, 12).notes.copy()
    notes["track"] = np.arange(12) % 3
    given = Score(notes=notes, names={0: "MELODY", 1: "Bridge", 2: "other"})
    root = write_songs(tmp_path / "in", range(3))
    formats.write(given, root / "a.mid")
    tokenizer = build("performance", tracks="programs")
    plain = run(root, tmp_path / "plain", tokenizer=tokenizer)
    programs = {"melody": 73, "BRIDGE": 48}
    named = run(root, tmp_path / "named", tokenizer=tokenizer, programs=programs)
    assert Shards(tmp_path / "named").key != Shards(tmp_path / "plain").key
    back = tokenizer.decode(by_name(tmp_path / "named")["a.mid"]).notes
    assert Counter(back["program"].tolist()) == {0: 4, 48: 4, 73: 4}
    wrong = {"melody": 73, "bridges": 48}
    (remark,) = run(root, tmp_path / "wrong", tokenizer=tokenizer, programs=wrong).remarks
    assert remark.startswith("corpus.programs.bridges: no track has this name; the nearest: bridge")
    assert not named.remarks
    assert [r.lossy.get("tracks merged with another") for r in (plain, named)] == [2, None]
