"""What `nanomem status` tells of a home: counts over all its spaces. Reads files and counts; changes nothing."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nanomem import __version__
from nanomem.facts import facts
from nanomem.messages import Usage
from nanomem.ports import Channel

_NOTHING = {"waiting": 0, "undelivered": 0, "set_aside": 0}
_LAST_LINE = 1024 * 1024


def compose(
    home: Path,
    model: str,
    pid: int | None,
    channels: Mapping[str, Mapping[str, Any]],
    counts: Mapping[str, int] | None = None,
    today: Usage | None = None,
) -> dict[str, Any]:
    """The object that `status --json` prints. Blocks on files; `pid` is None without a daemon."""
    roots = list(_roots(home))
    spent = today or Usage()
    return {
        "version": __version__,
        "running": pid is not None,
        "pid": pid,
        "model": model,
        "channels": {name: dict(state) for name, state in channels.items()},
        "spaces": len(roots),
        "sessions": sum(1 for root in roots for _ in (root / "sessions").glob("*.jsonl")),
        "messages": dict(counts or _NOTHING),
        "memory": {"facts": sum(map(_facts, roots)), "versions": 0},
        "history": {
            "cursor": sum(_cursor(root / "memory" / "history.jsonl") for root in roots),
            "dream_cursor": sum(_number(root / "memory" / ".dream_cursor") for root in roots),
        },
        "dream": {"last": None, "next": None},
        "today": {
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "cached_tokens": spent.cached_tokens,
            "cost_usd": round(spent.cost_usd, 6),
        },
    }


def channel_state(enabled: bool, channel: Channel | None) -> dict[str, Any]:
    """How a channel is: `ok` is true of one that runs without complaint."""
    error = channel.error if channel else None
    return {"enabled": enabled, "ok": channel is not None and error is None, "error": error}


def _roots(home: Path) -> Iterator[Path]:
    if (home / "workspace").is_dir():
        yield home / "workspace"
    if (home / "spaces").is_dir():
        yield from sorted(path for path in (home / "spaces").iterdir() if path.is_dir())


def _facts(root: Path) -> int:
    return sum(len(facts(_text(root / name))) for name in ("SOUL.md", "USER.md", "memory/MEMORY.md"))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LAST_LINE).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def _cursor(path: Path) -> int:
    """The number of the last history entry."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LAST_LINE))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["cursor"])
        except (KeyError, TypeError, ValueError, RecursionError):
            continue  # torn or damaged: the one before it counts
    return 0


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else 0
