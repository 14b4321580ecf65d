"""What a hint answers exists: each command and option that it names is one of ours."""

from __future__ import annotations

import shlex

import pytest

from musictx import compose
from musictx.compose import hints
from musictx.compose.commands import known_options

GROUPS = {name for command in compose.COMMANDS for name in compose.groups(command)}


def understood(words: list[str]) -> None:
    """``words`` are a command and options that it has, or a flag of musictx itself."""
    command, *rest = words
    if command.startswith("--"):
        return
    assert command in compose.COMMANDS
    for word in rest:
        name, equals, _ = word.partition("=")
        known = {*known_options(command), *compose.groups(command)}
        assert word == "--help" or (equals and name in known), word


@pytest.mark.parametrize("group", hints.GROUP_SYNONYMS)
def test_a_synonym_stands_for_a_group(group):
    assert group in GROUPS


@pytest.mark.parametrize("command", compose.COMMANDS)
def test_words_of_other_programs_are_no_options_of_ours_and_lead_to_one(command):
    known = [*known_options(command), *compose.groups(command)]
    for option, words in hints.also(command).items():
        for word in words if option in known else ():
            assert word in known or option in hints.meant(command, word, known)


@pytest.mark.parametrize("other", hints.SPELLINGS)
def test_a_foreign_command_leads_to_one_of_ours(other):
    assert other not in compose.COMMANDS
    understood(shlex.split(hints.SPELLINGS[other].partition(" (")[0]))
