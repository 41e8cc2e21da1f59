"""Logs: one form for all, and no secret in any of it. Each story runs in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem import logs

KEY = "canary-Key/0123456789+x"
TOKEN = "123456789:AAcanary-token_0123456789abcdefghij"

Said = Callable[..., list[str]]


@pytest.fixture
def said(guarded_env: Callable[[Path], dict[str, str]], tmp_path: Path) -> Said:
    """`said(code, format, level, debug)`: the lines on stderr of a program that logs; nothing is on stdout."""

    def run(code: str, format: str = "json", level: str = "info", debug: bool = False) -> list[str]:
        start = f"import logging, structlog\nfrom nanomem import logs\nlogs.configure({level!r}, {format!r}, {debug})\n"
        program = f"{start}logs.add_secret({KEY!r})\nlog = structlog.get_logger('nanomem.story')\n{code}\n"
        env = {**guarded_env(tmp_path), "PYTHONIOENCODING": "utf-8"}
        checkout = Path(logs.__file__).parent.parent
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, cwd=checkout)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        return done.stderr.splitlines()

    return run


def test_an_event_is_a_line_of_json(said: Said) -> None:
    """With its level, logger and time in UTC; `auto` is the same where stderr is no terminal."""
    for format in ("json", "auto"):
        (line,) = said("log.info('turn.finished', turn='t#1', tokens=5, text='grüß\\ndich')", format)
        event = json.loads(line)
        assert event.pop("timestamp").endswith("+00:00")
        assert event == {
            "event": "turn.finished",
            "turn": "t#1",
            "tokens": 5,
            "text": "grüß\ndich",
            "level": "info",
            "logger": "nanomem.story",
        }


def test_the_console_form_is_a_line_too(said: Said) -> None:
    """Whatever is in the event."""
    (line,) = said("log.info('turn.finished\\x1b[2J', turn='t#1\\n')", "console")
    assert "turn.finished" in line
    assert "turn=" in line
    assert "\x1b[2J" not in line


@pytest.mark.parametrize(
    ("level", "debug", "lines"), [("warning", False, 0), ("info", False, 1), ("debug", False, 2), ("error", True, 2)]
)
def test_the_level_is_for_our_own_events(said: Said, level: str, debug: bool, lines: int) -> None:
    """`--debug` shows all of them; other libraries stay at warnings."""
    code = "log.info('a.b'); log.debug('a.c'); logging.getLogger('httpx').info('GET'); logging.getLogger('x').info('y')"
    assert len(said(code, level=level, debug=debug)) == lines


def test_warnings_of_other_libraries_come_in_our_form(said: Said) -> None:
    """Also of those that bring a handler of their own, and Python's warnings."""
    code = """
import sys, warnings
for name in ('LiteLLM', 'asyncio'):
    logging.getLogger(name).addHandler(logging.StreamHandler(sys.stdout))
    logging.getLogger(name).warning('slow %s', 'answer')
warnings.warn('old')
"""
    found = [json.loads(line) for line in said(code)]
    assert [event["event"] for event in found[:2]] == ["slow answer", "slow answer"]
    assert found[2]["logger"] == "py.warnings"


SPEAKERS = """
log.info('said {0}', key='{0}')
log.info('x', deep={{'a': ['{0}', ('{0}',)]}}, data=b'{0}', error=ValueError('{0}'))
logging.getLogger('httpx').warning('GET https://api.example.org/%s/getMe?key=%s', '{0}', '{0}')
logging.getLogger('other').error('x', extra={{'k': '{0}'}}, stack_info=True)
logging.getLogger('other').error('%d', '{0}')
try: raise ValueError('{0}')
except ValueError: log.exception('x')
try: raise ValueError('{0}')
except ValueError: logging.getLogger('other').exception('x %s', '{0}')
try:
    try: raise KeyError('{0}')
    except KeyError as error: raise OSError('{0}') from error
except OSError: log.exception('x')
"""


@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize("secret", [KEY, TOKEN, "sk-ant-canary0123456789"])
def test_no_secret_is_in_a_line(said: Said, secret: str, format: str) -> None:
    """A known one or what looks like a token: in events, values, exceptions and tracebacks, ours and foreign."""
    lines = said(SPEAKERS.format(secret), format)
    assert len(lines) >= 7
    assert [line for line in lines if "canary" in line] == []


def test_a_secret_can_be_added_later(said: Said) -> None:
    """From then on it is hidden."""
    (line,) = said("logs.add_secret('later-canary'); log.info('x', key='later-canary')")
    assert json.loads(line)["key"] == "***"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=6))
def test_a_secret_hides_in_every_spelling(secret: str) -> None:
    """Plain, in JSON, in a repr."""
    hide = type(logs.redact)()
    hide.add(secret)
    for spelling in (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
    ):
        assert hide(f"<{spelling}>") == "<***>"


def test_what_looks_like_a_key_hides() -> None:
    """Bearer headers and passwords in addresses; ordinary words do not."""
    assert logs.redact("Authorization: Bearer abcdefghijkl") == "Authorization: Bearer ***"
    assert logs.redact(f"GET https://api.telegram.org/bot{TOKEN}/getMe") == "GET https://api.telegram.org/bot***/getMe"
    assert logs.redact("https://ann:pass@example.org/x") == "https://***@example.org/x"
    assert logs.redact("task-based-anything-you-like at 12:30") == "task-based-anything-you-like at 12:30"


def test_importing_the_command_line_is_cheap() -> None:
    """What does not talk does not load what only talking needs."""
    program = "import sys, nanomem.cli; assert not {'structlog', 'asyncio', 'tomlkit', 'httpx'} & set(sys.modules)"
    checkout = Path(logs.__file__).parent.parent
    subprocess.run([sys.executable, "-c", program], check=True, cwd=checkout)
