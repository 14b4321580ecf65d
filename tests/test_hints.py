"""What a hint answers exists: each command and option that it names is one of ours."""

from __future__ import annotations

import re
import shlex

import pytest

from musictx import compose
from musictx.compose import hints
from musictx.compose.commands import known_options

OPTIONS = {name for command in compose.COMMANDS for name in known_options(command)}
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


@pytest.mark.parametrize("option", hints.ELSEWHERE)
def test_what_is_elsewhere_is_where_the_hint_says(option):
    sentence = hints.ELSEWHERE[option]
    for command in re.findall(r"musictx (\w+)", sentence):
        assert option in known_options(command)
    for name in re.findall(r"([\w./]+)=", sentence):
        assert name in OPTIONS | GROUPS or name == "hydra/sweeper", name


@pytest.mark.parametrize("command", compose.COMMANDS)
def test_no_command_is_told_of_music_that_it_does_not_read(command):
    """``harmonise key=C`` was answered with a primer, which harmonise does not have."""
    for option in ("tempo", "key", "instrument"):
        answer = hints.unknown_option(command, option, [])
        named = set(re.findall(r"\w+", answer)) & {"primer", "melody", "file"}
        assert named <= set(known_options(command))
