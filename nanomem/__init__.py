"""nanomem: a chat agent that runs for years, with a memory its owner can trust."""

__version__ = "0.1.0"
