"""One turn: ask, act, repeat. Everything else is around it, not in it.

Begins wherever the log ends, so that a turn cut short by a crash goes on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

import structlog

from nanomem.agent.asking import Asker
from nanomem.agent.conversation import Conversation
from nanomem.agent.patience import patiently
from nanomem.agent.prompting import Prompter, Tail
from nanomem.agent.toolbox import Toolbox
from nanomem.errors import CannotStore, TooLong
from nanomem.messages import End, Reply
from nanomem.ports import Clock, Origin
from nanomem.records import UserMessage
from nanomem.session import UNKNOWN_OUTCOME, is_ended, open_calls

log = structlog.get_logger()

DISK = "I cannot write to my disk right now. Your message is kept; I go on as soon as I can write again."
NOTHING_SAID = "(The model gave no answer.)"
CUT_OFF = "\n\n(Cut off here: the answer reached its greatest length.)"


@dataclass(slots=True)
class Turn:
    """What one turn works with. `heard` is given the growing answer; `retries` is the turn done again; `relieved`
    once it has waited for a consolidation."""

    id: str
    conversation: Conversation
    tail: Tail
    heard: Callable[[str], None]
    retries: str | None = None
    relieved: bool = False


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs turns. `rounds` is how many rounds of tools one may take.

    `relieve` makes a conversation shorter that is over budget, given what a request takes beside it, and whether
    to wait for that.
    """

    asker: Asker
    prompter: Prompter
    toolbox: Toolbox
    clock: Clock
    rounds: int
    relieve: Callable[[Conversation, int, bool], Awaitable[None]]

    async def run(self, turn: Turn) -> None:
        """Runs a turn until its last record is in the log. Raises TellUser; all work done so far is kept."""
        conversation = turn.conversation
        await self._settle_open_calls(turn)
        while not is_ended(records := conversation.session.of_turn(turn.id)):
            retries = turn.retries if not records else None
            if conversation.session.rounds(turn.id) >= self.rounds:
                reply = await self._ask(turn, self.prompter.limit_note(self.rounds))
                await self._end(turn, reply, "limit", retries)
                return
            reply = await self._ask(turn)
            if not reply.tool_calls:
                await self._end(turn, reply, "answer", retries)
                return
            await self._write(
                turn, partial(conversation.answered, turn.id, reply, self.asker.model.name, None, retries)
            )
            await self.toolbox.run(reply.tool_calls, _origin(turn), self._keeper(turn))

    async def _settle_open_calls(self, turn: Turn) -> None:
        """Tells the model of calls that ran when the process died; they are never run again in silence."""
        lost = open_calls(turn.conversation.session.of_turn(turn.id))
        await turn.conversation.resulted(turn.id, [(call_id, name, UNKNOWN_OUTCOME) for call_id, name in lost])

    def _keeper(self, turn: Turn) -> Callable[[str, str, str], Awaitable[None]]:
        async def keep(call_id: str, name: str, result: str) -> None:
            await self._write(turn, partial(turn.conversation.resulted, turn.id, [(call_id, name, result)]))

        return keep

    async def _end(self, turn: Turn, reply: Reply, end: End, retries: str | None) -> None:
        text = reply.text.strip() or NOTHING_SAID
        if reply.cut == "length":
            text += CUT_OFF
        last = replace(reply, text=text, tool_calls=())
        name = self.asker.model.name
        await self._write(turn, partial(turn.conversation.answered, turn.id, last, name, end, retries))

    async def _write(self, turn: Turn, write: Callable[[], Awaitable[object]]) -> None:
        """Holds on to what is to be written until the disk takes it: neither model nor tool is asked twice."""
        async for attempt in patiently(self.clock, "disk"):
            with attempt:
                try:
                    await turn.conversation.refresh()
                    await write()
                except CannotStore:
                    turn.heard(DISK)
                    raise

    async def _ask(self, turn: Turn, note: str = "") -> Reply:
        """One model call within the budget; a request the provider finds too long is made shorter once more."""
        try:
            return await self._ask_once(turn, note)
        except TooLong:
            self.prompter.calibration.too_small(self.asker.model.name)
            return await self._ask_once(turn, note)

    async def _ask_once(self, turn: Turn, note: str) -> Reply:
        model, conversation = self.asker.model.name, turn.conversation
        await self._keep_within_budget(turn, model)
        request, size = await self.prompter.request(conversation, turn.tail, model, note)
        reply = await self.asker.ask(request, turn.heard)
        self.prompter.calibration.learn(model, size, reply.usage.prompt_tokens)
        over = await self.prompter.excess(conversation, model) > 0
        log.info("model.answered", session=conversation.key, estimate=size, over_budget=over)
        return reply

    async def _keep_within_budget(self, turn: Turn, model: str) -> None:
        """Asks for a consolidation, and waits for it once a turn; a request that is still too large is shortened."""
        beside = turn.tail.tokens
        if await self.prompter.excess(turn.conversation, model) + beside > 0:
            relief, turn.relieved = self.relieve(turn.conversation, beside, not turn.relieved), True
            await relief


def _origin(turn: Turn) -> Origin:
    """Where the calls of the turn's newest answer come from."""
    session = turn.conversation.session
    asked = [
        message.n for message in session.shown if message.turn in turn.tail.own and isinstance(message, UserMessage)
    ]
    return Origin(
        turn.conversation.space,
        session.key,
        turn.id,
        min(asked, default=0),
        max(asked, default=0),
        f"{turn.id}.{session.last_n}",
    )
