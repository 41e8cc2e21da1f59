"""Telegram as a chat network. Importing it imports python-telegram-bot."""

from nanomem.channels.telegram.channel import TelegramChannel

__all__ = ["TelegramChannel"]
