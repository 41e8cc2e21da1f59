"""The picture of the README is no invention: it is of a chat that goes just so."""

from tests.daemon.picture import NANOMEM, PICTURE, SHOWN, Line, as_json, drawn, kept, shown
from tests.daemon.running import World


def test_the_picture_is_drawn_from_what_was_shown() -> None:
    """Nothing in it is drawn by hand; another word is another picture."""
    chat = kept(SHOWN.read_text())
    assert PICTURE.read_text() == drawn(chat)
    assert PICTURE.read_text() != drawn([*chat[:-1], Line(NANOMEM, "Whatever you like.")])


async def test_the_chat_goes_as_it_is_shown(world: World) -> None:
    """The daemon still says what the picture says; if it shall say something else, run `scripts/picture`."""
    assert as_json(await shown(world)) == SHOWN.read_text()
