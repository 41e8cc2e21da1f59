"""What tools are given, and how they are found: every module here that has a `build`.

Knows no single tool; adding one touches nothing else.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

from nanomem.ports import Tool


@dataclass(frozen=True, slots=True)
class Workbench:
    """All that any tool may be given. `web_allow_loopback` is there for tests and is no setting."""

    timezone: tzinfo
    web_fetch: bool = True
    exec_enabled: bool = True
    exec_sandbox: Literal["bubblewrap", "none"] = "bubblewrap"
    exec_timeout_s: float = 60
    web_allow_loopback: bool = False


def load_tools(workbench: Workbench) -> dict[str, Tool]:
    """Each tool by its name, in the order of the names: the schemas are the same bytes at every start."""
    package = importlib.import_module(__package__)
    modules = [importlib.import_module(f"{__package__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    built = [module.build(workbench) for module in modules if hasattr(module, "build")]
    return {tool.schema.name: tool for tool in sorted(filter(None, built), key=lambda tool: str(tool.schema.name))}
