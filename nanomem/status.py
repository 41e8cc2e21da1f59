"""What `nanomem status` tells of a home: counts over all its spaces. Reads files and counts; changes nothing."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from nanomem import __version__
from nanomem.errors import CannotStore
from nanomem.facts import facts
from nanomem.messages import Usage
from nanomem.ports import Channel, PassedOver, Run
from nanomem.records import stamp
from nanomem.stores.memory_files import open_regular
from nanomem.stores.repository import ids, repositories

_NOTHING = {"waiting": 0, "undelivered": 0, "set_aside": 0}
_NO_DREAM: Mapping[str, Any] = {"last": None, "next": None, "runs": [], "passed_over": []}
_LAST_LINE = 1024 * 1024
_LARGEST_NUMBER = 2**63


def compose(
    home: Path,
    model: str,
    pid: int | None,
    channels: Mapping[str, Mapping[str, Any]],
    counts: Mapping[str, int] | None = None,
    today: Usage | None = None,
    dream: Mapping[str, Any] | None = None,
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
        "sessions": sum(map(_sessions, roots)),
        "messages": dict(counts or _NOTHING),
        "memory": {"facts": sum(map(_facts, roots)), "versions": sum(map(_versions, repositories(home / "versions")))},
        "history": {
            "cursor": sum(_cursor(root / "memory" / "history.jsonl") for root in roots),
            "dream_cursor": sum(_number(root / "memory" / ".dream_cursor") for root in roots),
        },
        "dream": dict(dream or _NO_DREAM),
        "today": {
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "cached_tokens": spent.cached_tokens,
            "cost_usd": round(spent.cost_usd, 6),
        },
    }


def lines(found: Mapping[str, Any], zone: tzinfo) -> list[str]:
    """The same for people, a line for each part of it, times in their zone."""
    messages, memory, history, today = (found[name] for name in ("messages", "memory", "history", "today"))
    used = f"{today['prompt_tokens'] + today['completion_tokens']:,} tokens ({today['cached_tokens']:,} cached)"
    told = {
        "nanomem": f"{found['version']}, {'running, pid ' + str(found['pid']) if found['running'] else 'not running'}",
        "model": found["model"],
        **{name: _channel(state, found["running"]) for name, state in found["channels"].items()},
        "sessions": f"{found['sessions']}, in {_counted(found['spaces'], 'space')}",
        "messages": ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in messages.items()),
        "memory": f"{_counted(memory['facts'], 'fact')}, {_counted(memory['versions'], 'version')}",
        "history": f"{history['cursor']} entries, {history['dream_cursor']} of them learnt from",
        **_learning(found["dream"], zone),
        "today": f"{used}, ${today['cost_usd']:.4f}",
    }
    return [f"{name:<10}{text}" for name, text in told.items()]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _channel(state: Mapping[str, Any], running: bool) -> str:
    if not state["enabled"]:
        return "off"
    return f"on, but: {state['error']}" if state["error"] else "on" if state["ok"] or not running else "on, not yet up"


def _learning(dream: Mapping[str, Any], zone: tzinfo) -> dict[str, str]:
    def at(moment: str | None, never: str) -> str:
        return f"{datetime.fromisoformat(moment).astimezone(zone):%Y-%m-%d %H:%M}" if moment else never

    told = {"learning": f"last {at(dream['last'], 'never')}, next {at(dream['next'], 'only when asked')}"}
    if runs := dream.get("runs"):
        run = runs[0]
        reason = f"; {run['reason']}" if run["reason"] else ""
        told["learnt"] = f"{run['new']} in, {run['reworded']} reworded, {run['out']} out ({run['space']}){reason}"
    if passed := dream.get("passed_over"):
        told["unread"] = f"{len(passed)}, the newest: {passed[0]['batch']} ({passed[0]['reason']})"
    return told


def dreaming(runs: Sequence[Run], passed: Sequence[PassedOver], due: datetime | None) -> dict[str, Any]:
    """What there is to say of Dreams: when the newest run was, the newest receipts, and what could not be read."""
    return {
        "last": stamp(runs[0].at) if runs else None,
        "next": stamp(due) if due else None,
        "runs": [_receipt(run) for run in runs],
        "passed_over": [
            {"space": one.space, "batch": one.batch, "reason": one.reason, "at": stamp(one.at)} for one in passed
        ],
    }


def _receipt(run: Run) -> dict[str, Any]:
    names = ("entries", "messages", "new", "reworded", "out", "refused", "version", "reason")
    return {
        "space": run.space,
        "at": stamp(run.at),
        **{name: getattr(run, name) for name in names},
        "prompt_tokens": run.usage.prompt_tokens,
        "completion_tokens": run.usage.completion_tokens,
        "cost_usd": round(run.usage.cost_usd, 6),
    }


def channel_state(enabled: bool, channel: Channel | None) -> dict[str, Any]:
    """How a channel is: `ok` is true of one that runs without complaint."""
    error = channel.error if channel else None
    return {"enabled": enabled, "ok": channel is not None and error is None, "error": error}


def _roots(home: Path) -> Iterator[Path]:
    yield from filter(
        os.path.isdir, [home / "workspace", *(home / "spaces" / name for name in _names(home / "spaces"))]
    )


def _names(folder: Path) -> list[str]:
    """What is in a folder; nothing is in one that cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _sessions(root: Path) -> int:
    return sum(name.endswith(".jsonl") for name in _names(root / "sessions"))


def _versions(repository: Path) -> int:
    """How many there are; of a damaged repository none, `nanomem doctor` says what is wrong with it."""
    try:
        return len(ids(repository))
    except CannotStore:
        return 0


def _facts(root: Path) -> int:
    return sum(len(facts(_text(root / name))) for name in ("SOUL.md", "USER.md", "memory/MEMORY.md"))


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(_LAST_LINE).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def _cursor(path: Path) -> int:
    """The number of the last history entry."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_LINE))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            found = int(json.loads(line)["cursor"])
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            continue  # torn or damaged: the one before it counts
        if 0 <= found < _LARGEST_NUMBER:
            return found
    return 0


def _number(path: Path) -> int:
    text = _text(path).strip()
    found = int(text) if text.isdecimal() and len(text) < 20 else 0
    return found if found < _LARGEST_NUMBER else 0
