"""Looks at everything nanomem stands on and says what to do about what is wrong. Changes nothing, prints nothing."""

import os
import shlex
import sysconfig
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Literal

from nanomem.errors import CannotStore, Misuse, NanomemError, NotNow, Refused, Stop, TellUser
from nanomem.home import Home, open_to_others, to_close, to_own, try_writing
from nanomem.messages import PromptMessage, Request
from nanomem.models.frames import Reach
from nanomem.models.litellm_process import ApartEmbedder, ApartModel, LitellmProcess
from nanomem.settings_schema import Exec, Settings, Telegram, provider_of
from nanomem.wiring import reached

_VOCABULARY = "litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790"  # o200k_base, in litellm
_TELEGRAM_TIMEOUT_S = 5.0
_MODEL_TIMEOUT_S = 30.0
_SLOW_WRITE_MS = 100
# Python runs these files at every start, which is how a stolen release of a package once took people's keys.
_KNOWN_PTH = frozenset({"distutils-precedence.pth", "_virtualenv.pth", "_editable_impl_nanomem.pth", "_nanomem.pth"})

Providers = Callable[[], Mapping[str, Reach]]
"""How each is reached; raises Misuse where a secret is missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at and how it is, and what to do where it is not well."""

    state: Literal["ok", "warn", "fail"]
    what: str
    todo: str = ""


async def examine(home: Home, settings: Settings | Misuse, environ: Mapping[str, str]) -> list[Finding]:
    """Everything at once; settings that could not be read are one of the findings."""
    if not home.path.is_dir():
        return [Finding("fail", f"home: {home.path} is not there", "run: nanomem init")]
    rest = [_files(home), _disk(home), _tokenizer(), _startup_files()]
    if isinstance(settings, Misuse):
        return [Finding("fail", f"config: {settings.text}", f"correct {home.config}"), *rest]
    return [
        Finding("ok", f"config: {home.config}"),
        *rest,
        await _memory(home),
        _versions(home, settings.memory.remote),
        _remote(home, settings.memory.remote),
        *await _models(home, settings, environ),
        _sandbox(settings.tools.exec),
        await _telegram(settings.channels.telegram, environ),
    ]


def _files(home: Home) -> Finding:
    """The files of the program and the owner; `versions/` is left to git."""
    if not home.workspace.is_dir():
        return Finding("fail", f"files: {home.path} is not complete", "run: nanomem init")
    try:
        try_writing(home)
    except Stop as error:
        return Finding("fail", f"files: {error.text}")
    folders = [home.path, home.state, home.workspace, home.workspace / "memory", home.workspace / "sessions"]
    found = [path for folder in folders if folder.is_dir() for path in (folder, *folder.glob("*"))]
    files = [path for path in found if not path.is_symlink()]
    for path in files:
        if not os.access(path, os.R_OK | os.W_OK):
            return Finding("fail", f"files: {path} cannot be written", f"run: {to_own(home.path)}")
    if open_one := open_to_others(files):
        return Finding("warn", f"files: others may reach {open_one}", f"run: {to_close(home.path)}")
    if not home.state.is_dir():
        return Finding("warn", f"files: {home.state} is not there", "the next start makes it; what it held is lost")
    return Finding("ok", "files: only you can read them")


async def _memory(home: Home) -> Finding:
    """Whether what is known can be read and written, in every space."""
    from nanomem.stores.memory_files import PlainWorkingFiles

    for space in home.known_spaces():
        try:
            await PlainWorkingFiles().read(space)
        except Refused as error:
            return Finding("warn", f"memory: {error.text}")
        folder = space.root / "memory"
        if (folder / ".cursor").exists() and not (folder / "history.jsonl").exists():
            todo = f"put {folder / 'history.jsonl'} back from a backup; HISTORY.md and its .before have the text"
            return Finding("warn", f"memory: the history of {space.name} is gone", todo)
    return Finding("ok", "memory: its files can be read and written")


def _disk(home: Home) -> Finding:
    from nanomem.stores import durable

    sample = (home.state if home.state.is_dir() else home.path) / ".doctor"
    began = time.perf_counter()
    try:
        durable.replace(sample, b"x" * 1024)
        spent_ms = (time.perf_counter() - began) * 1000
        sample.unlink()
    except (NanomemError, OSError) as error:
        return Finding("fail", f"disk: {error}", "make room, or mend the disk")
    what = f"disk: to write and sync a file takes {spent_ms:.0f} ms"
    if spent_ms > _SLOW_WRITE_MS:
        return Finding("warn", what, "a quieter or faster disk answers sooner")
    return Finding("ok", what)


def _tokenizer() -> Finding:
    litellm = find_spec("litellm")
    if litellm and litellm.origin and (Path(litellm.origin).parent / _VOCABULARY).is_file():
        return Finding("ok", "tokenizer: its vocabulary is here, no network needed")
    return Finding("fail", "tokenizer: the vocabulary o200k_base is missing", "install nanomem again: scripts/run")


def _startup_files() -> Finding:
    found = {path.name for path in Path(sysconfig.get_path("purelib")).glob("*.pth")}
    if unknown := ", ".join(sorted(found - _KNOWN_PTH)):
        return Finding("warn", f"packages: {unknown} may run code at every start of Python", "see who put it there")
    return Finding("ok", "packages: no unknown code runs at the start of Python")


def _versions(home: Home, remote: str) -> Finding:
    """Whether all that was ever known can be read."""
    from nanomem.stores.repository import ids, repositories

    found = repositories(home.versions)
    try:
        number = sum(len(ids(path)) for path in found)
    except CannotStore as error:
        return Finding("fail", f"versions: {error.text}")
    if remote and not which("git"):
        return Finding("warn", "versions: git is missing, so they cannot be pushed", "install git")
    spaces = f" of {len(found)} spaces" if len(found) > 1 else ""
    return Finding("ok", f"versions: {number}{spaces}, all can be read")


def _remote(home: Home, url: str) -> Finding:
    """What the newest pushes left behind; the network is not asked."""
    from nanomem.stores.remote import behind, branch_of, checked, trouble
    from nanomem.stores.repository import ids, repositories

    if not url:
        return Finding("ok", "remote: none; the versions are on this machine only")
    found = repositories(home.versions)
    try:
        checked(url)
        missing = {path: number for path in found if (number := behind(path, url))}
        number = sum(len(ids(path)) for path in found)
    except Misuse as error:
        return Finding("fail", f"remote: {error.text}", "nanomem config set memory.remote URL")
    except CannotStore:
        return Finding("warn", "remote: not looked at, since versions cannot be read")
    if not missing:
        what = f"pushed up to version {number}" if len(found) == 1 else f"all {number} versions are pushed"
        return Finding("ok", f"remote: {what}")
    reasons = filter(None, map(trouble, missing))
    count = sum(missing.values())
    are = "versions are" if count > 1 else "version is"
    what = f"remote: {count} {are} not pushed: {next(reasons, 'no daemon has done it yet')}"
    path = next(iter(missing))
    by_hand = f"git -C {shlex.quote(str(path))} push URL main:{branch_of(path.name)}"
    return Finding("warn", what, f"a running daemon tries again; by hand: {by_hand}")


async def _models(home: Home, settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Each model that is set says a word: only then is it known that key, name and address are right."""
    agents, litellm, providers = settings.agents, LitellmProcess(), partial(reached, settings, environ)
    names = dict.fromkeys([agents.defaults.model, agents.consolidation.model, agents.dream.model])
    most = agents.defaults.max_completion_tokens
    try:
        found = [await _model(name, litellm, providers, most) for name in names if name]
        if wanted := settings.memory.embeddings:
            found.append(await _vectors(wanted, home, litellm, providers))
        return found
    finally:
        await litellm.close()


async def _model(name: str, litellm: LitellmProcess, providers: Providers, most: int) -> Finding:
    if name == "offline":
        todo = "for a real one: nanomem config set agents.defaults.model anthropic/claude-sonnet-4-5"
        return Finding("ok", "model: offline, which needs nothing", todo)
    hello = Request("", (PromptMessage("user", "Say hello."),), max_tokens=most)

    def asking() -> Awaitable[object]:
        return ApartModel(name, providers(), litellm, timeout_s=_MODEL_TIMEOUT_S).ask(hello)

    return await _asked(f"model: {name}", name, asking)


async def _asked(what: str, model: str, asking: Callable[[], Awaitable[object]]) -> Finding:
    """What became of a call."""
    try:
        await asking()
    except (NotNow, Misuse) as error:
        todo = f"nanomem config set providers.{provider_of(model)}.api_key KEY, or name another model"
        return Finding("fail", f"{what}: {error.text}", todo)
    except NanomemError as error:
        return Finding("warn", f"{what}: {error.text}", "check the network and api_base, or try again later")
    return Finding("ok", f"{what} answers")


async def _vectors(wanted: str, home: Home, litellm: LitellmProcess, providers: Providers) -> Finding:
    """Whether recall can have vectors; a local model is tried, another one is asked."""
    from nanomem.models.local_embedding import LOCAL, LocalEmbedder, folder_of, trouble

    if found := trouble(wanted, home.path):
        return Finding("warn", f"vectors: {found[0]}; recall goes by words", found[1])
    if not wanted.startswith(LOCAL):

        def asking() -> Awaitable[object]:
            return ApartEmbedder(wanted, providers(), litellm, timeout_s=_MODEL_TIMEOUT_S).embed(["hello"])

        return await _asked(f"vectors: {wanted}", wanted, asking)
    try:
        await LocalEmbedder(folder_of(wanted, home.path)).embed(["hello"])
    except TellUser as error:
        return Finding("warn", f"vectors: {error.text}; recall goes by words", "see memory.embeddings")
    return Finding("ok", f"vectors: {wanted}")


def _sandbox(exec: Exec) -> Finding:
    if not exec.enabled:
        return Finding("ok", "sandbox: running commands is switched off")
    if exec.sandbox == "none":
        return Finding("warn", "sandbox: none, commands can reach whatever you can", "set tools.exec.sandbox")
    from nanomem.tools import sandbox

    if problem := sandbox.probe():
        return Finding("warn", f"sandbox: commands are off: {problem}", "install bubblewrap (apt install bubblewrap)")
    return Finding("ok", "sandbox: bubblewrap works")


async def _telegram(telegram: Telegram, environ: Mapping[str, str]) -> Finding:
    if not telegram.enabled:
        return Finding("ok", "telegram: switched off")
    try:
        token = telegram.token.reveal(environ)
    except Misuse as error:
        return Finding("fail", f"telegram: {error.text}", "nanomem config set channels.telegram.token TOKEN")
    import httpx

    try:
        async with httpx.AsyncClient(timeout=_TELEGRAM_TIMEOUT_S, proxy=telegram.proxy or None) as client:
            status = (await client.get(f"{telegram.base_url}{token}/getMe")).status_code
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:  # their texts may have the token
        return Finding("warn", f"telegram: no answer ({type(error).__name__})", "check the network, base_url and proxy")
    if status in (401, 404):
        return Finding("fail", "telegram: the token is not valid", "get one from @BotFather and set it")
    if status != 200:
        return Finding("warn", f"telegram: it answers with {status}", "try again later; check base_url")
    if not telegram.allow_from:
        return Finding("warn", "telegram: the token works, but nobody may talk to the bot", "run: nanomem pair")
    return Finding("ok", "telegram: the token works")
