"""The types that editors see are made from the options; mypy reads them in public_types.py."""

from scripts import stub


def test_the_stub_is_what_the_dataclasses_make():
    """Else: python -m scripts.stub"""
    assert stub.STUB.read_text(encoding="utf-8") == stub.text()
