"""The command line: reads arguments, calls the one function that does it, prints what it returns.

Importing it is cheap, and so must every command's own imports be that does not talk to a model.
"""

import os
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from nanomem import __version__, logs
from nanomem.errors import Misuse, NanomemError
from nanomem.home import Home, make, resolve
from nanomem.settings import Settings, load, masked, provider_of, secrets, set_values, zone


@dataclass
class _Asked:
    """What the options say that every command takes."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    home: str | None = None
    debug: bool = False

    def place(self) -> Home:
        return resolve(self.home, self.environ)

    def settings(self) -> Settings:
        settings = load(self.place().config, self.environ)
        for secret in secrets(settings, self.environ):
            logs.add_secret(secret)
        return settings

    def zone(self) -> tzinfo:
        return zone(self.settings().agents.defaults.timezone, self.environ)

    def ready(self) -> tuple[Home, Settings]:
        """With the home made."""
        make(self.place())
        return self.place(), self.settings()

    def log(self, settings: Settings, quiet: bool) -> None:
        """Sets up logging; where a person types, plain news would be in the way."""
        level = "warning" if quiet and settings.log.level == "info" else settings.log.level
        logs.configure(level, settings.log.format, debug=self.debug)


def _with_shared(own: list[Any], ctx: Any) -> list[Any]:
    """The options of `nanomem` itself, which may stand after the command, too."""
    root = ctx.find_root().command.params
    return [*own, *(param for param in root if param not in own and param.name in ("home", "debug"))]


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_shared(super().get_params(ctx), ctx)


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _with_shared(super().get_params(ctx), ctx)


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
    return typer.Typer(
        cls=_Group, help=help, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )


app = _typer("A chat agent that runs for years, with a memory its owner can trust.")
config = _typer("The settings.")
sessions = _typer("The conversations.")
app.add_typer(config, name="config")
app.add_typer(sessions, name="sessions")


@app.callback()
def options(
    home: Annotated[
        str | None,
        typer.Option(
            "--home",
            help="The home folder (else NANOMEM_HOME, else ~/.nanomem).",
            callback=_remember_home,
            expose_value=False,
        ),
    ] = None,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show more when it fails.", callback=_remember_debug, expose_value=False),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command(cls=_Command)
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
    asked: _Asked = ctx.obj
    home, settings = asked.ready()
    given = _Choice(model, api_key, api_base, timezone, telegram_token, allow_from, owner)
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not yes
    if on_terminal:
        _ask(given, settings)
    if changes := given.changes(settings):
        set_values(home.config, changes)
    print(f"{home.path} is ready. Next: nanomem run")
    settings = asked.settings()
    if on_terminal and settings.channels.telegram.enabled and not settings.channels.telegram.allow_from:
        from nanomem import daemon

        _invite(daemon.pair(home, settings, asked.environ))


@dataclass
class _Choice:
    """What a person wants set at the start; None: as it is."""

    model: str | None
    api_key: str | None
    api_base: str | None
    timezone: str | None
    token: str | None
    allow_from: str | None
    owner: str | None

    def changes(self, settings: Settings) -> dict[str, object]:
        model = self.model or settings.agents.defaults.model
        if model == "offline" and (self.api_key or self.api_base):
            raise Misuse("A key or address needs the model it is for: --model, e.g. anthropic/claude-sonnet-4-5.")
        provider = f"providers.{provider_of(model)}"
        wanted = {
            "agents.defaults.model": self.model,
            f"{provider}.api_key": self.api_key,
            f"{provider}.api_base": self.api_base,
            "agents.defaults.timezone": self.timezone,
            "channels.telegram.token": self.token,
            "channels.telegram.enabled": "true" if self.token else None,
            "channels.telegram.allow_from": self.allow_from,
            "channels.telegram.owner": self.owner,
        }
        return {key: value for key, value in wanted.items() if value is not None}


def _ask(given: _Choice, settings: Settings) -> None:
    """Asks for what no option said; the answer to start with is what is set now."""
    defaults = settings.agents.defaults
    if given.model is None:
        given.model = typer.prompt("Model (offline needs no key)", default=defaults.model)
    if given.api_key is None and given.model != "offline":
        given.api_key = _hidden("Its API key (empty: as it is)")
    if given.timezone is None:
        given.timezone = typer.prompt("Time zone", default=defaults.timezone)
    if given.token is None:
        given.token = _hidden("Telegram token from @BotFather (empty: as it is)")


def _hidden(question: str) -> str | None:
    return typer.prompt(question, default="", show_default=False, hide_input=True).strip() or None


@app.command(cls=_Command)
def run(ctx: typer.Context) -> int:
    """Serve all enabled channels until stopped."""
    home, settings = ctx.obj.ready()
    interactive = sys.stdin.isatty() and not settings.channels.telegram.enabled
    ctx.obj.log(settings, quiet=interactive)
    from nanomem import daemon

    return int(daemon.run(home, settings, ctx.obj.environ, interactive))


@app.command(cls=_Command)
def chat(
    ctx: typer.Context,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Say this, print the answer, end.")] = None,
    session: Annotated[str, typer.Option(help="terminal:NAME")] = "terminal:local",
) -> int:
    """Talk in the terminal."""
    if not re.fullmatch(r"terminal:[^\s:]+", session) or not session.isprintable():
        raise Misuse(f"--session {session!r} is not a conversation of the terminal; use terminal:NAME.")
    if message is not None and not message.strip():
        raise Misuse("--message is empty; say something.")
    home, settings = ctx.obj.ready()
    ctx.obj.log(settings, quiet=True)
    from nanomem import daemon

    return int(daemon.chat(home, settings, ctx.obj.environ, message, session))


@app.command(cls=_Command)
def pair(ctx: typer.Context) -> None:
    """Print a code; who sends it to the bot may talk to it."""
    home, settings = ctx.obj.ready()
    ctx.obj.log(settings, quiet=True)
    from nanomem import daemon

    _invite(daemon.pair(home, settings, ctx.obj.environ))


def _invite(code: str) -> None:
    print(code)
    print(f"Who sends this to the bot within 15 minutes may talk to it: /start {code}", file=sys.stderr)


@app.command(cls=_Command)
def status(ctx: typer.Context, json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Say whether it runs, and what there is."""
    home, settings = ctx.obj.place(), ctx.obj.settings()
    from json import dumps

    from nanomem import daemon

    found: dict[str, Any] = daemon.status(home, settings, ctx.obj.environ)
    print(dumps(found, ensure_ascii=False) if json else "\n".join(status_lines(found)))


def status_lines(found: Mapping[str, Any]) -> list[str]:
    """The status for people, a line each."""
    messages, history, today = found["messages"], found["history"], found["today"]
    channels = [
        f"{name}: {'off' if not channel['enabled'] else 'ok' if channel['ok'] else channel['error'] or 'not connected'}"
        for name, channel in found["channels"].items()
    ]
    rows = {
        "nanomem": f"{found['version']}, " + (f"running (pid {found['pid']})" if found["running"] else "not running"),
        "model": found["model"],
        "channels": ", ".join(channels) or "none",
        "spaces": f"{found['spaces']}, with {found['sessions']} sessions",
        "messages": f"{messages['waiting']} waiting, {messages['undelivered']} undelivered, "
        f"{messages['set_aside']} set aside",
        "memory": f"{found['memory']['facts']} facts, {found['memory']['versions']} versions",
        "history": f"{history['cursor']} entries, {history['dream_cursor']} learnt from",
        "dream": f"last {found['dream']['last'] or 'never'}, next {found['dream']['next'] or 'never'}",
        "today": f"{today['prompt_tokens']} tokens in ({today['cached_tokens']} cached), "
        f"{today['completion_tokens']} out, {today['cost_usd']:.4f} USD",
    }
    return [f"{name:<10}{value}" for name, value in rows.items()]


@app.command(cls=_Command)
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
        todo = f"; {finding.todo}" if finding.todo else ""
        print(logs.redact(f"{finding.state:<6}{finding.what}{todo}"))
    return int(any(finding.state == "fail" for finding in findings))


@config.command("path", cls=_Command)
def config_path(ctx: typer.Context) -> None:
    """Where the settings are."""
    print(ctx.obj.place().config)


@config.command("show", cls=_Command)
def config_show(ctx: typer.Context) -> None:
    """The settings as they count now, secrets masked."""
    print(masked(ctx.obj.settings()), end="")


@config.command("set", cls=_Command, context_settings={"ignore_unknown_options": True})
def config_set(ctx: typer.Context, key: str, value: str) -> None:
    """Change one setting in the file, e.g. agents.defaults.memory_window 50."""
    make(ctx.obj.place())
    set_values(ctx.obj.place().config, {key: value})


@sessions.command("list", cls=_Command)
def sessions_list(ctx: typer.Context) -> None:
    """All conversations, the newest first: last change, messages, key."""
    from nanomem import transcripts
    from nanomem.chat import plain

    for found in transcripts.list_sessions(ctx.obj.place(), ctx.obj.zone()):
        print(f"{found.updated_at or 'never':<18}{found.messages:>6}  {plain(found.key)}")


@sessions.command("show", cls=_Command)
def sessions_show(ctx: typer.Context, key: str) -> None:
    """What was said in one of them."""
    from nanomem import transcripts
    from nanomem.chat import plain

    for line in transcripts.show(ctx.obj.place(), key, ctx.obj.zone()):
        print(plain(line))


@sessions.command("export", cls=_Command)
def sessions_export(ctx: typer.Context, key: str) -> None:
    """Its records, one JSON object a line."""
    from nanomem import transcripts

    transcripts.export(ctx.obj.place(), key)


def main() -> NoReturn:
    """The program: one line on stderr for whatever goes wrong, 2 for misuse, 1 for a failure."""
    asked = _Asked()
    try:
        command = typer.main.get_command(app)
        code = command.main(prog_name="nanomem", standalone_mode=False, obj=asked)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        code = 1
    except typer.TyperException as error:
        code = _complain(f"{error.format_message().rstrip('.')}. See: nanomem --help", 2, False)
    except NanomemError as error:
        code = _complain(error.text, 2 if isinstance(error, Misuse) else 1, asked.debug)
    except Exception as error:
        more = "" if asked.debug else " This is a bug; --debug shows more."
        code = _complain(f"{type(error).__name__}: {error}.{more}", 1, asked.debug)
    _leave(code if isinstance(code, int) else 0)


def _complain(text: str, code: int, debug: bool) -> int:
    if debug:
        sys.stderr.write(logs.redact(traceback.format_exc()))
    line = " ".join(logs.redact(text).split())
    print("nanomem: " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in line), file=sys.stderr)
    return code


def _leave(code: int) -> NoReturn:
    """Exits; a reader that went away is no error to report while what is left is written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
