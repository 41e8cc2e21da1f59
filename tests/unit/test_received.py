"""What people send along: a harmless name, fetched once, and a note where that fails."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanomem.errors import CannotStore, NanomemError, Refused, TryLater
from nanomem.messages import Attachment, Inbound
from nanomem.spaces import Space
from nanomem.stores.received import LARGEST_IMAGE, ReceivedFiles
from nanomem.testing import FakeChannel, inbound

PNG = b"\x89PNG\r\n\x1a\n and more"


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space("owner", tmp_path / "workspace", tmp_path / "workspace")


@pytest.fixture
def files(tmp_path: Path) -> ReceivedFiles:
    return ReceivedFiles(tmp_path / "incoming")


@pytest.fixture
def channel() -> FakeChannel:
    channel = FakeChannel()
    channel.files["r"] = b"content"
    return channel


def sent(*names: str, number: int = 1, ref: str = "r", media_type: str = "text/plain") -> Inbound:
    files = tuple(Attachment("document", name, media_type, 7, ref) for name in names)
    return replace(inbound("see", number), attachments=files)


async def received(space: Space, channel: FakeChannel, message: Inbound) -> list[str]:
    paths, notes = await ReceivedFiles(space.root.parent / "incoming").receive(space, message, channel)
    assert notes == []
    return paths


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("report.pdf", "files/1-1-report.pdf"),
        ("../../x", "files/1-1-x"),
        ("/etc/passwd", "files/1-1-passwd"),
        ("a\0b\n.txt", "files/1-1-a_b_.txt"),
        (".bashrc", "files/1-1-bashrc"),
        ("..", "files/1-1-document"),
        ("", "files/1-1-document"),
        ("Übersicht 2026 (neu).pdf", "files/1-1-Übersicht 2026 (neu).pdf"),
        ("x" * 10_000 + ".pdf", f"files/1-1-{'x' * 25}.pdf"),
        ("a." + "y" * 10_000, f"files/1-1-a.{'y' * 10}"),
        ("-rf $(id) `id`;", "files/1-1--rf _(id) _id__"),
    ],
)
async def test_names(space: Space, channel: FakeChannel, name: str, path: str) -> None:
    """The sender's word is no path; what is left of it tells what it is."""
    assert await received(space, channel, sent(name)) == [path]
    assert (space.root / path).read_bytes() == b"content"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(names=st.lists(st.text(), min_size=1, max_size=3))
async def test_any_name_stays_in_the_folder(space: Space, channel: FakeChannel, names: list[str]) -> None:
    """Each attachment is a file of its own there, whatever it is called, and nothing is anywhere else."""
    paths = await received(space, channel, sent(*names))
    assert len(set(paths)) == len(names)
    for path in paths:
        assert (space.root / path).resolve().parent == (space.root / "files").resolve()
        assert (space.root / path).is_file() and len(Path(path).name.encode()) < 255
    assert [entry.name for entry in space.root.iterdir()] == ["files"]


async def test_the_same_message_again_has_the_same_files(space: Space, channel: FakeChannel) -> None:
    """Nothing is fetched twice; another message's file of the same name is another."""
    first = await received(space, channel, sent("a.txt", "a.txt"))
    assert first == ["files/1-1-a.txt", "files/1-2-a.txt"]
    channel.files.clear()
    assert await received(space, channel, sent("a.txt", "a.txt")) == first
    channel.files["r"] = b"other"
    assert await received(space, channel, sent("a.txt", number=2)) == ["files/2-1-a.txt"]
    assert (space.root / first[0]).read_bytes() == b"content"


async def test_what_the_disk_does_not_take_is_fetched_when_it_does(space: Space, files: ReceivedFiles) -> None:
    """It is no message without a file: the same is done again."""

    class Full(FakeChannel):
        full = True

        async def fetch(self, attachment: Attachment, to: Path) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            await super().fetch(attachment, to)

    channel = Full()
    channel.files["r"] = b"content"
    with pytest.raises(CannotStore, match=r"Cannot write .*files/1-1-a\.txt: No space left on device"):
        await files.receive(space, sent("a.txt"), channel)
    channel.full = False
    assert await files.receive(space, sent("a.txt"), channel) == (["files/1-1-a.txt"], [])


@pytest.mark.parametrize("error", [Refused("it is too large"), TryLater("no network"), OSError(21, "a folder")])
async def test_what_fails_becomes_a_note(space: Space, files: ReceivedFiles, error: NanomemError | OSError) -> None:
    """The others arrive; half of a file is none, and it is fetched whole the next time."""

    class Failing(FakeChannel):
        async def fetch(self, attachment: Attachment, to: Path) -> None:
            if attachment.ref == "bad":
                to.write_bytes(b"half")
                raise error
            await super().fetch(attachment, to)

    channel = Failing()
    channel.files["r"] = b"content"
    message = replace(sent("good.txt"), attachments=(*sent("b" * 500, ref="bad").attachments, *sent("g").attachments))
    paths, notes = await files.receive(space, message, channel)
    assert paths == ["files/1-2-g"]
    [note] = notes
    assert note.startswith("[bbb") and str(error) in note and len(note) < 200
    whole = FakeChannel()
    whole.files |= {"r": b"content", "bad": b"whole"}
    paths, notes = await files.receive(space, message, whole)
    assert (len(paths), notes) == (2, []) and (space.root / paths[0]).read_bytes() == b"whole"


async def test_links_that_lead_out_are_not_followed(
    space: Space, files: ReceivedFiles, channel: FakeChannel, tmp_path: Path
) -> None:
    """The agent's tools may write in that folder: a link waiting there is replaced, and a folder of links refused."""
    outside = tmp_path / "config.toml"
    outside.write_text("secret")
    (space.root / "files").mkdir(parents=True)
    (space.root / "files" / "1-1-a.txt").symlink_to(outside)
    (space.root / "files" / ".1-2-a.txt.part").symlink_to(tmp_path / "new")
    paths = await received(space, channel, sent("a.txt", "a.txt"))
    assert [(space.root / path).read_bytes() for path in paths] == [b"content"] * 2
    assert outside.read_text() == "secret" and not (tmp_path / "new").exists()
    (space.root / "files").rename(space.root / "old")
    (space.root / "files").symlink_to(tmp_path)
    _, notes = await files.receive(space, sent("b.txt", number=2), channel)
    assert "a link to another place" in notes[0]
    assert await files.image(space, "files/config.toml") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "incoming", "workspace"]
    assert list((tmp_path / "incoming").iterdir()) == []


async def test_a_folder_that_becomes_a_link_while_a_file_is_fetched(
    space: Space, files: ReceivedFiles, tmp_path: Path
) -> None:
    """A command of the agent's may run just then: nothing is put behind the link, and nothing is left over."""

    class Racing(FakeChannel):
        async def fetch(self, attachment: Attachment, to: Path) -> None:
            await super().fetch(attachment, to)
            (space.root / "files").symlink_to(tmp_path / "outside")

    (tmp_path / "outside").mkdir()
    space.root.mkdir()
    channel = Racing()
    channel.files["r"] = b"content"
    paths, notes = await files.receive(space, sent("a.txt"), channel)
    assert paths == [] and "a link to another place" in notes[0]
    assert [*(tmp_path / "outside").iterdir(), *(tmp_path / "incoming").iterdir()] == []


async def test_a_pipe_that_waits_there_is_not_waited_for(
    space: Space, files: ReceivedFiles, channel: FakeChannel
) -> None:
    """It is no picture, and the file takes its place; a pipe in the folder's place is told."""
    (space.root / "files").mkdir(parents=True)
    os.mkfifo(space.root / "files" / "1-1-a.png")
    assert await files.image(space, "files/1-1-a.png") is None
    channel.files["r"] = PNG
    [path] = await received(space, channel, sent("a.png"))
    assert await files.image(space, path) is not None
    (space.root / "files").rename(space.root / "old")
    os.mkfifo(space.root / "files")
    assert await files.image(space, path) is None
    _, notes = await files.receive(space, sent("a.png"), channel)
    assert "is no folder" in notes[0]


async def test_a_folder_in_a_files_place_is_a_note(space: Space, files: ReceivedFiles, channel: FakeChannel) -> None:
    """What is in it stays."""
    (space.root / "files" / "1-1-a.txt" / "inside").mkdir(parents=True)
    paths, notes = await files.receive(space, sent("a.txt"), channel)
    assert paths == [] and len(notes) == 1 and (space.root / "files" / "1-1-a.txt" / "inside").is_dir()


@pytest.mark.parametrize(
    "path", ["files/link.png", "linked/a.png", "files/../../a.png", "../a.png", "files/", "a\0b", ""]
)
async def test_a_picture_elsewhere_is_none(space: Space, files: ReceivedFiles, tmp_path: Path, path: str) -> None:
    """However its path leads there: only what was received is shown to a model."""
    (space.root / "files").mkdir(parents=True)
    (tmp_path / "a.png").write_bytes(PNG)
    (space.root / "files" / "link.png").symlink_to(tmp_path / "a.png")
    (space.root / "linked").symlink_to(tmp_path)
    assert await files.image(space, path) is None


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 jpeg", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", None),
        (b"%PDF-1.7", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"", None),
        (PNG + b"x" * LARGEST_IMAGE, None),
    ],
)
async def test_a_picture_is_what_its_bytes_say(
    space: Space, files: ReceivedFiles, channel: FakeChannel, data: bytes, media_type: str | None
) -> None:
    """Whatever type and name its sender gave it; one too large for a model is none."""
    channel.files["r"] = data
    [path] = await received(space, channel, sent("lie.png", media_type="image/png"))
    image = await files.image(space, path)
    assert (image.media_type if image else None) == media_type
    assert image is None or image.data == data


async def test_a_picture_that_is_gone_is_none(space: Space, files: ReceivedFiles) -> None:
    """So is a folder."""
    (space.root / "files").mkdir(parents=True)
    assert await files.image(space, "files/1-1-a.png") is None
    assert await files.image(space, "files") is None
