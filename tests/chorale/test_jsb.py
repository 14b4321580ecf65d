"""The chorales as published: a JSON file with its own split."""

from __future__ import annotations

import json

import numpy as np
import pytest

from musictx.chorale import jsb
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import CorpusConfig
from musictx.data.prepare import prepare
from musictx.data.shards import Shards
from musictx.data.windows import EvaluationWindows
from musictx.errors import UserError

PIECE = [[72, 67, 60, 48]] * 3 + [[74, 67, -1, 50]] * 2
SILENT_ENDS = [[-1] * 4] * 5 + PIECE + [[-1] * 4] * 2


def write(path, **splits):
    path.write_text(json.dumps(splits))
    return str(path)


def test_every_step_of_every_piece_becomes_four_tokens_in_its_split(tmp_path):
    """Nothing is taken out, twins and silence included: published figures count every step."""
    file = write(tmp_path / "jsb.json", train=[PIECE, PIECE, SILENT_ENDS], valid=[PIECE])
    tokenizer = ChoraleTokenizer()
    report = prepare(CorpusConfig(name="jsb", path=file), tokenizer, tmp_path / "shards")
    shards = Shards(report.folder)
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


def test_the_shards_follow_the_file(tmp_path):
    config = CorpusConfig(name="jsb", path=write(tmp_path / "a.json", train=[PIECE]))
    for expected, steps in ((False, PIECE), (True, PIECE), (False, PIECE + PIECE)):
        write(tmp_path / "a.json", train=[steps])
        report = prepare(config, ChoraleTokenizer(), tmp_path / "s")
        assert report.up_to_date == expected


def test_a_file_with_one_split_has_one_split(tmp_path):
    """A held-back test part is measured whole; no piece moves over to train."""
    file = write(tmp_path / "t.json", test=[PIECE, SILENT_ENDS])
    report = prepare(CorpusConfig(name="jsb", path=file), ChoraleTokenizer(), tmp_path / "s")
    assert Shards(report.folder).totals("test").tokens == 68
    alone = write(tmp_path / "one.json", test=[PIECE])
    report = prepare(CorpusConfig(name="jsb", path=alone), ChoraleTokenizer(), tmp_path / "one")
    assert Shards(report.folder).totals("test").tokens == 20


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[1, 2", "cannot be read as JSON"),
        ("[]", "lists of pieces named train, valid, test"),
        ('{"train": []}', "there is no piece in it"),
        ('{"train": [[[60, 60, 60]]]}', "train/000: expected a list of steps of four pitches"),
        ('{"valid": [[[60, 60, 60, "x"]]]}', "valid/000: expected a list of steps"),
        ('{"test": [[[60, 60, 60, 200]]]}', "expected MIDI pitches 0 to 127"),
        ('{"test": [[[60.5, 60, 60, 20]]]}', "expected MIDI pitches 0 to 127"),
        ("[" * 200_000, "cannot be read as JSON"),
        ('{"train": 5}', "train: expected a list of pieces"),
        (f'{{"train": [[[1{"0" * 5000}, 2, 3, 4]]]}}', "cannot be read as JSON"),
        (f'{{"train": [{"[" * 90}1{"]" * 90}]}}', "expected a list of steps"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_sentence(tmp_path, content, reason):
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(UserError, match=reason) as error:
        jsb.read(str(file))
    assert "corpus.path=" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_no_file_is_refused(tmp_path):
    for path in (None, str(tmp_path / "x"), str(tmp_path)):
        with pytest.raises(UserError, match=r"corpus\.path"):
            jsb.read(path)
