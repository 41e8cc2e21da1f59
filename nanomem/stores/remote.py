"""The git client at work on the versions: it pushes them to a remote, and packs them.

In a process of its own, without a shell, hooks or questions; what goes wrong is noted beside the versions.
"""

import asyncio
import hashlib
import os
import re
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from nanomem.errors import CannotStore, Misuse, TryLater
from nanomem.spaces import OWNER, Space, file_name
from nanomem.stores import durable
from nanomem.stores.repository import MAIN, drop_loose, ids, loose_objects, read_ref
from nanomem.stores.versions import PUSHED, GitVersions

log = structlog.get_logger()

TIMEOUT_S = 120.0
_MOST_LOOSE = 2_000  # a version makes four or five
_LONGEST_REASON = 300
_SETTINGS = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")


def checked(url: str) -> str:
    """The remote, as git may be given it; empty is none. Raises Misuse for one that could run a command."""
    if re.match(r"-|[\w+.-]*::", url) or not url.isprintable():
        raise Misuse("memory.remote is no address that versions can be pushed to. Set a git URL, or a folder's path.")
    return url


def branch(space: Space) -> str:
    """The branch of the remote that has a space's versions: `main` the owner's."""
    return branch_of(f"{file_name(space.name)}.git")


def branch_of(repository: str) -> str:
    """The same by the name of the repository's folder."""
    name = repository.removesuffix(".git")
    return MAIN if name == OWNER else "refs/heads/" + re.sub("[~.]", lambda found: f"%{ord(found[0]):02X}", name)


def behind(path: Path, url: str) -> int:
    """How many versions of a repository are not with the remote. Blocks. Raises CannotStore."""
    known, pushed = ids(path), _pushed(path, url)
    return len(known) - (known.index(pushed) + 1 if pushed in known else 0)


def trouble(path: Path) -> str:
    """Why the newest push of a repository failed; empty where it did not."""
    return _noted(path / "push-error")


class Remote:
    """Where versions are pushed to; with an empty URL nowhere, and then they are only kept tidy.

    More than `most_loose` objects with a file of their own are packed.
    """

    def __init__(
        self, url: str, versions: GitVersions, environ: Mapping[str, str], most_loose: int = _MOST_LOOSE
    ) -> None:
        self._most_loose = most_loose
        self._url = checked(url)
        self._versions = versions
        self._environ = {name: value for name, value in environ.items() if not name.startswith(("GIT_", "SSH_ASKPASS"))}
        self._environ |= {
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
            "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }

    async def push(self, space: Space) -> None:
        """Returns once the remote has all versions of a space; nothing is forced. Packs them before, where needed.

        Raises TryLater, with what git says and no password in it, CannotStore for a damaged repository, Stop.
        """
        path = self._versions.path(space)
        if not path.exists():
            return
        await self.tidy(space)
        tip = await asyncio.to_thread(read_ref, path, MAIN)
        if not self._url or tip is None or await asyncio.to_thread(_pushed, path, self._url) == tip:
            return
        try:
            await self._git(path, "push", "--quiet", "--no-verify", "--", self._url, f"{MAIN}:{branch(space)}")
        except TryLater as error:
            await asyncio.to_thread(durable.replace, path / "push-error", f"{error.text}\n".encode())
            raise
        await asyncio.to_thread(durable.replace, path / "pushed-to", f"{_mark(self._url)}\n".encode())
        await self._versions.set_pushed(space, tip)
        await asyncio.to_thread(durable.discard, path / "push-error")

    async def tidy(self, space: Space) -> None:
        """Packs the objects of a space where there are many, beside any commit. What fails is logged."""
        path = self._versions.path(space)
        if len(await asyncio.to_thread(loose_objects, path)) <= self._most_loose:
            return
        try:
            await self._git(path, "repack", "-q", "-l")
            await asyncio.to_thread(durable.sync_folder, path / "objects" / "pack")
            await asyncio.to_thread(drop_loose, path)
        except (TryLater, CannotStore) as error:
            log.warning("versions.not_packed", space=space.name, reason=error.text)

    async def _git(self, path: Path, *arguments: str) -> None:
        """Runs git to its end, or until cancelled. Raises TryLater."""
        try:
            # No pipe: what git leaves running, as ssh may, would hold it open.
            said = tempfile.TemporaryFile()  # noqa: SIM115 -- closed just below
        except OSError as error:
            raise TryLater(f"git cannot be started: {error.strerror}") from error
        with said:
            try:
                process = await asyncio.create_subprocess_exec(
                    *("git", *_SETTINGS, f"--git-dir={path}", *arguments),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=said,
                    cwd=path,
                    env=self._environ,
                    start_new_session=True,
                    umask=0o077,
                )
            except OSError as error:
                raise TryLater(f"git cannot be started: {error.strerror}") from error
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    failed = await process.wait()
            except TimeoutError:
                raise TryLater(f"git took longer than {TIMEOUT_S:.0f} s") from None
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
            if failed:
                said.seek(0)
                raise TryLater(_reason(said.read(16 * 1024).decode("utf-8", "replace"), self._url))


def _reason(said: str, url: str) -> str:
    """What git has complained of, without hints and secrets."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("hint:")]
    return masked("; ".join(lines), url)[:_LONGEST_REASON] or "git failed without a word"


def masked(text: str, url: str = "") -> str:
    """A text without names and passwords of URLs; those of this URL wherever they stand."""
    if known := re.match(r"\w+://([^/\s]*)@", url):
        for secret in known[1].split(":"):
            text = text.replace(secret, "***") if len(secret) > 3 else text
    return re.sub(r"(\w+://)[^/\s]*@", r"\1***@", text)


def _mark(url: str) -> str:
    """Tells one remote from another without naming it."""
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def _pushed(path: Path, url: str) -> str | None:
    """The newest version that this remote is known to have."""
    return read_ref(path, PUSHED) if _noted(path / "pushed-to") == _mark(url) else None


def _noted(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
