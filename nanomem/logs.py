"""Logging to stderr: ours and other libraries' in one form, with every secret taken out.

Importing it is cheap; structlog comes with `configure`. Knows nothing of settings.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from nanomem.imports import without

_SHORTEST_SECRET = 6
_PATTERNS = (
    r"\d{6,}(?::|%3A)[A-Za-z0-9_-]{30,}",  # a Telegram token, also inside an address
    r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{12,}",
    r"(?<=bearer )[A-Za-z0-9._~+/=-]{8,}",
    r"(?<=://)[^/\s@'\"]+(?=@)",  # name and password in an address
)
_CHATTY = ("httpx", "httpcore", "telegram", "openai", "asyncio", "LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


class _Redactor:
    """Replaces secrets in a text, in every spelling a log line may give them."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._pattern = re.compile("|".join(_PATTERNS), re.IGNORECASE)

    def add(self, value: str) -> None:
        """A value too short to be told from ordinary text is not taken."""
        if len(value) < _SHORTEST_SECRET:
            return
        escaped = json.dumps(value, ensure_ascii=False)[1:-1]
        self._known |= {value, escaped, json.dumps(value)[1:-1], repr(value)[1:-1], repr(escaped)[1:-1]}
        self._known |= {quote(value, safe="", errors="replace"), quote(value, errors="replace")}
        known = sorted(map(re.escape, self._known), key=len, reverse=True)
        self._pattern = re.compile("|".join([*known, *_PATTERNS]), re.IGNORECASE)

    def __call__(self, text: str) -> str:
        return self._pattern.sub("***", text)


# Logging is the process's, and so is what must never be in it.
redact = _Redactor()
add_secret = redact.add


def configure(level: str, format: str, debug: bool = False) -> None:
    """Sets up all logging of the process; `format` is auto, console or json. May be called again."""
    with without("rich"):  # for tracebacks in colour, which are not wanted: 80 modules
        import structlog
        from structlog import dev, processors, stdlib

    every: list[Any] = [stdlib.add_log_level, stdlib.add_logger_name, stdlib.PositionalArgumentsFormatter(), _stamp]
    structlog.configure(
        processors=[stdlib.filter_by_level, *every, stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=stdlib.LoggerFactory(),
        wrapper_class=stdlib.BoundLogger,
    )
    on_terminal = sys.stderr.isatty()
    form: list[Any]
    if format == "json" or (format == "auto" and not on_terminal):
        form = [processors.format_exc_info, processors.JSONRenderer(ensure_ascii=False)]
    else:
        form = [dev.ConsoleRenderer(colors=on_terminal, exception_formatter=dev.plain_traceback, pad_event_to=0)]
    last = [stdlib.ProcessorFormatter.remove_processors_meta, _printable, *form, lambda _log, _how, line: redact(line)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=every))
    _route(handler, "DEBUG" if debug else level.upper())


def _route(handler: logging.Handler, level: str) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("nanomem").setLevel(level)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a line that cannot be written is not dumped unredacted
    for name in _CHATTY:
        logger = logging.getLogger(name)
        logger.__class__ = _Routed
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)


class _Routed(logging.Logger):
    """A library's logger: what handlers it wants for itself (litellm: on stdout) it does not get."""

    def addHandler(self, hdlr: logging.Handler) -> None:
        """Everything goes to ours."""


def _stamp(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    return event | {"timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")}


def _printable(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Control characters in an event could rewrite a terminal; values are escaped by the renderer."""
    text = str(event.get("event", ""))
    return event | {"event": text if text.isprintable() else repr(text)[1:-1]}
