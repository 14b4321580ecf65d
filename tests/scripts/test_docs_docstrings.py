"""Docstrings on the site: lists stay lists, code stays code, no word is lost."""

import inspect
import re

import pytest

import musictx
from musictx.attention import RelativeAttention, attend
from musictx.attention.terms import Terms
from musictx.model import MusicTransformer
from scripts.docs.docstrings import markdown

PUBLIC = [getattr(musictx, name) for name in sorted(musictx._WHERE)]
PUBLIC += [RelativeAttention, RelativeAttention.forward, attend, Terms, MusicTransformer.forward]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", re.sub(r":\w+:`(?:~(?:\w+\.)*)?", "", text))


@pytest.mark.parametrize("documented", PUBLIC, ids=lambda one: getattr(one, "__name__", str(one)))
def test_no_word_of_a_docstring_is_lost(documented):
    text = inspect.getdoc(documented)
    assert words(markdown(text)) == words(text)


def test_arguments_become_a_list_and_examples_stay_code():
    text = """Sum of two.

a, b   numbers, or
       arrays;  of one shape
*more  others

Raises :class:`~musictx.errors.UserError` for text. An example::

    add(1,  2)
    add(3)
"""
    assert (
        markdown(text)
        == """Sum of two.

- `a`, `b`: numbers, or
  arrays;  of one shape
- `*more`: others

Raises `UserError` for text. An example:

    add(1,  2)
    add(3)"""
    )
