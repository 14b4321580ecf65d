import json
import os
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from musictx.data.shards import FORMAT, Shards, new_shards
from musictx.errors import UserError
from musictx.tokens.vocab import Vocabulary
from tests.data.helpers import TOKENIZER, add, make_shards

PIECES = [np.arange(5, dtype=np.uint16), np.array([65535, 0, 7], np.uint16)]

#: Tokens with every id of uint16.
TOKENS = SimpleNamespace(
    fingerprint="f" * 16,
    vocabulary=SimpleNamespace(size=2**16),
    to_config=lambda: {"name": "x", "params": {"a": [1]}},
)


def writer(folder):
    return new_shards(folder, TOKENS, corpus={"name": "mine"}, key="k")


@pytest.fixture
def folder(tmp_path):
    with writer(tmp_path / "s") as out:
        add(out, PIECES[0], name="a/b.mid", split="train", hash="00", notes=2, seconds=1.5)
        add(out, PIECES[1], name="ö.mid", split="validation", notes=1, seconds=0.5, begins=False)
    return tmp_path / "s"


def test_what_is_written_is_read(folder):
    shards = Shards(folder)
    assert len(shards) == 2
    assert [p.name for p in shards.pieces()] == ["a/b.mid", "ö.mid"]
    assert shards.pieces("train")[0].hash == "00"
    assert [(p.begins, p.ends) for p in shards.pieces()] == [(True, True), (False, True)]
    for piece, ids in zip(shards.pieces(), PIECES):
        np.testing.assert_array_equal(shards.tokens(piece.number), ids)
    assert shards.totals("train") == (1, 5, 2, 1.5)
    assert shards.totals() == (2, 8, 3, 2.0)
    assert shards.totals("test") == (0, 0, 0, 0.0)
    assert shards.header["splits"]["validation"]["tokens"] == 3
    assert shards.tokenizer_config == {"name": "x", "params": {"a": [1]}}
    assert (shards.fingerprint, shards.key, shards.corpus) == ("f" * 16, "k", {"name": "mine"})


def test_tokens_are_a_view_of_the_file_and_opened_anew_in_another_process(folder):
    shards = Shards(folder)
    first = shards.tokens(0)
    assert first.dtype == np.uint16
    assert np.shares_memory(first, shards.tokens(0))
    with pytest.raises(ValueError, match=r"read-only"):
        first[0] = 1
    data = pickle.dumps(shards)
    assert len(data) < 500
    np.testing.assert_array_equal(pickle.loads(data).tokens(1), PIECES[1])


@pytest.mark.parametrize(("size", "wrong"), [(65536, 1.5), (65536, -1), (65536, 65536), (10, 10)])
def test_ids_beyond_uint16_or_the_vocabulary_are_refused(size, wrong):
    vocabulary = Vocabulary.of(("x", 5, size))
    assert vocabulary.as_ids([7, size - 1]).tolist() == [7, size - 1]
    with pytest.raises(ValueError, match="expected"):
        vocabulary.as_ids([wrong])


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_file_names_that_are_no_text_survive(tmp_path):
    name = os.fsdecode(b"caf\xe9\n.mid")
    with writer(tmp_path / "s") as out:
        add(out, PIECES[0], name=name, split="train")
        out.write_text("report.txt", name)
    assert Shards(tmp_path / "s").pieces()[0].name == name


def in_header(**values):
    return lambda data: json.dumps(json.loads(data) | values).encode()


def first_line(line):
    return lambda data: b"\n".join([line, *data.splitlines()[1:]]) + b"\n"


@pytest.mark.parametrize(
    ("file", "words", "change"),
    [
        ("tokens.bin", r"tokens.bin has \d+ bytes instead of 16", lambda b: b[:-1]),
        ("tokens.bin", r"tokens.bin has \d+ bytes instead of 16", lambda b: b + b"\0\0"),
        ("tokens.bin", "tokens.bin is missing", None),
        ("pieces.jsonl", "pieces.jsonl", lambda b: b[: len(b) // 2]),
        ("pieces.jsonl", "pieces.jsonl", lambda b: b.replace(b"a/b", b"a/c")),
        ("pieces.jsonl", "pieces.jsonl", first_line(b"\xff\xfe")),
        ("pieces.jsonl", "pieces.jsonl", first_line(b"[" * 200_000)),
        ("header.json", "not a folder of token shards .*musictx prepare", None),
        *(("header.json", "header.json", lambda _, it=it: it) for it in (b"", b"{}", b"[1]")),
        *(("header.json", "header.json", lambda _, it=it: it) for it in (b"\xff", b"[" * 200_000)),
        *(("header.json", "header.json has no valid", in_header(tokens=it)) for it in ("8", None)),
        ("header.json", "header.json has no valid", in_header(vocabulary=True)),
        ("header.json", f"format {FORMAT + 1}", in_header(format=FORMAT + 1)),
    ],
)
def test_whatever_is_damaged_is_refused_on_opening(folder, file, words, change):
    path = folder / file
    path.unlink() if change is None else path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=words) as caught:
        Shards(folder)
    assert "\n" not in str(caught.value)


def test_ids_in_the_file_that_are_beyond_the_vocabulary_are_refused_where_they_are_read(tmp_path):
    shards = make_shards(tmp_path / "s", [np.array([3, TOKENIZER.vocabulary.size]), np.array([1])])
    shards.check(TOKENIZER)
    assert shards.tokens(1).tolist() == [1]
    with pytest.raises(UserError, match="train-0 has ids beyond its vocabulary"):
        shards.tokens(0)
