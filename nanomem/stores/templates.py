"""The wording of prompts: Jinja templates of the package, and the owner's own in their place.

Rendered in Jinja's sandbox: a template is text, and must not become a program.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from jinja2 import Environment

log = structlog.get_logger()

PACKAGED = Path(__file__).parent.parent / "prompts"


class JinjaTemplates:
    """`ports.Templates`. `own` is the folder of the owner's templates, named as the package's."""

    def __init__(self, own: Path) -> None:
        self._own = own
        self._environments: dict[Path, Environment] = {}
        self._reported: set[str] = set()

    def render(self, name: str, **values: object) -> str:
        """See the port."""
        if (self._own / f"{name}.j2").is_file():
            from jinja2 import TemplateError

            try:
                return self._rendered(self._own, name, values)
            except (
                TemplateError,
                ArithmeticError,
                LookupError,
                OSError,
                RecursionError,
                TypeError,
                ValueError,
            ) as error:
                self._report(name, error)
        return self._rendered(PACKAGED, name, values)

    def _rendered(self, folder: Path, name: str, values: dict[str, object]) -> str:
        if folder not in self._environments:
            self._environments[folder] = _environment(folder)
        return self._environments[folder].get_template(f"{name}.j2").render(values).strip()

    def _report(self, name: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"[:300]
        if (mark := f"{name}: {reason}") not in self._reported:
            self._reported.add(mark)
            log.warning("template.broken", template=f"prompts/{name}.j2", reason=reason)


def _environment(folder: Path) -> "Environment":
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(folder), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
