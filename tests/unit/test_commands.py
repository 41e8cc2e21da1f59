"""What is a command, and what is text that begins with a slash."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.agent.commands import parse


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", ("new", "")),
        ("/NEW", ("new", "")),
        ("/new@nanomem_bot", ("new", "")),
        ("/remember@nanomem_bot I like tea ", ("remember", "I like tea")),
        ("/remember I like\ntea", ("remember", "I like\ntea")),
        ("/dream_log 3", ("dream-log", "3")),
        ("/dream-log 3", ("dream-log", "3")),
        ("/start ABC123", ("start", "ABC123")),
        ("/2", ("2", "")),
    ],
)
def test_commands(text: str, command: tuple[str, str]) -> None:
    """A slash, a name, perhaps a bot's name, then a space or the end."""
    assert parse(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "/etc/hosts is a file",
        "/",
        "//",
        "/ new",
        "new",
        "say /new",
        "/new.",
        "/new, please",
        "/naïve",
        "/new@",
        "",
        "/@bot",
    ],
)
def test_what_is_text(text: str) -> None:
    """Paths, fractions, punctuation and everything else."""
    assert parse(text) is None


name = st.text("abcXYZ019_-", min_size=1, max_size=20)
bot = st.just("") | st.from_regex(r"@[a-z_]{1,10}", fullmatch=True)


@given(name, bot, st.text())
def test_a_name_and_anything_behind_a_space(name: str, bot: str, argument: str) -> None:
    """Is a command, with its argument as it was typed but for the space around it."""
    assert parse(f"/{name}{bot} {argument}") == (name.lower().replace("_", "-"), argument.strip())


@given(st.text() | st.text("/aA @_-.é", max_size=10))
def test_nothing_else_is_one(text: str) -> None:
    """Whatever a person types."""
    is_command = re.match(r"/[A-Za-z0-9_-]+(@\w+)?(\s|\Z)", text.strip()) is not None
    assert (parse(text) is not None) == is_command
