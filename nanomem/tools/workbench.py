"""What tools are given, and how they are found: every module here that has a `build`.

Knows no single tool; adding one touches nothing else.
"""

import importlib
import pkgutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Literal

from nanomem.ports import Memory, Search, Skills, Tool
from nanomem.spaces import Space
from nanomem.tools.stillness import Stillness


@dataclass(frozen=True, slots=True)
class Workbench:
    """All that any tool may be given; without a `memory`, it is only read, without `skills` there are none, and without
    a `search` nothing is recalled.

    `web_allow_loopback` is there for tests and is no setting. `still` is what the memory's writer has, too.
    """

    timezone: tzinfo
    memory: Memory | None = field(default=None, kw_only=True)
    skills: Skills | None = field(default=None, kw_only=True)
    search: Search | None = field(default=None, kw_only=True)
    web_fetch: bool = True
    exec_enabled: bool = True
    exec_sandbox: Literal["bubblewrap", "none"] = "bubblewrap"
    exec_timeout_s: float = 60
    web_allow_loopback: bool = False
    still: Callable[[Space], AbstractAsyncContextManager[object]] = field(default_factory=Stillness, kw_only=True)


def load_tools(workbench: Workbench) -> dict[str, Tool]:
    """Each tool by its name, in the order of the names: the schemas are the same bytes at every start."""
    package = importlib.import_module(__package__)
    modules = [importlib.import_module(f"{__package__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    built = [module.build(workbench) for module in modules if hasattr(module, "build")]
    return {tool.schema.name: tool for tool in sorted(filter(None, built), key=lambda tool: str(tool.schema.name))}
