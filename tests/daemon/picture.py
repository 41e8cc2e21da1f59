"""`python -m tests.daemon.picture`: talks to the real daemon as somebody at Telegram, and draws what the chat showed.

`docs/chat.json` is what was shown, `docs/chat.svg` the picture of it. The model is the offline one. All times are
shown as one, so that the picture changes only when the program says something else.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.daemon.running import CHECKOUT, OWNER, PLACEHOLDER, Person, World, a_world

SHOWN = CHECKOUT / "docs" / "chat.json"
PICTURE = CHECKOUT / "docs" / "chat.svg"
ANN, NANOMEM, NOTE = "Ann", "nanomem", ""
"""Who says it; a note is about what happens to the process."""

_TIMES = {r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b": "2026-04-10 09:15", r"\bon \d{1,2} [A-Z][a-z]+\b": "on 10 April"}


class Line(NamedTuple):
    """Something that stands in the chat, or a note between."""

    who: str
    text: str


async def shown(world: World) -> list[Line]:
    """The conversation, as the chat shows it; each answer is awaited before more is said."""
    telegram, ann = world.telegram, Person(world)
    fact, question = "Remember: the spare key is with Ingrid.", "Who has the spare key?"
    life = await (await world.daemon()).ready()
    telegram.say(fact)
    await world.settled(OWNER, fact)
    chat = [Line(ANN, fact), *map(_answer, telegram.visible())]

    telegram.fail_next("editMessageText", hang=True)  # so that the answer is under way until the kill
    telegram.say(question)
    edits = len(telegram.calls_of("editMessageText"))
    await world.until(lambda: len(telegram.calls_of("editMessageText")) > edits)
    await life.kill()
    chat += [
        Line(ANN, question),
        *map(_answer, telegram.visible()[1:]),
        Line(NOTE, "kill -9 amid the answer, and a new start"),
    ]
    life = await world.daemon()
    await world.settled(OWNER, fact, question)
    chat += map(_answer, telegram.visible()[1:])

    commands = "/memory why spare key", "/remember The boiler is checked every April", "/undo", "/memory log"
    for command in commands:
        chat += [Line(ANN, command), _answer(await ann.asks(command))]
    await life.stops()
    return chat


def _answer(text: str) -> Line:
    for time, same in _TIMES.items():
        text = re.sub(time, same, text)
    return Line(NANOMEM, text)


# --- drawing

WIDTH, MARGIN, PADDING, GAP = 720, 20, 13, 9
SIZE, LEADING = 14, 19
BUBBLE = 600
"""Pixels of the widest text in a bubble."""
_WIDTHS = {
    **dict.fromkeys("ijl.,:;'|!", 0.3),
    **dict.fromkeys('frt()[]/-" ', 0.4),
    **dict.fromkeys("mwMWO@%…", 0.9),
    **dict.fromkeys("0123456789", 0.64),
}
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; white-space: pre; }
.page { fill: #eef1f4; } .nanomem { fill: #ffffff; } .ann { fill: #cfe8d5; }
.waits { fill: none; stroke: #8b949e; stroke-dasharray: 4 4; }
.note { font-size: 12px; fill: #b4232a; text-anchor: middle; } .cut { stroke: #b4232a; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .page { fill: #161b22; } .nanomem { fill: #2b323b; } .ann { fill: #1e4a33; }
.note { fill: #ff8b82; } .cut { stroke: #ff8b82; }
}"""


def drawn(chat: Sequence[Line]) -> str:
    """The picture, as SVG."""
    y, parts = MARGIN, list[str]()
    for line in chat:
        height, part = _note(line.text, y) if line.who == NOTE else _bubble(line, y)
        parts.append(part)
        y += height + GAP
    height = y - GAP + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    page = f'<rect class="page" width="{WIDTH}" height="{height}" rx="12"/>'
    return "\n".join(
        [
            f'{head} role="img">',
            "<title>A chat with nanomem</title>",
            f"<style>{STYLE}\n</style>",
            page,
            *parts,
            "</svg>\n",
        ]
    )


def _bubble(line: Line, y: int) -> tuple[int, str]:
    """Its height, and itself; what Ann says stands on the right."""
    rows = [row for paragraph in line.text.splitlines() for row in _rows(paragraph)]
    width = round(max(map(_width, rows)) + 2 * PADDING)
    height = len(rows) * LEADING + 2 * PADDING - 6
    x = WIDTH - MARGIN - width if line.who == ANN else MARGIN
    kind = "waits" if line.text == PLACEHOLDER else line.who.lower()
    box = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="14"/>'
    texts = [
        f'<text x="{x + PADDING}" y="{y + PADDING + SIZE - 4 + number * LEADING}">{escape(row, quote=False)}</text>'
        for number, row in enumerate(rows)
    ]
    return height, "\n".join([box, *texts])


def _note(text: str, y: int) -> tuple[int, str]:
    """In the middle, between two strokes."""
    middle, room = WIDTH // 2, round(_width(text) / 2) + 8
    strokes = (
        f'<path class="cut" d="M{MARGIN} {y + 9}H{middle - room}M{middle + room} {y + 9}H{WIDTH - MARGIN}"/>\n'
        f'<text class="note" x="{middle}" y="{y + 14}">{escape(text, quote=False)}</text>'
    )
    return 18, strokes


def _rows(paragraph: str) -> Iterator[str]:
    """Broken between words, so that each fits."""
    row = ""
    for word in re.findall(r"\s*\S+", paragraph):
        if row and _width(row + word) > BUBBLE:
            yield row
            row = word.lstrip()
        else:
            row += word
    yield row


def _width(text: str) -> float:
    """About as wide as the usual fonts have it, rather more."""
    return sum(SIZE * _WIDTHS.get(sign, 0.7 if sign.isupper() else 0.58) for sign in text)


# --- keeping


def kept(text: str) -> list[Line]:
    """What `docs/chat.json` has."""
    return [Line(**line) for line in json.loads(text)]


def as_json(chat: Sequence[Line]) -> str:
    """As it is kept, a line for each."""
    lines = ",\n".join(json.dumps(line._asdict(), ensure_ascii=False) for line in chat)
    return f"[\n{lines}\n]\n"


async def main() -> int:
    """Writes both files."""
    with tempfile.TemporaryDirectory(prefix="nanomem-picture-") as folder:
        async with a_world(Path(folder)) as world:
            chat = await shown(world)
    SHOWN.write_text(as_json(chat))
    PICTURE.write_text(drawn(chat))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
