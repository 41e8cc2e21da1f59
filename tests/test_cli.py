"""The command line as a person and a script meet it: a process with a home of its own."""

import asyncio
import json
import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nanomem.doctor import Finding, examine
from nanomem.errors import Misuse
from nanomem.home import Home, make
from nanomem.settings import load, set_value, set_values
from nanomem.status import lines
from nanomem.tools import sandbox
from tests.emulators import OpenAIServer
from tests.emulators.telegram import TelegramServer
from tests.models.toy import toy_model

CHECKOUT = Path(__file__).parent.parent
KEY = "sk-canary-0123456789abcdef"
TOKEN = "123456789:AAcanary-token_0123456789abcdefghij"

Done = subprocess.CompletedProcess[str]
Nanomem = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def nanomem(guarded_env: Callable[[Path], dict[str, str]], home: Home) -> Nanomem:
    """`nanomem("config", "path", NAME="value")` runs it with that environment, without a terminal."""

    def run(*arguments: str, **environ: str) -> Done:
        env = {**guarded_env(home.path), **environ}
        command = [sys.executable, "-m", "nanomem", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env, cwd=CHECKOUT, stdin=subprocess.DEVNULL)

    return run


def one_line(done: Done, code: int) -> str:
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done
    return done.stderr


def test_init_makes_a_home_that_the_doctor_likes(nanomem: Nanomem, home: Home) -> None:
    """Without a key, a network or a question; a second time nothing changes."""
    assert nanomem("init").returncode == 0
    before = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    assert nanomem("init", "--yes").returncode == 0
    assert {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()} == before

    done = nanomem("doctor")
    assert done.returncode == 0, done
    states = {line.split()[0] for line in done.stdout.splitlines()}
    assert states <= {"ok", "warn"}
    assert not (home.state / ".doctor").exists()


def test_init_takes_options_and_shows_no_secret(nanomem: Nanomem, home: Home) -> None:
    """The key goes to the provider of the model; a token switches Telegram on."""
    options = ["--model", "openai/gpt-5", "--api-key", KEY, "--api-base", "http://127.0.0.1:1/v1"]
    options += ["--timezone", "Europe/Berlin", "--telegram-token", TOKEN, "--allow-from", "1, 2", "--owner", "2"]
    done = nanomem("init", "--yes", *options)
    assert done.returncode == 0, done
    settings = load(home.config, {})
    assert settings.agents.defaults.model == "openai/gpt-5"
    assert settings.providers["openai"].api_key.reveal({}) == KEY
    assert settings.channels.telegram.enabled
    assert settings.channels.telegram.owners == (2,)
    shown = nanomem("config", "show")
    assert "canary" not in done.stdout + done.stderr + shown.stdout + shown.stderr


def test_a_wrong_option_changes_nothing(nanomem: Nanomem, home: Home) -> None:
    """The new settings are checked as a whole before any is written."""
    nanomem("init")
    before = home.config.read_bytes()
    said = one_line(nanomem("init", "--timezone", "Mars/Base", "--model", "openai/gpt-5"), 2)
    assert "Mars/Base" in said
    assert "--model" in one_line(nanomem("init", "--api-key", KEY), 2)
    assert home.config.read_bytes() == before


@pytest.mark.parametrize(("option", "words"), [("--timezone=Mars/Base", "Mars/Base"), ("--telegram-token=oops", "123")])
def test_what_is_plainly_wrong_makes_no_home(nanomem: Nanomem, home: Home, option: str, words: str) -> None:
    """It is said before anything is written."""
    said = one_line(nanomem("init", "--yes", option), 2)
    assert words in said and "oops" not in said
    assert not home.path.exists()


def test_init_asks_again_until_it_fits(guarded_env: Callable[[Path], dict[str, str]], home: Home) -> None:
    """Of a person at a terminal: a time zone that there is, a token in the shape of one."""
    answers = ["", "Mars/Base", "Europe/Berlin", "oops", TOKEN]
    asks = ["needs no key) [offline]: ", "Time zone [auto]: ", "Time zone [auto]: ", "as it is): ", "as it is): "]
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "nanomem", "init"]
    with subprocess.Popen(
        command, env=guarded_env(home.path), cwd=CHECKOUT, stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True,
    ) as process:  # fmt: skip
        os.close(terminal)

        def heard(until: str = "\0") -> str:
            """What comes up to there, or to the end."""
            said = ""
            with suppress(OSError):  # how a terminal ends
                while until not in said and select.select([ours], [], [], 100)[0]:
                    said += os.read(ours, 1).decode("latin-1")
            return said

        for asked, answer in zip(asks, answers, strict=True):
            assert asked in (said := heard(asked)), said
            os.write(ours, f"{answer}\n".encode())
        said = heard()
    os.close(ours)
    assert (process.returncode, "is ready" in said, "/start " in said) == (0, True, True), said
    settings = load(home.config, {})
    assert settings.agents.defaults.timezone == "Europe/Berlin"
    assert settings.channels.telegram.token.reveal({}) == TOKEN


def test_pairing_says_what_is_still_to_do(nanomem: Nanomem) -> None:
    """Where Telegram is off a code is of no use yet; where it is on, somebody has to be let in."""
    nanomem("init", "--yes")
    off = nanomem("pair")
    assert (len(off.stdout.split()), "channels.telegram.enabled" in off.stderr) == (1, True)
    assert "nanomem pair" in nanomem("init", "--yes", "--telegram-token", TOKEN).stdout
    on = nanomem("pair")
    assert (len(on.stdout.split()), "switched off" in on.stderr) == (1, False)
    assert "Nobody" not in nanomem("init", "--yes", "--allow-from", "42").stdout


@pytest.mark.parametrize(
    "command",
    [
        *("memory show", "memory why tea", "memory restore 1", "sessions list", "sessions show x", "sessions export x"),
        *("config show", "status", "status --json", "doctor"),
    ],
)
def test_who_only_reads_makes_no_home(nanomem: Nanomem, home: Home, command: str) -> None:
    """A misspelt --home is said. Whether it runs there is answered all the same, and which settings would count."""
    done = nanomem(*command.split())
    if command.startswith(("status", "config")):
        assert done.returncode == 0 and "no home" in done.stderr
        if "--json" in command:
            assert json.loads(done.stdout)["running"] is False
    elif command == "doctor":
        assert done.returncode == 1 and f"{home.path} is not there" in done.stdout
    else:
        assert f"There is no home at {home.path}. Make one: nanomem init" in one_line(done, 1)
    assert not home.path.exists()


@pytest.mark.skipif(sandbox.probe() is not None, reason="needs bubblewrap")
def test_a_home_that_cannot_be_written_is_said(guarded_env: Callable[[Path], dict[str, str]], home: Home) -> None:
    """By whatever tries to: init, which has nothing to make there, the doctor, a chat."""
    make(home)
    bwrap = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(home.path), str(home.path)]
    for command, code in (("init --yes", 1), ("doctor", 1), ("chat -m hello", 1)):
        run = [*bwrap, sys.executable, "-m", "nanomem", *command.split()]
        done = subprocess.run(run, capture_output=True, text=True, env=guarded_env(home.path), cwd=CHECKOUT)
        said = done.stdout + done.stderr
        assert (done.returncode, "Mount it for writing" in said) == (code, True), done
        assert "ready" not in said and "nanomem init" not in said


def test_the_home_may_be_named_before_or_after_the_command(nanomem: Nanomem, tmp_path: Path) -> None:
    """And wins over the variable."""
    there = str(tmp_path / "there")
    for arguments in (["--home", there, "config", "path"], ["config", "--home", there, "path"]):
        assert nanomem(*arguments).stdout == f"{there}/config.toml\n"
    assert nanomem("config", "path", f"--home={there}").stdout == f"{there}/config.toml\n"


def test_settings_can_be_shown_and_set(nanomem: Nanomem, home: Home) -> None:
    """Set in the file with its comments kept; shown as they count, secrets masked."""
    assert nanomem("config", "set", "agents.defaults.memoryWindow", "50").returncode == 0
    assert "memory_window = 50  " in home.config.read_text()
    assert nanomem("config", "set", "providers.openai.api_key", KEY).returncode == 0
    shown = nanomem("config", "show", NANOMEM__LOG__LEVEL="debug").stdout
    assert "memory_window = 50" in shown
    assert 'level = "debug"' in shown
    assert 'api_key = "***"' in shown
    assert KEY not in shown


def test_misuse_is_one_line_and_exit_2(nanomem: Nanomem, home: Home) -> None:
    """Wrong settings, arguments, homes."""
    assert "agents.defaults.model" in one_line(nanomem("config", "set", "agents.defaults.modle", "x"), 2)
    assert "0 or more" in one_line(nanomem("config", "set", "agents.defaults.memory_window", "-1"), 2)
    assert "NANOMEM__LOG__LEVEL" in one_line(nanomem("config", "show", NANOMEM__LOG__LEVEL="loud"), 2)
    assert "--bogus" in one_line(nanomem("run", "--bogus"), 2)
    assert "frobnicate" in one_line(nanomem("frobnicate"), 2)
    assert "--help" in one_line(nanomem(), 2)
    assert "nanomem memory --help" in one_line(nanomem("memory"), 2)
    said = one_line(nanomem("memory", "diff", "abc"), 2)
    assert "'abc' is not a whole number" in said and "nanomem memory diff --help" in said
    for session in ("telegram:5", "terminal:", "terminal", "terminal:a b"):
        assert "terminal:NAME" in one_line(nanomem("chat", "-m", "x", "--session", session), 2)
    assert "--home" in one_line(nanomem("init", "--home", str(home.config)), 2)
    assert "--home" in one_line(nanomem("init", "--home", ""), 2)


def test_a_file_that_is_no_toml_is_named_in_full(nanomem: Nanomem, home: Home) -> None:
    """By who would change it."""
    make(home)
    home.config.write_text("[log\n")
    assert str(home.config) in one_line(nanomem("config", "set", "log.level", "debug"), 2)


def test_a_wrong_search_is_misuse(nanomem: Nanomem, home: Home) -> None:
    """Before anything is searched."""
    make(home)
    assert "'notadate'" in one_line(nanomem("memory", "search", "tea", "--since", "notadate"), 2)
    assert "--near takes" in one_line(nanomem("memory", "search", "tea", "--near", "99"), 2)


def test_help_is_not_cut(nanomem: Nanomem) -> None:
    """The short line of each command ends as a sentence does."""
    for group in ("", "config", "memory", "sessions"):
        listed = nanomem(*group.split(), "--help").stdout.partition("Commands:\n")[2].splitlines()
        assert listed and [line for line in listed if not line.endswith(".") or "e.g." in line] == []


def test_a_traceback_comes_only_with_debug(nanomem: Nanomem) -> None:
    """And has no secret in it."""
    done = nanomem("config", "set", "agents.defaults.modle", KEY, "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert KEY.removeprefix("sk-") not in done.stderr


def test_version_and_help(nanomem: Nanomem) -> None:
    """On stdout."""
    assert nanomem("--version").stdout.startswith("nanomem ")
    for command in ("init", "run", "chat", "pair", "status", "doctor", "config", "sessions"):
        assert command in nanomem("--help").stdout
    assert "--home" in nanomem("run", "--help").stdout


def test_a_reader_that_goes_away_is_no_error(
    guarded_env: Callable[[Path], dict[str, str]], home: Home, nanomem: Nanomem
) -> None:
    """Nothing is printed about it."""
    make(home)
    command = [sys.executable, "-m", "nanomem", "config", "show"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=guarded_env(home.path), cwd=CHECKOUT, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_doctor_fails_on_what_is_broken(nanomem: Nanomem, home: Home) -> None:
    """A missing home, broken settings: a line that says what to do, and exit 1."""
    done = nanomem("doctor")
    assert (done.returncode, "nanomem init" in done.stdout) == (1, True)
    make(home)
    home.config.write_text("[log]\nlevel = 5\n")
    done = nanomem("doctor")
    assert done.returncode == 1
    assert done.stdout.startswith("fail  config: config.toml: log.level = 5")
    assert "disk:" in done.stdout


def test_a_missing_token_is_said_with_its_setting(nanomem: Nanomem) -> None:
    """It stops the start with one line; the doctor says the same, and the command that helps."""
    nanomem("init", "--yes")
    nanomem("config", "set", "channels.telegram.enabled", "true")
    said = one_line(nanomem("run"), 2)
    assert "channels.telegram.token = env:TELEGRAM_BOT_TOKEN: that variable is not set" in said
    line = next(line for line in nanomem("doctor").stdout.splitlines() if "telegram:" in line)
    assert line.startswith("fail  telegram: channels.telegram.token = env:") and ".;" not in line
    said = one_line(nanomem("run", NANOMEM__CHANNELS__TELEGRAM__TOKEN="file:/not/there"), 2)
    assert "channels.telegram.token = file:/not/there: there is no such file" in said


async def findings(about: str, home: Home, **environ: str) -> list[Finding]:
    found = await examine(home, load(home.config, environ), environ)
    return [finding for finding in found if finding.what.startswith(about)]


async def finding(about: str, home: Home, **environ: str) -> Finding:
    return (await findings(about, home, **environ))[0]


async def test_the_doctor_sees_what_others_may_read(home: Home) -> None:
    """With the command that mends it."""
    make(home)
    assert (await finding("files", home)).state == "ok"
    home.config.chmod(0o644)
    found = await finding("files", home)
    assert (found.state, "config.toml" in found.what, "chmod" in found.todo) == ("warn", True, True)


async def test_the_doctor_accepts_a_copy_without_state(nanomem: Nanomem, home: Home) -> None:
    """As a backup of a running daemon is made: the next start makes what is missing."""
    make(home)
    shutil.rmtree(home.state)
    found = await finding("files", home)
    assert (found.state, str(home.state) in found.what) == ("warn", True)
    assert (await finding("disk", home)).state != "fail"
    assert nanomem("doctor").returncode == 0
    assert not home.state.exists() and not (home.path / ".doctor").exists()
    assert nanomem("chat", "-m", "hello").returncode == 0


@pytest.mark.parametrize("name", [".", "config.toml"])
def test_a_start_warns_of_what_others_may_reach(
    guarded_env: Callable[[Path], dict[str, str]], home: Home, name: str
) -> None:
    """Of the home and the settings, which may have a token in them; of one that is closed it says nothing."""
    make(home)
    env = guarded_env(home.path)

    def started() -> str:
        command = [sys.executable, "-m", "nanomem", "run"]
        pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=env, cwd=CHECKOUT, text=True, **pipes) as process:  # type: ignore[call-overload]
            heard = ""
            for line in process.stderr:
                heard += line
                if "daemon.ready" in line:
                    process.terminate()
            return heard

    assert "home.open_to_others" not in started()
    (home.path / name).chmod(0o755)
    said = next(line for line in started().splitlines() if "home.open_to_others" in line)
    assert str(home.path / name) in said and f"chmod -R go-rwx {home.path}" in said


async def test_the_doctor_asks_the_models(home: Home, provider: OpenAIServer) -> None:
    """For a word each: with a right key, a wrong one, none, nobody there, a provider that there is not."""
    make(home)
    assert (await finding("model", home)).state == "ok"
    environ = {
        "NANOMEM__PROVIDERS__OPENAI__API_BASE": provider.base_url,
        "NANOMEM__PROVIDERS__OPENAI__API_KEY": KEY,
        "NANOMEM__PROVIDERS__DEEPSEEK__API_BASE": provider.base_url,
        "NANOMEM__PROVIDERS__DEEPSEEK__API_KEY": "sk-canary",
        "NANOMEM__AGENTS__DEFAULTS__MODEL": "openai/test-model",
        "NANOMEM__AGENTS__CONSOLIDATION__MODEL": "deepseek/test-model",
        "NANOMEM__AGENTS__DREAM__MODEL": "antropic/claude-sonnet-4-5",
    }
    right, wrong, unknown = await findings("model", home, **environ)
    assert right == Finding("ok", "model: openai/test-model answers")
    assert (wrong.state, "refused the key" in wrong.what, "canary" in str(wrong)) == ("fail", True, False)
    assert "config set providers.deepseek.api_key" in wrong.todo
    assert (unknown.state, "knows no provider" in unknown.what) == ("fail", True)
    await provider.offline()
    environ["NANOMEM__AGENTS__CONSOLIDATION__MODEL"] = "anthropic/claude-sonnet-4-5"
    away, keyless, _ = await findings("model", home, **environ)
    assert (away.state, "cannot be reached" in away.what) == ("warn", True)
    assert (keyless.state, "ANTHROPIC_API_KEY" in keyless.what) == ("fail", True)


async def test_the_doctor_sees_a_secret_that_is_missing_among_further_keys(home: Home) -> None:
    """Where the model needs it; the other findings stand."""
    make(home)
    environ = {"NANOMEM__PROVIDERS__OPENAI__ORGANIZATION": "env:NOT_SET"}
    assert (await finding("model", home, **environ)).state == "ok"
    set_value(home.config, "agents.defaults.model", "openai/test-model")
    found = await finding("model", home, **environ)
    assert (found.state, "providers.openai.organization = env:NOT_SET" in found.what) == ("fail", True)


async def test_the_doctor_looks_at_what_makes_vectors(home: Home, provider: OpenAIServer) -> None:
    """A model elsewhere, and one in a folder, by a word each."""
    make(home)
    set_value(home.config, "memory.embeddings", "openai/text-embedding-3-small")
    base = {"NANOMEM__PROVIDERS__OPENAI__API_BASE": provider.base_url}
    right = {"NANOMEM__PROVIDERS__OPENAI__API_KEY": KEY}
    assert (await finding("vectors", home, **base)).state == "fail"
    assert (await finding("vectors", home, **base, **right)).state == "ok"
    set_value(home.config, "memory.embeddings", "local:models/toy")
    found = await finding("vectors", home)
    assert (found.state, str(home.path / "models" / "toy") in found.what) == ("warn", True)
    (home.path / "models" / "toy").mkdir(parents=True)
    assert "cannot be used" in (await finding("vectors", home)).what
    toy_model(home.path / "models" / "toy")
    assert (await finding("vectors", home)) == Finding("ok", "vectors: local:models/toy")


def test_search_goes_by_words_where_its_model_is_missing(nanomem: Nanomem, home: Home) -> None:
    """Nothing else is stopped by that."""
    assert nanomem("init", "--yes").returncode == 0
    set_value(home.config, "memory.embeddings", "local:models/none")
    assert nanomem("chat", "-m", "My puppy ate a shoe").returncode == 0
    done = nanomem("memory", "search", "puppy")
    assert ("shoe" in done.stdout, done.stderr, done.returncode) == (True, "", 0)


@pytest.fixture
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer(api_key=KEY) as server:
        yield server


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(TOKEN) as server:
        yield server


async def test_the_doctor_tries_the_token(home: Home, telegram: TelegramServer) -> None:
    """A right one, a wrong one, none, no network; the token itself is never shown."""
    make(home)
    assert (await finding("telegram", home)).state == "ok"
    prefix = "channels.telegram"
    set_values(home.config, {f"{prefix}.enabled": True, f"{prefix}.base_url": telegram.base_url})
    assert (await finding("telegram", home)).state == "fail"
    set_value(home.config, f"{prefix}.token", TOKEN)
    assert "nanomem pair" in (await finding("telegram", home)).todo
    set_value(home.config, f"{prefix}.allow_from", [42])
    assert (await finding("telegram", home)).state == "ok"
    set_value(home.config, f"{prefix}.token", TOKEN[:-1])
    wrong = await finding("telegram", home)
    assert (wrong.state, "BotFather" in wrong.todo) == ("fail", True)
    await telegram.offline()
    away = await finding("telegram", home)
    assert away.state == "warn"
    assert "canary" not in str([wrong, away])


def test_settings_that_cannot_be_read_are_a_finding(home: Home) -> None:
    """The rest is looked at all the same."""
    make(home)
    findings = asyncio.run(examine(home, Misuse("log.level is wrong"), {}))
    assert findings[0].state == "fail"
    assert len(findings) > 4


def test_what_was_said_can_be_read_again(nanomem: Nanomem) -> None:
    """Without any key: an answer alone on stdout, its conversation listed, shown, exported; no daemon is left."""
    done = nanomem("chat", "-m", "hello", "--session", "terminal:story")
    assert (done.returncode, done.stderr) == (0, "")
    answer = done.stdout.strip()
    assert answer
    assert nanomem("sessions", "list").stdout.rstrip().endswith("terminal:story")
    assert answer.splitlines()[0] in nanomem("sessions", "show", "terminal:story").stdout
    exported = [json.loads(line) for line in nanomem("sessions", "export", "terminal:story").stdout.splitlines()]
    assert [record["content"] for record in exported if record.get("role") == "user"] == ["hello"]
    assert "terminal:other" in one_line(nanomem("sessions", "show", "terminal:other"), 2)
    status = json.loads(nanomem("status", "--json").stdout)
    assert (status["running"], status["pid"], status["sessions"]) == (False, None, 1)
    assert len(nanomem("pair").stdout.split()) == 1


def test_status_is_a_few_plain_lines_for_people() -> None:
    """Aligned, and with times as people know them."""
    run = {"space": "owner", "new": 3, "reworded": 1, "out": 0, "reason": ""}
    found: dict[str, Any] = {
        **{"version": "0.1.0", "running": True, "pid": 7, "model": "offline", "spaces": 1, "sessions": 2},
        "channels": {"telegram": {"enabled": True, "ok": False, "error": "wrong token"}},
        "messages": {"waiting": 3, "undelivered": 0, "set_aside": 0},
        "memory": {"facts": 12, "versions": 7},
        "history": {"cursor": 12, "dream_cursor": 10},
        "dream": {"last": None, "next": "2026-04-11T02:00:00+00:00", "runs": [], "passed_over": []},
        "today": {"prompt_tokens": 5000, "completion_tokens": 6, "cached_tokens": 4, "cost_usd": 0.0},
    }
    zone = ZoneInfo("Europe/Berlin")
    assert lines(found, zone) == [
        "nanomem   0.1.0, running, pid 7",
        "model     offline",
        "telegram  on, but: wrong token",
        "sessions  2, in 1 space",
        "messages  3 waiting, 0 undelivered, 0 set aside",
        "memory    12 facts, 7 versions",
        "history   12 entries, 10 of them learnt from",
        "learning  last never, next 2026-04-11 04:00",
        "today     5,006 tokens (4 cached), $0.0000",
    ]
    passed = {"batch": "entries 1-3", "reason": "too long"}
    found |= {"running": False, "channels": {"telegram": {"enabled": True, "ok": False, "error": None}}}
    found["dream"] = {"last": "2026-12-31T23:30:00+00:00", "next": None, "runs": [run], "passed_over": [passed]}
    told = lines(found, zone)
    assert told[0] == "nanomem   0.1.0, not running" and told[2] == "telegram  on"
    assert told[7:10] == [
        "learning  last 2027-01-01 00:30, next only when asked",
        "learnt    3 in, 1 reworded, 0 out (owner)",
        "unread    1, the newest: entries 1-3 (too long)",
    ]
