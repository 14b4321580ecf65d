"""What a hint answers exists: each command and option that it names is one of ours."""

from __future__ import annotations

import shlex

import pytest

from musictx import compose
from musictx.compose import hints
from musictx.compose.commands import known_options, parts

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


@pytest.mark.parametrize("command", compose.COMMANDS)
def test_a_word_without_a_dot_is_answered_with_no_limit(command):
    known = [*known_options(command), *parts(command), *compose.groups(command)]
    for word in ("tracks", "notes", "seconds", "events", "track"):
        assert not [one for one in hints.meant(command, word, known) if "limits." in one]


def test_an_option_of_other_commands_is_said_to_be_theirs():
    for command, name, theirs in (
        ("generate", "tracks", "musictx infill"),
        ("generate", "style", "musictx accompany"),
        ("infill", "seconds", "musictx generate, musictx play, musictx compare"),
    ):
        known = [*known_options(command), *parts(command), *compose.groups(command)]
        said = f"{name}: no such option of musictx {command}; it is an option of {theirs}; "
        assert hints.unknown_option(command, name, known).startswith(said)
    assert "it is an option of" not in hints.unknown_option("generate", "tempo", ["seed"])
