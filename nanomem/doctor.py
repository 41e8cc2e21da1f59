"""Looks at everything nanomem stands on and says what to do about what is wrong. Changes nothing, prints nothing."""

import asyncio
import importlib
import os
import re
import site
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from nanomem.errors import Misuse
from nanomem.home import Home
from nanomem.settings import Exec, Settings, Telegram, provider_of

_VOCABULARY = "fb374d419588a4632f3f557e76b4b70aebbca790"  # o200k_base, named by the SHA-1 of its address
_TELEGRAM_TIMEOUT_S = 5.0
_SLOW_SYNC_MS = 50
_LONGEST_SOCKET_PATH = 107
_KEYLESS = frozenset({"ollama", "ollama_chat", "lm_studio", "bedrock", "vertex_ai", "sagemaker", "hosted_vllm"})
_REMOTE_DISKS = re.compile(r"nfs|cifs|smb|sshfs|ceph|gluster|9p|davfs")
# Lines of `.pth` files that run code at every start of Python and are known: editable installs, venv makers.
_KNOWN_PTH = re.compile(
    r"import _virtualenv"
    r"|import (__editable__\w+|_editable_impl_\w+)(; ?\1\.install\(\))?"
    r"|import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '\w+'\) == '\w+'; "
    r"enabled and __import__\('_distutils_hack'\)\.add_shim\(\);?"
)


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
    findings = [_permissions(home), _socket(home), _disk(home.state)]
    findings += [_tokenizer(), _startup_files(map(Path, [*site.getsitepackages(), site.getusersitepackages()]))]
    if isinstance(settings, Misuse):
        return [Finding("fail", f"config: {settings.text}", f"correct {home.config}"), *findings]
    findings.insert(0, Finding("ok", f"config: {home.config}"))
    findings += [_model(model, settings, environ) for model in _models(settings)]
    findings.append(await asyncio.to_thread(_sandbox, settings.tools.exec))
    return [*findings, await _telegram(settings.channels.telegram, environ)]


def _permissions(home: Home) -> Finding:
    looked_at = [home.path, *home.path.iterdir()]
    for folder in (home.state, home.workspace, home.workspace / "memory", home.workspace / "sessions"):
        looked_at += folder.iterdir() if folder.is_dir() else []
    denied = [path for path in looked_at if not path.is_symlink() and not os.access(path, os.R_OK | os.W_OK)]
    if denied:
        return Finding("fail", f"files: {denied[0]} cannot be written", f"run: chown -R $(id -un) {home.path}")
    if not home.state.is_dir() or not home.workspace.is_dir():
        return Finding("fail", f"files: {home.path} is not complete", "run: nanomem init")
    loose = [path for path in looked_at if not path.is_symlink() and path.lstat().st_mode & 0o077]
    if loose:
        names = ", ".join(map(str, loose[:3])) + (f" and {len(loose) - 3} more" if len(loose) > 3 else "")
        return Finding("warn", f"files: others on this machine may reach {names}", f"run: chmod -R go-rwx {home.path}")
    return Finding("ok", "files: only you can read them")


def _socket(home: Home) -> Finding:
    if len(os.fsencode(home.socket)) > _LONGEST_SOCKET_PATH:
        return Finding("fail", f"socket: the path {home.socket} is too long for one", "choose a shorter --home")
    return Finding("ok", "socket: the path is short enough")


def _disk(state: Path) -> Finding:
    sample = state / ".doctor"
    try:
        file = os.open(sample, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, b"x" * 1024)
            began = time.perf_counter()
            getattr(os, "fdatasync", os.fsync)(file)
            spent_ms = (time.perf_counter() - began) * 1000
        finally:
            os.close(file)
            sample.unlink()
    except OSError as error:
        return Finding("fail", f"disk: {state} cannot be written: {error.strerror}", "make room, or mend the disk")
    kind = _file_system(state)
    if _REMOTE_DISKS.search(kind):
        return Finding("warn", f"disk: {kind} is reached over a network", "only a local disk locks and syncs safely")
    if kind == "tmpfs":
        return Finding("warn", "disk: tmpfs is empty after the next start", "use a home on a real disk")
    if spent_ms > _SLOW_SYNC_MS:
        return Finding("warn", f"disk: a sync takes {spent_ms:.0f} ms", "a quieter or faster disk answers sooner")
    return Finding("ok", f"disk: a sync takes {spent_ms:.1f} ms")


def _file_system(path: Path) -> str:
    """Its type where the system tells, else nothing."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    real = path.resolve()
    above = [(len(mount[1]), mount[2]) for mount in mounts if real.is_relative_to(mount[1].replace("\\040", " "))]
    return max(above, default=(0, ""), key=lambda item: item[0])[1]


def _litellm() -> Path | None:
    spec = find_spec("litellm")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _tokenizer() -> Finding:
    folder = _litellm()
    if folder and (folder / "litellm_core_utils" / "tokenizers" / _VOCABULARY).is_file():
        return Finding("ok", "tokenizer: its vocabulary is here, no network needed")
    return Finding("fail", "tokenizer: the vocabulary o200k_base is missing", "install nanomem again: scripts/run")


def _startup_files(folders: Iterable[Path]) -> Finding:
    unknown = sorted(
        path.name
        for folder in set(folders)
        for path in (folder.glob("*.pth") if folder.is_dir() else ())
        if any(not _KNOWN_PTH.fullmatch(line.strip()) for line in _code_in(path))
    )
    if unknown:
        names = ", ".join(unknown)
        return Finding("warn", f"packages: {names} runs code at every start of Python", "see what it is and who put it")
    return Finding("ok", "packages: no unknown code runs at the start of Python")


def _code_in(path: Path) -> Iterator[str]:
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith(("import ", "import\t")):
            yield line


def _models(settings: Settings) -> list[str]:
    agents = settings.agents
    names = (agents.defaults.model, agents.consolidation.model, agents.dream.model)
    return list(dict.fromkeys(name for name in names if name))


def _model(model: str, settings: Settings, environ: Mapping[str, str]) -> Finding:
    """Whether a call could be made; none is."""
    if model == "offline":
        todo = "for a real one: nanomem config set agents.defaults.model anthropic/claude-sonnet-4-5"
        return Finding("ok", "model: offline, which needs nothing", todo)
    if _litellm() is None:
        return Finding("fail", f"model: {model} needs litellm, which is missing", "install nanomem again: scripts/run")
    name, provider = provider_of(model), settings.provider(model)
    try:
        given = provider.api_key.reveal(environ) or provider.extra(environ) or provider.api_base
    except Misuse as error:
        return Finding("fail", f"model: {model}: {error.text}", f"nanomem config set providers.{name}.api_key KEY")
    if given or name in _KEYLESS or environ.get(f"{name.upper()}_API_KEY"):
        return Finding("ok", f"model: {model}")
    return Finding("warn", f"model: no key for {model} is set", f"nanomem config set providers.{name}.api_key KEY")


def _sandbox(exec: Exec) -> Finding:
    if not exec.enabled:
        return Finding("ok", "sandbox: running commands is switched off")
    if exec.sandbox == "none":
        return Finding("warn", "sandbox: none, commands can reach whatever you can", "set tools.exec.sandbox")
    try:
        problem = importlib.import_module("nanomem.tools.sandbox").probe()
    except ImportError:
        problem = "it is not part of this installation"
    if problem:
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
