"""The commands that make a conversation shorter: `/new` starts it afresh, `/compact` all but its last turn."""

from collections.abc import Sequence

from nanomem.agent.commands import Call, Command
from nanomem.agent.conversation import Conversation, Conversations
from nanomem.errors import Refused
from nanomem.memory.consolidate import Consolidator

STARTED = "New session started."
WITHOUT_SUMMARY = "Archived without a summary."


class Clearing:
    """`/new` and `/compact`. Run again after a crash, they go on where they were and repeat their reply."""

    def __init__(self, conversations: Conversations, consolidator: Consolidator) -> None:
        self._conversations = conversations
        self._consolidator = consolidator

    @property
    def commands(self) -> Sequence[Command]:
        """In the order of `/help`."""
        return (
            Command("new", "start a new session; this one is kept and summarised", self._new, urgent=True),
            Command("compact", "summarise all but the last exchange now", self._compact),
        )

    async def _new(self, call: Call) -> str:
        if call.lane.stop is not None:
            call.lane.stop()
        async with call.lane.gate:
            conversation = await self._opened(call)
            if conversation.session.last_reset != call.message.id:
                try:
                    reason = await self._consolidator.archive(conversation, call.message.id)
                except Refused as error:
                    reason = error.text
                if reason:
                    return f"Could not archive this conversation; nothing was cleared. {reason}"
                await conversation.reset(call.message.id)
            done = conversation.session.compacted
            if done and done.inbound == call.message.id and done.raw:
                return f"{STARTED} {WITHOUT_SUMMARY}"
            return STARTED

    async def _compact(self, call: Call) -> str:
        conversation = await self._opened(call)
        try:
            reason = await self._consolidator.compact(conversation, call.message.id)
        except Refused as error:
            reason = error.text
        done = conversation.session.compacted
        if done is None or done.inbound != call.message.id:
            return f"Could not consolidate; nothing was changed. {reason}" if reason else "Nothing to consolidate."
        word = f" {WITHOUT_SUMMARY}" if done.raw else ""
        word += f" Could not consolidate the rest. {reason}" if reason else ""
        return f"Consolidated messages {done.first}-{done.through} (history entry {done.history}).{word}"

    async def _opened(self, call: Call) -> Conversation:
        conversation = await self._conversations.open(call.lane.address)
        await conversation.refresh()
        return conversation
