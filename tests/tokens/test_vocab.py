"""The vocabulary table: ids, tokens and columns say the same."""

import pytest

from musictx.errors import UserError
from musictx.tokens.vocab import Vocabulary

TABLE = Vocabulary.of(("note", 21, 108), ("shift", 1, 100))


def test_ids_and_tokens_are_inverse_and_the_columns_agree():
    for token_id in range(TABLE.size):
        kind, value = TABLE.token(token_id)
        assert TABLE.id(kind, value) == token_id
        assert TABLE.kinds[TABLE.kind_of[token_id]] == kind
        assert TABLE.value_of[token_id] == value
    assert TABLE.kind_of.shape == TABLE.value_of.shape == (TABLE.size,)
    with pytest.raises(ValueError, match="read-only"):
        TABLE.value_of[0] = 1


def test_the_fingerprint_changes_with_any_row():
    others = [
        Vocabulary.of(("note", 21, 108), ("shift", 1, 101)),
        Vocabulary.of(("note", 20, 107), ("shift", 1, 100)),
        Vocabulary.of(("shift", 1, 100), ("note", 21, 108)),
        Vocabulary.of(("pitch", 21, 108), ("shift", 1, 100)),
    ]
    assert len({TABLE.fingerprint, *(o.fingerprint for o in others)}) == 5
    assert TABLE.fingerprint == Vocabulary.of(("note", 21, 108), ("shift", 1, 100)).fingerprint


def test_values_outside_are_refused_with_the_range():
    with pytest.raises(ValueError, match="note 109: expected a value from 21 to 108"):
        TABLE.id("note", 109)
    with pytest.raises(ValueError, match=f"token id {TABLE.size}: expected 0 to"):
        TABLE.token(TABLE.size)
    with pytest.raises(ValueError, match="kind 'pitch': expected one of pad, bos"):
        TABLE.range("pitch")
    with pytest.raises(UserError, match=r"tokenizer: .*70005 ids, which do not fit uint16"):
        Vocabulary.of(("note", 0, 70000))
