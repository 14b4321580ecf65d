"""The example docs/examples/remi.py, as tests name it: ``tokenizer.name=tests.docs.remi:Remi``."""

from docs.examples.remi import Remi

__all__ = ["Remi"]
