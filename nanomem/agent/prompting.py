"""Building the request of a model call: when the prefix is rebuilt, and what is done when it does not fit.

Knows memory, templates and token counts through their ports; the wording and order are `prompt.py`'s.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

import structlog

from nanomem.agent.conversation import Conversation
from nanomem.budget import Calibration, cut_results, drop_oldest, estimate
from nanomem.entries import for_people
from nanomem.messages import Image, Request, ToolSchema
from nanomem.ports import Clock, History, Memory, Occasion, Reminder, Skills, Templates, Tokenizer
from nanomem.prompt import Marks, Prefix, Timestamps, memory_changes, rendered
from nanomem.records import AssistantMessage, UserMessage
from nanomem.session import Said, history, repaired
from nanomem.skills import index, triggered, within_context
from nanomem.spaces import is_group

log = structlog.get_logger()

LONGEST_CHANGES = 2_000
"""Characters of the note on what changed in memory."""
FILE_SHARE, ENTRY_SHARE, SKILL_SHARE = 6, 12, 12
"""A file may take a sixth of the budget, so that three leave room to talk; the other parts less."""
IMAGE_TOKENS = 1_105
"""OpenAI's count for a picture of 1024 x 1024 in detail: 85, and 170 for each tile of 512."""


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """The settings a prompt depends on. `budget` is in tokens: window less completion and buffer."""

    budget: int
    max_tokens: int
    temperature: float
    target_ratio: float
    max_messages: int
    cache_ttl_s: float
    timestamps: Timestamps
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class Tail:
    """What one turn adds to its requests. `own` is the turn, and the one it does again if it is a retry."""

    own: frozenset[str]
    context: str
    context_tokens: int
    images: Mapping[str, Image]

    @property
    def tokens(self) -> int:
        """What it takes of a request."""
        return self.context_tokens + IMAGE_TOKENS * len(self.images)


@dataclass(frozen=True, slots=True)
class Known:
    """Where the prompt's knowledge comes from; without a `reminder` nothing is recalled unasked."""

    memory: Memory
    history: History
    skills: Skills
    reminder: Reminder | None = None


class Prompter:
    """Makes requests from conversations."""

    def __init__(
        self,
        limits: PromptLimits,
        known: Known,
        templates: Templates,
        tokenizer: Tokenizer,
        clock: Clock,
        schemas: tuple[ToolSchema, ...],
    ) -> None:
        self.limits = limits
        self.calibration = Calibration()
        self._known = known
        self._templates = templates
        self._tokenizer = tokenizer
        self._clock = clock
        self._schemas = schemas
        self._schema_tokens: int | None = None

    async def warm_up(self) -> None:
        """Loads what the first prompt would wait for: the templates' language and the tokenizer."""
        await asyncio.to_thread(self.limit_note, 0)
        await self._schemas_cost()

    async def tail(self, conversation: Conversation, own: frozenset[str], images: Mapping[str, Image]) -> Tail:
        """The turn's own part; rebuilds the conversation's prefix where that costs no cache."""
        now = self._clock.now()
        files = await self._known.memory.read(conversation.space)
        if self._is_cold(conversation, own, now):
            conversation.prefix = None
        prefix = await self._current_prefix(conversation, own)
        senders = {m.sender.name: None for m in conversation.session.last_turn() if isinstance(m, UserMessage)}
        changes = "" if files == prefix.files else await asyncio.to_thread(memory_changes, prefix.files, files)
        context = self._templates.render(
            "context",
            now=f"{now.astimezone(self.limits.zone):%Y-%m-%d %H:%M %A} ({self.limits.zone})",
            channel=conversation.key.partition(":")[0],
            sender=", ".join(filter(None, senders)),
            memory_changes=within_context(changes[:LONGEST_CHANGES]),
            recalled=[within_context(line) for line in await self._recalled(conversation, own, prefix, changes)],
            skills=await self._called_for(conversation, own),
        )
        return Tail(own, context, await self._tokenizer.count(context), images)

    async def _called_for(self, conversation: Conversation, own: frozenset[str]) -> list[tuple[str, str]]:
        """Name and text of the skills that have a trigger in what these turns are about."""
        skills = await self._known.skills.all(conversation.space)
        said = [m.content for m in conversation.session.messages if m.turn in own and isinstance(m, UserMessage)]
        wanted = await asyncio.to_thread(triggered, skills, said)
        return [(skill.name, within_context(await self._bounded(skill.body, SKILL_SHARE))) for skill in wanted]

    async def _recalled(
        self, conversation: Conversation, own: frozenset[str], prefix: Prefix, changes: str
    ) -> list[str]:
        """What these turns bring to mind, each line in one turn of the conversation only."""
        if self._known.reminder is None:
            return []
        new = [m for m in conversation.session.shown if m.turn in own and isinstance(m, UserMessage)]
        occasion = Occasion(
            conversation.space,
            conversation.key,
            said="\n".join(message.content for message in new),
            askers=frozenset(message.sender.id for message in new),
            in_sight=min([prefix.first_n, *(message.n for message in new)]),
            prompt=f"{prefix.system}\n{changes}",
            told=frozenset(said for said, turn in conversation.recalled.items() if turn not in own),
        )
        reminded = await self._known.reminder.remind(occasion)
        for one in reminded:
            conversation.reminded(one.session, one.n, new[-1].turn)
        return [one.line for one in reminded]

    async def request(self, conversation: Conversation, tail: Tail, model: str, note: str = "") -> tuple[Request, int]:
        """The request and its estimate in o200k tokens. Raises TellUser where nothing makes it fit."""
        prefix = await self._current_prefix(conversation, tail.own)
        fixed = prefix.tokens + tail.tokens + await self._schemas_cost()
        allowed = self._allowed(model)
        messages = self._messages(conversation, prefix, tail.own)
        size = estimate(messages, fixed)
        if size > allowed:
            messages = self._shortened(conversation, tail.own, messages, size, allowed)
            size = estimate(messages, fixed)
        shown, shared = rendered(
            messages,
            tail.own,
            conversation.prefix or prefix,
            "\n\n".join(filter(None, (tail.context, note))),
            Marks(self.limits.timestamps, self.limits.zone),
            named=is_group(conversation.key),
            images=tail.images,
        )
        request = Request(
            system=prefix.system,
            messages=shown,
            tools=self._schemas,
            forced="" if note else None,
            history=shared,
            max_tokens=self.limits.max_tokens,
            temperature=self.limits.temperature,
        )
        return request, size

    def limit_note(self, rounds: int) -> str:
        """What a model is told that has had all its rounds of tools."""
        return self._templates.render("limit", rounds=rounds)

    async def used(self, conversation: Conversation, model: str) -> int:
        """The model's tokens that the conversation takes of the budget now."""
        return int(await self._size(conversation) * self.calibration.factor(model))

    async def excess(self, conversation: Conversation, model: str, ratio: float = 1.0) -> int:
        """The o200k tokens by which the conversation is above that share of the budget; below 0 it is under it."""
        return await self._size(conversation) - int(ratio * self._allowed(model))

    def _allowed(self, model: str) -> int:
        return int(self.limits.budget / self.calibration.factor(model))

    async def _size(self, conversation: Conversation) -> int:
        """With all that is not consolidated, also where a request had to go without some of it."""
        prefix = conversation.prefix.tokens if conversation.prefix else 0
        return estimate(conversation.session.shown, prefix + await self._schemas_cost())

    def _messages(self, conversation: Conversation, prefix: Prefix, own: frozenset[str] = frozenset()) -> list[Said]:
        messages = conversation.session.shown
        first = last = len(messages)
        while first and messages[first - 1].n >= prefix.first_n:
            first -= 1
        if last and isinstance(note := messages[-1], AssistantMessage) and note.end and note.turn in own:
            last -= 1  # the note that the turn failed, which is now done again
        return repaired(messages[first:last])

    def _shortened(
        self, conversation: Conversation, own: frozenset[str], messages: list[Said], size: int, allowed: int
    ) -> list[Said]:
        """The messages with the oldest turns dropped, down to the target ratio so that it is not needed again
        at once, and then with this turn's own long tool results cut."""
        kept = drop_oldest(messages, own, size - int(allowed * self.limits.target_ratio))
        if len(kept) < len(messages) and conversation.prefix:
            conversation.prefix = replace(conversation.prefix, first_n=kept[0].n)
        size -= estimate(messages, 0) - estimate(kept, 0)
        log.info("prompt.shortened", session=conversation.key, dropped=len(messages) - len(kept), excess=size - allowed)
        return cut_results(kept, own, size - allowed) if size > allowed else kept

    def _is_cold(self, conversation: Conversation, own: frozenset[str], now: datetime) -> bool:
        """Whether the provider has lost its cache of this conversation: it was quiet for longer than that."""
        before = _newest_before(conversation, own)
        return before is not None and (now - before.timestamp).total_seconds() > self.limits.cache_ttl_s

    async def _current_prefix(self, conversation: Conversation, own: frozenset[str]) -> Prefix:
        """The conversation's prefix; built anew where there is none or a consolidation has moved the pointer."""
        prefix = conversation.prefix
        if prefix is None or prefix.through != conversation.session.last_consolidated:
            prefix = conversation.prefix = await self._prefix(conversation, own)
        return prefix

    async def _prefix(self, conversation: Conversation, own: frozenset[str]) -> Prefix:
        session, space = conversation.session, conversation.space
        files = await self._known.memory.read(space)
        entry = await self._known.history.entry(space, session.history) if session.history else None
        skills = await self._known.skills.all(space)
        shown = history(session.shown, self.limits.max_messages)
        before = _newest_before(conversation, own)
        system = self._templates.render(
            "system",
            soul=await self._bounded(files.soul),
            user=await self._bounded(files.user),
            memory=await self._bounded(files.memory),
            skills=[await self._bounded(skill.body, SKILL_SHARE) for skill in skills if skill.always],
            index=await self._bounded(index(skills), SKILL_SHARE),
            earlier=await self._bounded(for_people(entry, self.limits.zone), ENTRY_SHARE) if entry else "",
            is_group=is_group(session.key),
        )
        log.info("prompt.prefix_built", session=conversation.key, messages=len(shown))
        return Prefix(
            system=system,
            files=files,
            through=session.last_consolidated,
            first_n=shown[0].n if shown else session.last_n + 1,
            last_n=before.n if before else session.last_consolidated,
            built_at=self._clock.now(),
            tokens=await self._tokenizer.count(system),
        )

    async def _bounded(self, text: str, share: int = FILE_SHARE) -> str:
        """At most that part of the budget."""
        return await beginning(text.strip(), self.limits.budget // share, self._tokenizer)

    async def _schemas_cost(self) -> int:
        if self._schema_tokens is None:
            self._schema_tokens = await self._tokenizer.count("".join(schema.text for schema in self._schemas))
        return self._schema_tokens


async def beginning(text: str, room: int, tokenizer: Tokenizer) -> str:
    """The text, or as much of it as takes `room` tokens, and a word that there is more."""
    shown = text
    while (size := await tokenizer.count(shown)) > room:
        shown = shown[: len(shown) * room // size]
    return text if shown == text else f"{shown.strip()}\n[... the rest is too long to show here]"


def _newest_before(conversation: Conversation, own: frozenset[str]) -> Said | None:
    """The newest message that none of these turns has said."""
    return next((m for m in reversed(conversation.session.messages) if m.turn not in own), None)
