"""What a person may have done to the memory files and the templates: it is read as well as can be, and said."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from nanomem.errors import Refused
from nanomem.ports import LARGEST_FILE
from nanomem.spaces import Space, Spaces
from nanomem.stores.memory_files import PlainWorkingFiles
from nanomem.stores.templates import JinjaTemplates


@pytest.fixture
def space(tmp_path: Path) -> Space:
    space = Spaces(tmp_path).of("terminal:local")
    (space.root / "memory").mkdir(parents=True)
    return space


async def read(space: Space, files: PlainWorkingFiles | None = None) -> str | None:
    """The facts as they are read."""
    return (await (files or PlainWorkingFiles()).read(space))["memory/MEMORY.md"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"- one\r\n- two\r\n", "- one\r\n- two\r\n"),
        (b"\xef\xbb\xbf- one\n", "\ufeff- one\n"),
        ("- für Ümläute 🙂".encode(), "- für Ümläute 🙂"),
        (b"- nul\0 in it", "- nul\0 in it"),
        (b"- caf\xe9\n- tea\n", "- caf\udce9\n- tea\n"),
        (b"\xff\xfe-\0 \0", "\udcff\udcfe-\0 \0"),
        (b"x" * LARGEST_FILE, "x" * LARGEST_FILE),
    ],
)
async def test_what_editors_leave_behind(space: Space, data: bytes, text: str) -> None:
    """Line ends of another system, a mark at the beginning, another encoding: no damage, and nothing is changed."""
    path = space.root / "memory" / "MEMORY.md"
    path.write_bytes(data)
    with capture_logs() as events:
        assert await read(space) == text
    assert (path.read_bytes(), events) == (data, [])


def of_50_mb(path: Path) -> None:
    path.touch()
    os.truncate(path, 50 * 1024 * 1024)


@pytest.mark.parametrize("spoil", [Path.mkdir, of_50_mb])
async def test_a_file_is_refused_until_it_is_mended(space: Space, spoil: Callable[[Path], None]) -> None:
    """A folder in its place, 50 MB: it is said each time, with the name; then it is read."""
    path, files = space.root / "memory" / "MEMORY.md", PlainWorkingFiles()
    path.write_text("- tea\n")
    assert await read(space, files) == "- tea\n"
    path.rename(path.with_name("kept"))
    spoil(path)
    for _ in range(2):
        with pytest.raises(Refused, match=r"MEMORY\.md cannot be used"):
            await read(space, files)
    path.rmdir() if path.is_dir() else path.unlink()
    assert await read(space, files) is None
    path.with_name("kept").rename(path)
    assert await read(space, files) == "- tea\n"


# --- templates


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    folder.mkdir()
    return folder


def system(templates: JinjaTemplates) -> str:
    return templates.render(
        "system", soul="Be kind.", user="", memory="- tea", skills=(), index="", earlier="", is_group=True
    )


def test_the_packages_own_templates() -> None:
    """With what they are given; what is empty says so."""
    text = system(JinjaTemplates(Path("/nowhere")))
    assert "Be kind." in text and "- tea" in text and "(nothing yet)" in text
    assert text == text.strip()


def test_the_owners_template_is_used_and_its_changes_seen(own: Path) -> None:
    """At the next render; without it the package's is back."""
    templates, path = JinjaTemplates(own), own / "system.j2"
    packaged = system(templates)
    path.write_text("Mine: {{ memory }}\n")
    assert system(templates) == "Mine: - tea"
    path.write_text("Mine, changed: {{ soul }}")
    os.utime(path, (1, 1))
    assert system(templates) == "Mine, changed: Be kind."
    path.unlink()
    assert system(templates) == packaged


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ soul.__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ soul.format.__globals__ }}",
        "{{ '{0.__class__}'.format(soul) }}",
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{{ unknown }}",
        "{% if %}",
        "{{ 1 / 0 }}",
        "{{ soul + 1 }}",
        "{% include '../../config.toml' %}",
        "{% include 'system.j2' %}",
    ],
)
def test_a_broken_or_wicked_template_is_passed_over_and_said(own: Path, template: str) -> None:
    """The package's takes its place; it is said once."""
    (own / "system.j2").write_text(template)
    (own.parent / "config.toml").write_text("secret")
    templates = JinjaTemplates(own)
    with capture_logs() as events:
        texts = {system(templates) for _ in range(3)}
    assert texts == {system(JinjaTemplates(Path("/nowhere")))}
    assert [(e["event"], e["template"]) for e in events] == [("template.broken", "prompts/system.j2")]


def test_a_template_that_is_no_text_is_passed_over(own: Path) -> None:
    """Bytes of another encoding, or a folder."""
    (own / "system.j2").write_bytes(b"caf\xe9")
    (own / "context.j2").mkdir()
    templates = JinjaTemplates(own)
    with capture_logs() as events:
        assert "Be kind." in system(templates)
        assert "now: today" in templates.render(
            "context", now="today", channel="", sender="", memory_changes="", recalled=(), skills=()
        )
    assert [e["template"] for e in events] == ["prompts/system.j2"]


def test_what_stands_in_the_memory_is_no_template() -> None:
    """Braces are braces."""
    text = JinjaTemplates(Path("/nowhere")).render(
        "system",
        soul="{{ 7 * 7 }}",
        user="{% raw %}",
        memory="{# hidden #}",
        skills=("{{ 6 * 7 }}",),
        index="tea: {{ 5 * 5 }}",
        earlier="",
        is_group=True,
    )
    assert "{{ 7 * 7 }}" in text and "{% raw %}" in text and "{# hidden #}" in text and "{{ 5 * 5 }}" in text
