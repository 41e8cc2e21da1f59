"""A model that answers at once, after some rounds of tools where it is asked to."""

import re
import time

from aiohttp import web

from tests.emulators import Answer, OpenAIServer
from tests.emulators.openai import Json, Scripted

TOOL_ROUNDS = 3


class InstantModel(OpenAIServer):
    """Adds up in `own_s` what it needs itself."""

    def __init__(self) -> None:
        super().__init__()
        self.own_s = 0.0
        self.script(_decide)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        began = time.monotonic()
        try:
            return await super().handle(request)
        finally:
            self.own_s += time.monotonic() - began


def _decide(asked: Json) -> Scripted:
    roles = [message["role"] for message in asked["messages"]]
    newest = len(roles) - roles[::-1].index("user")
    wants_tools = re.search(r"\btools\b", str(asked["messages"][newest - 1]["content"]))
    if wants_tools and roles[newest:].count("tool") < TOOL_ROUNDS:
        return [("list_dir", {"path": "."})]
    return Answer("Done.")
