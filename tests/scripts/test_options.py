"""name=value: types by the default, mistakes in one sentence."""

import pytest

from musictx.errors import UserError

DEFAULTS = {"count": 3, "share": 0.5, "on": False, "names": [], "path": None}


def test_values_have_the_type_of_their_default(script):
    read = script("options").read
    assert read([], DEFAULTS) == DEFAULTS
    words = ["count=4", "share=1", "on=True", "names=[a, b]", "path=a=b"]
    wanted = {"count": 4, "share": 1.0, "on": True, "names": ["a", "b"], "path": "a=b"}
    assert read(words, DEFAULTS) == wanted
    assert read(["names=a,b"], DEFAULTS)["names"] == ["a", "b"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("cuont=4", "cuont=4: expected one of count=..., share="),
        ("count", "count: expected one of"),
        ("count=1.5", "count=1.5: expected a whole number"),
        ("share=-1", "share=-1: expected a number from 0"),
        ("share=nan", "share=nan: expected a number from 0"),
        ("on=yes", "on=yes: expected true or false"),
    ],
)
def test_mistakes_are_told(script, word, told):
    with pytest.raises(UserError, match=told):
        script("options").read([word], DEFAULTS)
