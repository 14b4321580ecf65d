from __future__ import annotations

import builtins
import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from musictx import formats, midi
from musictx.chorale import bach
from musictx.config import CorpusConfig
from musictx.data import encode, parallel
from musictx.data import prepare as preparing
from musictx.data.corpora import Item
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.data.sources import Folder
from musictx.errors import UserError
from musictx.notes import Score
from musictx.tokens.build import build
from musictx.tokens.groups import GroupTokenizer
from tests.data.helpers import TOKENIZER, contents, run, song, write_songs


def by_name(folder: Path) -> dict[str, np.ndarray]:
    shards = Shards(folder)
    return {p.name: shards.tokens(p.number) for p in shards.pieces()}


@pytest.fixture
def corpus(tmp_path):
    """Good, broken and doubled files at several depths."""
    root = write_songs(tmp_path / "corpus", range(40))
    write_songs(root / "deep" / "er", range(35, 50))
    (root / "UPPER.MID").write_bytes(midi.to_bytes(song(90)))
    (root / "broken.mid").write_bytes(b"no MIDI at all")
    (root / "cut.mid").write_bytes(midi.to_bytes(song(91))[:20])
    (root / "empty.kar").write_bytes(b"")
    midi.write(song(92, notes=1), root / "short.mid")
    midi.write(song(93, drums=True), root / "drums.mid")
    return root


def test_a_score_goes_in_and_its_tokens_come_out(corpus, tmp_path):
    report = run(corpus, tmp_path / "out")
    tokens = by_name(tmp_path / "out")
    assert len(tokens) == report.total().pieces == 51
    for seed in range(50):
        name = f"{'deep/er/' if seed >= 35 else ''}song-{seed:03}.mid"
        np.testing.assert_array_equal(tokens[name], TOKENIZER.encode(song(seed)))
    np.testing.assert_array_equal(tokens["UPPER.MID"], TOKENIZER.encode(song(90)))
    shards = Shards(tmp_path / "out")
    shards.check(TOKENIZER)
    assert build(**shards.tokenizer_config).fingerprint == TOKENIZER.fingerprint
    assert sum(p.notes for p in shards.pieces()) == 51 * 12
    np.testing.assert_allclose(
        shards.totals().seconds, sum(song(s).duration for s in [*range(50), 90]), atol=1e-9
    )


def test_every_file_left_out_is_reported_with_its_reason(corpus, tmp_path):
    report = run(corpus, tmp_path / "out")
    left_out = {item.name: item for item in report.left_out}
    assert report.files == 61 == report.total().pieces + len(left_out)
    assert left_out["short.mid"].reason == "too short"
    assert left_out["short.mid"].detail == "1 notes, expected at least 2"
    assert left_out["drums.mid"].reason == "no notes for this tokenizer"
    assert "12 drum notes" in left_out["drums.mid"].detail
    for seed in range(35, 40):
        assert left_out[f"song-{seed:03}.mid"].reason == "duplicate"
        assert left_out[f"song-{seed:03}.mid"].detail.endswith(f"deep/er/song-{seed:03}.mid")
    for name in ("broken.mid", "empty.kar"):
        assert name in left_out[name].detail
    assert "0 notes" in left_out["cut.mid"].detail
    assert sum(report.reasons.values()) == 10
    assert json.loads((tmp_path / "out" / "report.json").read_text())["reasons"] == report.reasons
    kept = json.loads((tmp_path / "out" / "report.json").read_text())["left_out"]
    assert kept == [item._asdict() for item in report.left_out]
    printed = str(report)
    assert "corpus: 61 files, 51 pieces" in printed
    assert "5 duplicate" in printed


def test_what_was_lost_in_kept_pieces_is_counted(tmp_path):
    both = np.concatenate([song(1).notes, song(2, notes=5, drums=True).notes])
    both["track"][12:] = 1
    (tmp_path / "c").mkdir()
    midi.write(Score(notes=both), tmp_path / "c" / "a.mid")
    midi.write(song(3), tmp_path / "c" / "b.mid")
    report = run(tmp_path / "c", tmp_path / "out")
    assert report.lossy == {"drum notes left out": 5}
    assert report.total().notes == 24


@pytest.fixture
def many_chunks(monkeypatch):
    """Chunks of four files."""
    monkeypatch.setattr(preparing, "PIECES", 4)


def killed_after(monkeypatch, count: int) -> None:
    """The ``count + 1``-th chunk is stopped by Ctrl-C."""
    real, calls = encode.encode_items, []

    def work(items, **options):
        calls.append(items)
        if len(calls) > count:
            raise KeyboardInterrupt
        return real(items, **options)

    monkeypatch.setattr(encode, "encode_items", work)


def test_a_stopped_run_leaves_nothing_and_old_shards_as_they_were(
    corpus, tmp_path, monkeypatch, many_chunks
):
    run(corpus, tmp_path / "old")
    before = contents(tmp_path / "old")
    midi.write(song(200), corpus / "new.mid")
    for out in (tmp_path / "old", tmp_path / "new" / "out"):
        with monkeypatch.context() as patch:
            killed_after(patch, 5)
            with pytest.raises(KeyboardInterrupt):
                run(corpus, out)
    assert contents(tmp_path / "old") == before
    assert sorted(os.listdir(tmp_path)) == ["corpus", "old"]


def test_each_file_is_read_once(tmp_path, monkeypatch):
    root, opened, real = write_songs(tmp_path / "c", range(5)), Counter(), io.open

    def counting(path, *args, **options):
        opened[str(path)] += 1
        return real(path, *args, **options)

    for module in (builtins, io):
        monkeypatch.setattr(module, "open", counting)
    run(root, tmp_path / "out")
    run(root, tmp_path / "out")  # up to date
    for path in root.iterdir():
        assert opened[str(path)] == 2  # for its first bytes, which say what it is, and whole


@pytest.mark.skipif(not hasattr(os, "fork"), reason="patches reach workers only by fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("pieces", "workers"), [(4, 2), (64, 0)])
def test_a_file_that_kills_its_process_costs_only_itself(
    corpus, tmp_path, monkeypatch, pieces, workers
):
    """In a corpus of many chunks, and in one of a single chunk with the workers of the default."""
    monkeypatch.setattr(preparing, "PIECES", pieces)
    real = formats.read

    def deadly(path, **options):
        if Path(path).name in ("song-010.mid", "song-011.mid", "song-033.mid"):
            os._exit(11)
        return real(path, **options)

    monkeypatch.setattr(formats, "read", deadly)
    monkeypatch.setattr(parallel, "START_METHOD", "fork")
    report = run(corpus, tmp_path / "out", workers=workers)
    crashed = [item.name for item in report.left_out if item.reason == "crashed the reader"]
    assert crashed == ["song-010.mid", "song-011.mid", "song-033.mid"]
    assert report.total().pieces == 51 - 3
    assert report.files == 61


def test_a_reader_that_fails_unexpectedly_costs_only_the_file(corpus, tmp_path, monkeypatch):
    real = formats.read

    def failing(path, **options):
        if Path(path).name == "song-010.mid":
            raise RuntimeError("a bug of ours")
        return real(path, **options)

    monkeypatch.setattr(formats, "read", failing)
    report = run(corpus, tmp_path / "out")
    detail = {item.name: item.detail for item in report.left_out}["song-010.mid"]
    assert detail == "RuntimeError: a bug of ours"
    assert report.total().pieces == 50


STAGES = ["in_time", "without_beats", "encode_with_report", "merged", "moved", "content_hash"]


@pytest.mark.parametrize("error", [ValueError, AssertionError, RecursionError, UserError])
@pytest.mark.parametrize("stage", STAGES)
def test_a_file_that_cannot_be_encoded_is_left_out_and_listed(tmp_path, monkeypatch, stage, error):
    """Whatever is raised, wherever."""
    root = write_songs(tmp_path / "c", range(3))
    midi.write(song(7, notes=13), root / "wrong.mid")
    monkeypatch.setattr(encode, "without_beats", lambda score: False)  # these songs keep to none
    owner = {"content_hash": Score, "in_time": encode, "without_beats": encode}
    owner = owner.get(stage, GroupTokenizer)
    real = getattr(owner, stage)

    def wrong(*arguments):
        if any(isinstance(one, Score) and len(one) == 13 for one in arguments):
            raise error("an argument")
        return real(*arguments)

    monkeypatch.setattr(owner, stage, wrong)
    report = run(root, tmp_path / "out", tokenizer=build(name="notes"))
    ((name, reason, detail),) = report.left_out
    assert (name, reason) == ("wrong.mid", "not encodable")
    assert "an argument" in detail
    assert report.total().pieces == 3


@pytest.mark.parametrize("wrong", [-1, TOKENIZER.size, 2**16 + 4, 4.0])
@pytest.mark.parametrize("given", [False, True])
def test_ids_outside_of_the_vocabulary_leave_the_file_out(tmp_path, monkeypatch, wrong, given):
    """The tokenizer's, and those that a corpus gives."""
    real = type(TOKENIZER).encode_with_report
    ids = np.array([wrong, 5, 6])

    def encoded(self, score):
        right, left_out = real(self, score)
        return (ids if len(score) == 13 and not given else right), left_out

    def read(path, tokenizer, repairs, limits):
        score = formats.read(path, limits=limits, repairs=repairs)
        return score, ids if len(score) == 13 and given else None

    monkeypatch.setattr(type(TOKENIZER), "encode_with_report", encoded)
    monkeypatch.setattr(Folder, "read", staticmethod(read))
    root = write_songs(tmp_path / "c", range(3))
    midi.write(song(7, notes=13), root / "wrong.mid")
    report = run(root, tmp_path / "out")
    assert [(one.name, one.reason) for one in report.left_out] == [("wrong.mid", "not encodable")]
    assert report.total().pieces == 3


def test_an_interrupt_in_encoding_ends_the_run(tmp_path, monkeypatch):
    def interrupted(self, score):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(TOKENIZER), "merged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(write_songs(tmp_path / "c", range(3)), tmp_path / "out")


def test_up_to_date_shards_are_not_made_again(corpus, tmp_path, monkeypatch):
    first = run(corpus, tmp_path / "out")
    before = contents(tmp_path / "out")
    with monkeypatch.context() as patch:
        killed_after(patch, 0)
        second = run(corpus, tmp_path / "out", workers=2)
    assert second.up_to_date
    assert not first.up_to_date
    assert "(up to date)" in str(second)
    assert second.to_json() == first.to_json()
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("what", ["file", "new", "gone", "option", "tokenizer", "damage", "table"])
def test_shards_are_made_again_when_something_changed(corpus, tmp_path, what):
    run(corpus, tmp_path / "out")
    options, tokenizer = {}, TOKENIZER
    if what == "file":
        path = corpus / "song-001.mid"  # as large
        path.write_bytes(path.read_bytes().replace(b"MTrk", b"MTrX", 1))
    elif what == "new":
        midi.write(song(200), corpus / "new.mid")
    elif what == "gone":
        (corpus / "song-001.mid").unlink()
    elif what == "option":
        options = {"validation": 0.5}
    elif what == "tokenizer":
        tokenizer = build(name="performance", velocity_bins=8)
    elif what == "damage":
        (tmp_path / "out" / "tokens.bin").write_bytes(b"12")
    else:
        (corpus / "m.csv").write_text("split,midi_filename\ntest,song-001.mid\n")
    assert not run(corpus, tmp_path / "out", tokenizer=tokenizer, **options).up_to_date
    Shards(tmp_path / "out").check(tokenizer)


def test_by_default_each_corpus_and_tokenizer_has_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = write_songs(tmp_path / "My Music! ", range(3))
    first = run(root)
    second = run(root, tokenizer=build(name="performance", tracks="programs"))
    assert first.folder.parent == Path("data", "shards") == second.folder.parent
    assert first.folder != second.folder
    assert first.folder.name.startswith("My-Music-")
    assert len(first.folder.name) == len("My-Music-") + 8
    assert run(root).up_to_date
    assert run(root, shards="elsewhere").folder == Path("elsewhere")


def test_when_nothing_can_be_used_the_reasons_are_said_and_nothing_is_left(tmp_path):
    root = tmp_path / "c"
    root.mkdir()
    (root / "a.mid").write_bytes(b"no MIDI")
    midi.write(song(1, notes=1), root / "b.mid")
    midi.write(song(1, drums=True), root / "c.mid")
    with pytest.raises(UserError) as caught:
        run(root, tmp_path / "out")
    message = str(caught.value)
    assert message.startswith(f"corpus.path={root}: none of its 3 files can be used: ")
    assert "1 too short (such as b.mid: 1 notes" in message
    assert "1 no notes for this tokenizer (such as c.mid:" in message
    assert os.listdir(tmp_path) == ["c"]


def test_a_place_that_cannot_be_written_is_said_before_anything_is_read(
    corpus, tmp_path, monkeypatch
):
    killed_after(monkeypatch, 0)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"corpus.shards=.*file is a file, expected a folder"):
        run(corpus, tmp_path / "file" / "out")
    with pytest.raises(UserError, match="something else in this folder"):
        run(corpus, corpus)
    with pytest.raises(UserError, match="this is a file"):
        run(corpus, tmp_path / "file")


def test_the_chorales_are_a_corpus(tmp_path, monkeypatch):
    pieces = [("b", song(1)), ("a", song(2)), ("c", song(1)), ("d", song(3))]
    monkeypatch.setattr(bach, "chorales", lambda: pieces)
    config = CorpusConfig(name="bach")
    report = prepare(config, TOKENIZER, tmp_path / "out", progress=False)
    assert list(by_name(tmp_path / "out")) == ["a", "b", "d"]
    assert report.reasons == {"duplicate": 1}
    assert report.splits["validation"].pieces >= 1
    assert os.listdir(tmp_path) == ["out"]


def test_workers_know_no_torch():
    code = (
        "import sys, musictx.data.prepare, musictx.data.encode\n"
        "sys.exit('torch' in sys.modules or 'pytorch_lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_hash_is_of_what_was_read(tmp_path):
    root = write_songs(tmp_path / "c", range(3))
    run(root, tmp_path / "out")
    for piece in Shards(tmp_path / "out").pieces():
        assert piece.hash == midi.read(root / piece.name).content_hash()


@pytest.mark.parametrize("size", [0, 100, 10**6])
def test_chunks_hold_every_item_once(size):
    for count in (0, 1, 2, 31, 32, 33, 64, 1000, 5000):
        items = [Item(str(i), "", size) for i in range(count)]
        parts = list(preparing.in_chunks(items))
        assert [i for part in parts for i in part] == items
        assert all(1 <= len(part) <= (1 if size == 10**6 else 64) for part in parts)


def test_musicxml_is_read_beside_midi(tmp_path):
    """The same notes as MusicXML and as MIDI are one piece; a four-voice tokenizer takes both."""
    from musictx.chorale.tokenizer import ChoraleTokenizer

    notes = "".join(
        f"<part id='P{voice}'><measure number='1'><attributes><divisions>1</divisions></attributes>"
        f"<note><pitch><step>{step}</step><octave>{octave}</octave></pitch>"
        "<duration>2</duration></note></measure></part>"
        for voice, (step, octave) in enumerate([("E", 5), ("C", 5), ("G", 4), ("C", 3)])
    )
    parts = "".join(
        f"<score-part id='P{voice}'><part-name>{voice}</part-name></score-part>"
        for voice in range(4)
    )
    text = f"<score-partwise><part-list>{parts}</part-list>{notes}</score-partwise>"
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "song.musicxml").write_text(text)
    (folder / "other.XML").write_text("<html/>")
    report = prepare(
        CorpusConfig(path=str(folder), workers=1), ChoraleTokenizer(), tmp_path / "shards"
    )
    shards = Shards(report.folder)
    (piece,) = {p.name for p in shards.pieces()}
    assert piece == "song.musicxml"
    ids = np.concatenate([shards.tokens(p.number) for p in shards.pieces()])
    assert ChoraleTokenizer().decode_grid(ids).pitches.tolist() == [[76, 72, 67, 48]] * 8
    assert [(left.name, left.reason) for left in report.left_out] == [("other.XML", "not MusicXML")]
