"""The corpora of chorales: those of music21, and those published, with their splits."""

import importlib.util
import json

import numpy as np
import pytest

from musictx.chorale import corpora, voice_leading
from musictx.chorale import grid as four
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import CorpusConfig
from musictx.data.prepare import prepare
from musictx.data.windows import EvaluationWindows
from musictx.errors import UserError


@pytest.mark.skipif(importlib.util.find_spec("music21") is None, reason="needs the extra bach")
@pytest.mark.usefixtures("few_chorales")
def test_bach_keeps_the_rules_nearly_always():
    """Rates with a margin: a wrong definition is off by far more."""
    grids = (four.read(score)[0] for _, score in corpora.chorales())
    rates = voice_leading.rates(voice_leading.assess(grid) for grid in grids)
    assert 0.5 < rates["parallel fifths / 100 bars"] < 1.5
    assert 0.2 < rates["parallel octaves / 100 bars"] < 1
    assert rates["outside its range / 100 bars"] < 3
    assert rates["leap / 100 bars"] < 8
    assert rates["doubled leading note / 100 bars"] < 4
    assert rates["spacing / 100 bars"] < 8
    assert rates["crossing / 100 bars"] < 12
    assert rates["ends on a triad in root position, %"] > 98
    assert rates["bass ends a fourth up or a fifth down, %"] > 85


def test_without_music21_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setattr(corpora.importlib.util, "find_spec", lambda name: None)
    corpora.chorales.cache_clear()
    with pytest.raises(UserError, match=r'pip install "musictx\[bach\]"'):
        corpora.chorales()


def test_what_cannot_be_read_in_the_folder_of_chorales_is_left_out(monkeypatch, tmp_path):
    (tmp_path / "folder.xml").mkdir()
    (tmp_path / "broken.xml").write_text("<score-partwise>")
    monkeypatch.setattr(corpora, "_folder", lambda: tmp_path)
    assert corpora.chorales.__wrapped__() == []


PIECE = [[72, 67, 60, 48]] * 3 + [[74, 67, -1, 50]] * 2
SILENT_ENDS = [[-1] * 4] * 5 + PIECE + [[-1] * 4] * 2


def write(path, **splits):
    path.write_text(json.dumps(splits))
    return str(path)


def test_every_step_of_every_piece_becomes_four_tokens_in_its_split(tmp_path):
    """Equal pieces and silence stay, since published figures count every step."""
    file = write(tmp_path / "jsb.json", train=[PIECE, PIECE, SILENT_ENDS], valid=[PIECE])
    tokenizer = ChoraleTokenizer()
    report = prepare(CorpusConfig(name="jsb", path=file, shards=f"{tmp_path}/s"), tokenizer)
    shards = report.shards
    assert [(p.name, p.split, p.tokens) for p in shards.pieces()] == [
        ("train/000", "train", 20),
        ("train/001", "train", 20),
        ("train/002", "train", 48),
        ("valid/000", "validation", 20),
    ]
    grid = tokenizer.decode_grid(shards.tokens(2))
    assert np.array_equal(grid.pitches, SILENT_ENDS)
    assert EvaluationWindows(shards, "validation", 64).targets == 20  # no end counted
    assert shards.pieces()[0].notes == 6  # S 2, A 1, T 1, B 2


def test_shards_are_made_again_where_the_file_has_changed(tmp_path):
    file = write(tmp_path / "a.json", train=[PIECE])
    config = CorpusConfig(name="jsb", path=file, shards=f"{tmp_path}/shards")
    for expected, steps in ((False, PIECE), (True, PIECE), (False, PIECE + PIECE)):
        write(tmp_path / "a.json", train=[steps])
        report = prepare(config, ChoraleTokenizer())
        assert report.up_to_date == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[1, 2", "cannot be read as JSON"),
        ("[" * 200_000, "cannot be read as JSON"),
        ("[]", "lists of pieces named train, valid, test"),
        ('{"train": []}', "there is no piece in it"),
        ('{"valid": [[[60, 60, 60, "x"]]]}', "valid/000: expected a list of steps"),
        (f'{{"train": [{"[" * 90}1{"]" * 90}]}}', "expected a list of steps"),
        ('{"test": [[[60.5, 60, 60, 20]]]}', "expected MIDI pitches 0 to 127"),
        (None, r"corpus\.path="),
    ],
)
def test_a_file_of_another_format_is_refused_in_one_sentence(tmp_path, content, reason):
    file = tmp_path / "bad.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=reason) as error:
        corpora.Published(str(file))
    with pytest.raises(UserError, match="this is a folder"):
        corpora.Published(str(tmp_path))
    assert "corpus.path=" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
