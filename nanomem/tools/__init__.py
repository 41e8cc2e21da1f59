"""What a model may do: one file a tool, each with a `build(workbench)`."""

from nanomem.tools.workbench import Workbench, load_tools

__all__ = ["Workbench", "load_tools"]
