"""The description of a command: everything that help and hints show."""

from __future__ import annotations

from dataclasses import dataclass

from musictx.config import checks


@dataclass(frozen=True)
class Command:
    """One command of ``musictx``.

    name        the word that is typed
    config      its dataclass of options
    run         import path ``package.module:function`` of what is called with that dataclass
    about       what it does, in a sentence
    examples    lines to try
    positional  the option that words without "=" are the value of; "" for none
    important   dotted options that the short help shows together with those without a dot
    comes       what comes with musictx that it takes: "models", "melodies", "openings"
    spellings   other words that are typed for it, in other programs or countries
    tried       of its examples, one for the overview, and what it does; () for none
    before      the command of the core that help lists after it; "" for the end of the list
    """

    name: str
    config: type
    run: str
    about: str
    examples: tuple[str, ...] = ()
    positional: str = ""
    important: tuple[str, ...] = ()
    comes: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    tried: tuple[str, str] | tuple[()] = ()
    before: str = ""

    def spoken(self) -> dict[str, str]:
        """What people type -> the option, where that is no name in Python (from -> begin)."""
        named = [(checks.spoken(name, f), name) for name, f in checks.options(self.config)]
        return {word: name for word, name in named if word != name}
