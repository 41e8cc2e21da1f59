"""How well recall finds what was said: real logs, the real index, and questions whose answers are known.

Two formats: conversations in sessions with their questions, and messages that have nothing to do with each other.
"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.figures import quantile
from nanomem.memory.embedding import Embedding
from nanomem.messages import Sender
from nanomem.ports import Embedder
from nanomem.recall.found import Sought
from nanomem.records import AssistantMessage, Metadata, Record, Reset, UserMessage, to_json
from nanomem.spaces import Space, Spaces
from nanomem.stores.recall_index import SqliteRecallIndex
from nanomem.stores.session_log import path_of
from nanomem.wiring import SystemClock

AGENT = "Assistant"
"""A speaker of that name is the agent."""
CUTS = (5, 10, 20)
SCORES = (*(f"recall@{cut}" for cut in CUTS), "hit@5", "mrr")
KEY = "terminal:local"
_ADMITTED = 50


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the data: its id, when and by whom it was said."""

    id: str
    at: datetime
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the ids of the messages that answer it."""

    text: str
    evidence: Sequence[str]
    category: str = ""


@dataclass(frozen=True, slots=True)
class Talk:
    """An index of its own: sessions of messages, and what is asked of it. `asker` is the name of who asks, if known."""

    id: str
    sessions: Sequence[Sequence[Said]]
    questions: Sequence[Asked]
    asker: str = ""


@dataclass(slots=True)
class Result:
    """What came out: the ranks of each question's evidence, times in seconds, sizes in bytes."""

    ranks: list[tuple[str, list[int | None]]] = field(default_factory=list)
    messages: int = 0
    indexing_s: float = 0.0
    index_bytes: int = 0
    text_bytes: int = 0
    asking_s: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The figures of all questions, and of each category."""
        by_category: defaultdict[str, list[list[int | None]]] = defaultdict(list)
        for category, ranks in self.ranks:
            by_category[category].append(ranks)
        if not self.ranks:
            raise ValueError("no question has an answer among what was said")
        return {
            **scored([ranks for _, ranks in self.ranks]),
            "by_category": {name: scored(ranks) for name, ranks in sorted(by_category.items()) if name},
            "index_us_per_message": self.indexing_s / self.messages * 1e6,
            "bytes_per_message": (self.index_bytes - self.text_bytes) / self.messages,
            "question_p95_ms": quantile(self.asking_s, 0.95) * 1000,
            "messages": self.messages,
        }


def scored(ranks: Sequence[Sequence[int | None]]) -> dict[str, float]:
    """Averages over questions; of each the rank, from 1, of every message that answers it, None for one not found."""

    def within(cut: int) -> list[float]:
        return [sum(rank is not None and rank <= cut for rank in one) / len(one) for one in ranks]

    first = [1 / min(found) if (found := [rank for rank in one if rank]) else 0.0 for one in ranks]
    return {
        **{f"recall@{cut}": _mean(within(cut)) for cut in CUTS},
        "hit@5": _mean([float(share == 1) for share in within(5)]),
        "mrr": _mean(first),
        "questions": len(ranks),
    }


def read(path: Path) -> list[Talk]:
    """The talks of a file of either format. Raises ValueError, with what is wrong with it, and OSError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(data, dict) or not ("conversations" in data or "messages" in data):
        raise ValueError(f"{path} has neither conversations nor messages")
    try:
        talks = [_conversation(one) for one in data["conversations"]] if "conversations" in data else [_lone(data)]
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is not as it should be: {error!r}") from error
    if not all(any(talk.sessions) for talk in talks) or not any(talk.questions for talk in talks):
        raise ValueError(f"{path} has no messages, or no questions with evidence")
    return talks


def _conversation(data: Mapping[str, Any]) -> Talk:
    sessions = []
    for session in data["sessions"]:
        at = datetime.fromisoformat(session["time"]).replace(tzinfo=UTC)
        sessions.append(
            [
                Said(
                    id,
                    at + timedelta(seconds=20 * i),
                    data["speakers"][speaker],
                    "\n".join([text, *filter(None, caption)]),
                )
                for i, (id, speaker, text, *caption) in enumerate(session["messages"])
            ]
        )
    asker = data["speakers"][0] if AGENT in data["speakers"] else ""
    return Talk(str(data["id"]), sessions, _questions(data), asker)


def _lone(data: Mapping[str, Any]) -> Talk:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    messages = data["messages"]
    return Talk(
        "lone",
        [[Said(m["id"], at + timedelta(days=i), "Ann", m["text"])] for i, m in enumerate(messages)],
        _questions(data),
    )


def _questions(data: Mapping[str, Any]) -> list[Asked]:
    asked = [Asked(q["q"], q["evidence"], str(q.get("category", ""))) for q in data["questions"]]
    return [one for one in asked if one.evidence]


async def measured(folder: Path, talks: Sequence[Talk], embedder: Embedder | None = None) -> Result:
    """Each talk is written to logs, read into an index of its own, with vectors if there is an embedder, and asked."""
    result = Result()
    for talk in talks:
        index = SqliteRecallIndex(folder / "recall", UTC, embedder.name if embedder else "")
        embedding = Embedding(index, embedder, SystemClock()) if embedder else None
        space = Spaces(folder).named(talk.id)
        ids = write(space, talk)
        await index.logs(space)  # the file is made once, however much is said
        began = time.perf_counter()
        await taken_in(index, space)
        while embedding and await embedding.step(space):
            pass
        result.indexing_s += time.perf_counter() - began
        result.messages += len(ids)
        result.text_bytes += sum(len(said.text.encode()) for session in talk.sessions for said in session)
        await _ask(index, embedding, space, talk, ids, result)
        await index.close()
        result.index_bytes += sum(path.stat().st_size for path in (folder / "recall").glob("*"))
        for path in (folder / "recall").glob("*"):
            path.unlink()
    return result


async def taken_in(index: SqliteRecallIndex, space: Space) -> None:
    """Reads all logs to their ends."""
    for log in await index.logs(space):
        while await index.read(space, log):
            pass


def write(space: Space, talk: Talk, key: str = KEY) -> dict[int, str]:
    """All of it as one log, with `/new` between its sessions; the ids of its messages by number."""
    path = path_of(space, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    sessions = list(filter(None, talk.sessions))
    records: list[Record] = [Metadata(key=key, created_at=sessions[0][0].at)]
    ids: dict[int, str] = {}
    for session in sessions:
        records.append(Reset(through=len(ids), timestamp=session[0].at))
        for said in session:
            ids[len(ids) + 1] = said.id
            records.append(_record(said, len(ids)))
    lines = (json.dumps(to_json(record), ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")
    return ids


def _record(said: Said, n: int) -> Record:
    turn = f"{KEY}#{n}"
    if said.speaker == AGENT:
        return AssistantMessage(n=n, turn=turn, timestamp=said.at, content=said.text, tokens=1, end="answer")
    sender = Sender(said.speaker, said.speaker)
    return UserMessage(n=n, turn=turn, timestamp=said.at, content=said.text, tokens=1, sender=sender)


async def _ask(
    index: SqliteRecallIndex,
    embedding: Embedding | None,
    space: Space,
    talk: Talk,
    ids: Mapping[int, str],
    result: Result,
) -> None:
    now = max(said.at for session in talk.sessions for said in session) + timedelta(days=1)
    askers = frozenset(filter(None, [talk.asker]))
    for asked in talk.questions:
        began = time.perf_counter()
        sought = Sought(asked.text, now, askers, most=_ADMITTED)
        if embedding:
            sought = await embedding.asked(space, sought, at_once=False)
        found = await index.find(space, sought)
        result.asking_s.append(time.perf_counter() - began)
        places = {ids[hit.n]: rank for rank, hit in enumerate(found.hits, 1)}
        result.ranks.append((asked.category, [places.get(id) for id in asked.evidence]))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
