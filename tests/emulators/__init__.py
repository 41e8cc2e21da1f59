"""Servers on loopback that keep the contract of the real ones, and break it on request."""

from .openai import (
    Answer,
    Cut,
    Empty,
    EmptyStream,
    Fault,
    OpenAIServer,
    Stall,
    Violation,
)
from .telegram import Call, SentMessage, TelegramServer

__all__ = [
    "Answer",
    "Call",
    "Cut",
    "Empty",
    "EmptyStream",
    "Fault",
    "OpenAIServer",
    "SentMessage",
    "Stall",
    "TelegramServer",
    "Violation",
]
