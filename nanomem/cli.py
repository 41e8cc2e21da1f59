"""The command line: reads arguments, calls the one function that does it, prints what it returns.

Importing it is cheap, and so must every command's own imports be that does not talk to a model.
"""

import gc
import os
import re
import shlex
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from nanomem import __version__, logs
from nanomem.errors import Misuse, NanomemError, Refused, Stop
from nanomem.home import Home, make, open_to_others, resolve, to_close, try_writing
from nanomem.settings import Settings, load, masked, secrets, set_values, zone


@dataclass
class _Asked:
    """What the options say that every command takes."""

    environ: Mapping[str, str]
    home: str | None = None
    debug: bool = False

    def place(self) -> Home:
        return resolve(self.home, self.environ)

    def existing(self) -> Home:
        """For commands that only read: the home, which a slip of the pen must not make. Raises Stop."""
        if missing := self._missing():
            raise Stop(missing)
        return self.place()

    def say_if_missing(self) -> None:
        """For commands that have an answer all the same."""
        if missing := self._missing():
            print(missing, file=sys.stderr)

    def _missing(self) -> str:
        if self.place().is_there():
            return ""
        path = self.place().path
        return f"There is no home at {path}. Make one: nanomem init --home {shlex.quote(str(path))}"

    def settings(self) -> Settings:
        settings = load(self.place().config, self.environ)
        for secret in secrets(settings, self.environ):
            logs.add_secret(secret)
        return settings

    def zone(self) -> tzinfo:
        return zone(self.settings().agents.defaults.timezone, self.environ)

    def ready(self, quiet: bool = True) -> tuple[Home, Settings]:
        """With the home made and logging set up; where a person types, plain news would be in the way."""
        make(self.place())
        settings = self.settings()
        level = "error" if quiet and settings.log.level in ("info", "warning") else settings.log.level
        logs.configure(level, settings.log.format, debug=self.debug)
        return self.place(), settings


def _remember_home(ctx: typer.Context, value: str | None) -> None:
    if value is not None:
        ctx.obj.home = value


def _remember_debug(ctx: typer.Context, value: bool) -> None:
    ctx.obj.debug = ctx.obj.debug or value


def _say_version(value: bool) -> None:
    if value:
        print(f"nanomem {__version__}")
        raise typer.Exit


def _typer(help: str) -> typer.Typer:
    return typer.Typer(help=help, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


app = _typer("A chat agent that runs for years, with a memory its owner can trust.")
config = _typer("The settings.")
memory = _typer("What is known, and where it is from.")
sessions = _typer("The conversations.")
app.add_typer(config, name="config")
app.add_typer(memory, name="memory")
app.add_typer(sessions, name="sessions")

_HOME = typer.Option(
    "--home",
    help="The home folder (else NANOMEM_HOME, else ~/.nanomem).",
    callback=_remember_home,
    expose_value=False,
)
_DEBUG = typer.Option("--debug", help="Show more when it fails.", callback=_remember_debug, expose_value=False)
_VERSION = typer.Option("--version", help="Show the version.", callback=_say_version, is_eager=True)


@app.callback()
def options(
    home: Annotated[str | None, _HOME] = None,
    debug: Annotated[bool, _DEBUG] = False,
    version: Annotated[bool, _VERSION] = False,
) -> None:
    pass


@app.command()
def init(
    ctx: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing.")] = False,
    model: Annotated[str | None, typer.Option(help="A litellm model name, e.g. anthropic/claude-sonnet-4-5.")] = None,
    api_key: Annotated[str | None, typer.Option(help="The model's key, or env:NAME, or file:PATH.")] = None,
    api_base: Annotated[str | None, typer.Option(help="Another address of the model's provider.")] = None,
    timezone: Annotated[str | None, typer.Option(help="E.g. Europe/Berlin.")] = None,
    telegram_token: Annotated[str | None, typer.Option(help="From @BotFather; switches Telegram on.")] = None,
    allow_from: Annotated[str | None, typer.Option(help="Numeric user ids that may talk, with commas.")] = None,
    owner: Annotated[str | None, typer.Option(help="Those of them that are the owner.")] = None,
) -> None:
    """Make the home folder; what is there already stays as it is."""
    from nanomem import init as first

    given = first.Given(model, api_key, api_base, timezone, telegram_token, allow_from, owner)
    given.check()
    home, settings = ctx.obj.ready()
    try_writing(home)
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not yes
    if on_terminal:
        given = first.ask(given, settings)
    set_values(home.config, given.values(settings))
    print(f"{home.path} is ready. Next: nanomem run")
    telegram = ctx.obj.settings().channels.telegram
    if telegram.enabled and not telegram.allow_from:
        if on_terminal:
            pair(ctx)
        else:
            print("Nobody may talk to the bot yet. To let somebody in: nanomem pair")


@app.command()
def run(ctx: typer.Context) -> int:
    """Serve all enabled channels until stopped."""
    gc.disable()  # what a start makes stays: a tenth of it would be looking through that
    interactive = sys.stdin.isatty() and not ctx.obj.settings().channels.telegram.enabled
    home, settings = ctx.obj.ready(quiet=interactive)
    if found := open_to_others([home.path, home.config]):
        _warn_of(found, home, interactive)
    from nanomem import running

    return running.run(home, settings, ctx.obj.environ, interactive)


def _warn_of(found: Path, home: Home, interactive: bool) -> None:
    """Others may read a token there; a person at a terminal is told in person."""
    todo = to_close(home.path)
    if interactive:
        print(f"Others may reach {found}. To keep them out: {todo}", file=sys.stderr)
        return
    import structlog

    structlog.get_logger().warning("home.open_to_others", path=str(found), todo=todo)


@app.command()
def chat(
    ctx: typer.Context,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Say this, print the answer, end.")] = None,
    session: Annotated[str, typer.Option(help="terminal:NAME")] = "terminal:local",
) -> int:
    """Talk in the terminal."""
    if not re.fullmatch(r"terminal:[^\s:]+", session):
        raise Misuse(f"--session {session!r} is not a conversation of the terminal; use terminal:NAME.")
    if message is not None and not message.strip():
        raise Misuse("--message is empty; say something.")
    home, settings = ctx.obj.ready()
    from nanomem import running

    return running.chat(home, settings, ctx.obj.environ, message, session)


@app.command()
def pair(ctx: typer.Context) -> None:
    """Print a code; who sends it to the bot may talk to it."""
    home, settings = ctx.obj.ready()
    from nanomem import running

    code = running.pair(home, settings, ctx.obj.environ)
    print(code)
    print(f"Who sends this to the bot within 15 minutes may talk to it: /start {code}", file=sys.stderr)
    if not settings.channels.telegram.enabled:
        todo = "set channels.telegram.token and channels.telegram.enabled, or run nanomem init; then start it anew"
        print(f"Telegram is switched off, so no bot listens yet: {todo}.", file=sys.stderr)


@app.command()
def status(ctx: typer.Context, json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Say whether it runs, and what there is."""
    from json import dumps

    from nanomem import running
    from nanomem import status as reports

    ctx.obj.say_if_missing()
    found = running.status(ctx.obj.place(), ctx.obj.settings(), ctx.obj.environ)
    print(dumps(found, ensure_ascii=False) if json else "\n".join(reports.lines(found, ctx.obj.zone())))


@app.command()
def doctor(ctx: typer.Context) -> int:
    """Check what it stands on; exit 1 where something fails."""
    import asyncio

    from nanomem.doctor import examine

    settings: Settings | Misuse
    try:
        settings = ctx.obj.settings()
    except Misuse as error:
        settings = error
    findings = asyncio.run(examine(ctx.obj.place(), settings, ctx.obj.environ))
    for finding in findings:
        line = f"{finding.what.rstrip('.')}; {finding.todo}" if finding.todo else finding.what
        print(logs.redact(f"{finding.state:<6}{line}"))
    return int(any(finding.state == "fail" for finding in findings))


@config.command("path")
def config_path(ctx: typer.Context) -> None:
    """Where the settings are."""
    print(ctx.obj.place().config)


@config.command("show")
def config_show(ctx: typer.Context) -> None:
    """The settings as they count now, secrets masked."""
    ctx.obj.say_if_missing()
    print(masked(ctx.obj.settings()), end="")


@config.command("set", context_settings={"ignore_unknown_options": True})
def config_set(ctx: typer.Context, key: str, value: str) -> None:
    """Change one setting: KEY VALUE.

    For example: nanomem config set agents.defaults.memory_window 50
    """
    make(ctx.obj.place())
    set_values(ctx.obj.place().config, {key: value})


_Space = Annotated[str, typer.Option("--space", help="Whose: owner, or as in telegram:42.")]


def _ask_memory(ctx: typer.Context, space: str, what: str, argument: str = "") -> None:
    ctx.obj.existing()
    home, settings = ctx.obj.ready()
    from nanomem import running
    from nanomem.chat import plain

    if what in ("why", "search") and not argument.strip():
        raise Misuse("Say what to look for: some words of it.")
    if what == "search":
        _check_search(argument)
    print(plain(running.memory(home, settings, ctx.obj.environ, space, what, argument)))


def _check_search(argument: str) -> None:
    """Raises Misuse."""
    from datetime import UTC, datetime

    from nanomem.recall.typed import typed

    try:
        typed(argument, datetime.now(UTC))
    except Refused as error:
        raise Misuse(error.text) from None


@memory.command("show")
def memory_show(ctx: typer.Context, space: _Space = "owner") -> None:
    """The three files."""
    _ask_memory(ctx, space, "show")


@memory.command("log")
def memory_log(ctx: typer.Context, space: _Space = "owner") -> None:
    """All versions, the newest first."""
    _ask_memory(ctx, space, "log")


@memory.command("diff")
def memory_diff(
    ctx: typer.Context, version: Annotated[int | None, typer.Argument(min=1)] = None, space: _Space = "owner"
) -> None:
    """What a version changed, the newest if none is named."""
    _ask_memory(ctx, space, "diff", str(version or ""))


@memory.command("restore")
def memory_restore(ctx: typer.Context, version: Annotated[int, typer.Argument(min=1)], space: _Space = "owner") -> None:
    """The files as they were at a version, as a new version."""
    _ask_memory(ctx, space, "restore", str(version))


@memory.command("why")
def memory_why(ctx: typer.Context, words: list[str], space: _Space = "owner") -> None:
    """Where the facts with these words come from."""
    _ask_memory(ctx, space, "why", " ".join(words))


@memory.command("search")
def memory_search(
    ctx: typer.Context,
    words: Annotated[list[str] | None, typer.Argument()] = None,
    space: _Space = "owner",
    who: Annotated[str, typer.Option(help="Only what was said by those with this in their name.")] = "",
    since: Annotated[str, typer.Option(help="A day, month or year: 2026-03-05, 2026-03, 2026.")] = "",
    until: Annotated[str, typer.Option(help="The same; that day is part of it.")] = "",
    near: Annotated[str, typer.Option(help="Messages around each result, up to 4.")] = "",
    page: Annotated[str, typer.Option(help="Further results.")] = "",
) -> None:
    """What was said, ever: words, or a question."""
    given = {"who": f'"{who}"' if who else "", "since": since, "until": until, "near": near, "page": page}
    options = [f"--{name} {value}" for name, value in given.items() if value]
    _ask_memory(ctx, space, "search", " ".join([*(words or []), *options]))


@memory.command("rebuild")
def memory_rebuild(ctx: typer.Context, space: _Space = "owner") -> None:
    """Make HISTORY.md fit history.jsonl again."""
    _ask_memory(ctx, space, "rebuild")


@sessions.command("list")
def sessions_list(ctx: typer.Context) -> None:
    """All conversations, the newest first: last change, messages, key."""
    from nanomem import transcripts
    from nanomem.chat import plain

    for found in transcripts.list_sessions(ctx.obj.existing(), ctx.obj.zone()):
        print(f"{found.updated_at or 'never':<18}{found.messages:>6}  {plain(found.key)}")


@sessions.command("show")
def sessions_show(ctx: typer.Context, key: str) -> None:
    """What was said in one of them."""
    from nanomem import transcripts
    from nanomem.chat import plain

    for line in transcripts.show(ctx.obj.existing(), key, ctx.obj.zone()):
        print(plain(line))


@sessions.command("export")
def sessions_export(ctx: typer.Context, key: str) -> None:
    """Its records, one JSON object a line."""
    from nanomem import transcripts

    transcripts.export(ctx.obj.existing(), key)


def main() -> NoReturn:
    """The program: one line on stderr for whatever goes wrong, 2 for misuse, 1 for a failure."""
    asked = _Asked(os.environ)
    command = typer.main.get_command(app)
    _share(command, [param for param in command.params if param.name in ("home", "debug")])
    try:
        code = command.main(prog_name="nanomem", standalone_mode=False, obj=asked)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # whoever read the output went away, which is their right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except typer.TyperException as error:
        code = _complain(f"{_plainly(error.format_message())}. See: {_path_of(error)} --help", 2, False)
    except NanomemError as error:
        code = _complain(error.text, 2 if isinstance(error, Misuse) else 1, asked.debug)
    except Exception as error:
        more = "" if asked.debug else " This is a bug; --debug shows more."
        code = _complain(f"{type(error).__name__}: {error}.{more}", 1, asked.debug)
    sys.exit(code if isinstance(code, int) else 0)


def _plainly(said: str) -> str:
    """What typer says is wrong, without its own words for kinds of numbers."""
    return re.sub(r"is not a valid int(eger)?( range)?\b", "is not a whole number", said.rstrip(".?"))


def _path_of(error: Exception) -> str:
    """The command that was misused."""
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context else "nanomem"


def _share(group: Any, options: list[Any]) -> None:
    """These options of `nanomem` itself may stand after any command, too."""
    for command in group.commands.values():
        command.params += options
        if hasattr(command, "commands"):
            _share(command, options)


def _complain(text: str, code: int, debug: bool) -> int:
    if debug:
        sys.stderr.write(logs.redact(traceback.format_exc()))
    line = " ".join(logs.redact(text).split())
    print("nanomem: " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in line), file=sys.stderr)
    return code
