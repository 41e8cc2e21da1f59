"""What a person may have done to the memory files and the templates: it is read as well as can be, and said."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from nanomem.ports import MemoryFiles
from nanomem.spaces import Space, Spaces
from nanomem.stores.memory_files import LARGEST, PlainMemory
from nanomem.stores.templates import JinjaTemplates


@pytest.fixture
def space(tmp_path: Path) -> Space:
    space = Spaces(tmp_path).of("terminal:local")
    (space.root / "memory").mkdir(parents=True)
    return space


async def read(space: Space, memory: PlainMemory | None = None) -> tuple[str, list[EventDict]]:
    """The memory file as it is read, and what is said of it."""
    with capture_logs() as events:
        files = await (memory or PlainMemory()).read(space)
    return files.memory, list(events)


async def test_the_three_files_and_where_they_are(tmp_path: Path) -> None:
    """The manner is the owner's for all; the rest is each space's own."""
    spaces = Spaces(tmp_path)
    for space in (spaces.of("terminal:local"), spaces.of("telegram:7")):
        (space.root / "memory").mkdir(parents=True)
        for name in ("SOUL.md", "USER.md", "memory/MEMORY.md"):
            (space.root / name).write_text(f"{name} of {space.name}")
    memory = PlainMemory()
    assert await memory.read(spaces.of("telegram:7")) == MemoryFiles(
        "SOUL.md of owner", "USER.md of telegram:7", "memory/MEMORY.md of telegram:7"
    )


async def test_files_that_are_missing_are_empty(space: Space) -> None:
    """Nothing is said about it."""
    assert await read(space) == ("", [])
    assert await PlainMemory().read(space) == MemoryFiles()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"- one\r\n- two\r\n", "- one\n- two\n"),
        (b"\xef\xbb\xbf- one\n", "- one\n"),
        ("- für Ümläute 🙂".encode(), "- für Ümläute 🙂"),
        (b"- nul\0 in it", "- nul in it"),
    ],
)
async def test_what_editors_leave_behind(space: Space, data: bytes, text: str) -> None:
    """Line ends of another system, a mark at the beginning: no damage."""
    (space.root / "memory" / "MEMORY.md").write_bytes(data)
    assert await read(space) == (text, [])


async def test_what_is_not_utf_8_is_read_around(space: Space) -> None:
    """And said once, with the place, until it is in another state."""
    path, memory = space.root / "memory" / "MEMORY.md", PlainMemory()
    path.write_bytes(b"- caf\xe9\n- tea\n")
    text, events = await read(space, memory)
    assert text == "- caf\ufffd\n- tea\n"
    assert [(e["event"], e["file"], e["reason"]) for e in events] == [
        ("memory.damaged", "MEMORY.md", "not UTF-8 at byte 5")
    ]
    assert (await read(space, memory))[1] == []
    path.write_bytes(b"- more and \xe9\n")
    assert len((await read(space, memory))[1]) == 1


async def test_a_file_of_50_mb_is_cut(space: Space) -> None:
    """And said; a character on the border does no harm."""
    path = space.root / "memory" / "MEMORY.md"
    path.write_bytes(b"x" * (LARGEST - 1) + "é".encode() + b"x")
    os.truncate(path, 50 * 1024 * 1024)
    text, events = await read(space)
    assert len(text) == LARGEST and text.startswith("xxx")
    assert "longer than" in events[0]["reason"] and len(events) == 1


async def test_a_folder_in_its_place_is_said(space: Space) -> None:
    """The others are read."""
    (space.root / "memory" / "MEMORY.md").mkdir()
    (space.root / "USER.md").write_text("Name: Ann")
    with capture_logs() as events:
        assert await PlainMemory().read(space) == MemoryFiles(user="Name: Ann")
    assert "cannot be read" in events[0]["reason"]


# --- templates


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    folder.mkdir()
    return folder


def system(templates: JinjaTemplates) -> str:
    return templates.render("system", soul="Be kind.", user="", memory="- tea", is_group=True)


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
        assert "now: today" in templates.render("context", now="today", channel="", sender="", memory_changes="")
    assert [e["template"] for e in events] == ["prompts/system.j2"]


def test_what_stands_in_the_memory_is_no_template() -> None:
    """Braces are braces."""
    text = JinjaTemplates(Path("/nowhere")).render(
        "system", soul="{{ 7 * 7 }}", user="{% raw %}", memory="{# hidden #}", is_group=True
    )
    assert "{{ 7 * 7 }}" in text and "{% raw %}" in text and "{# hidden #}" in text
