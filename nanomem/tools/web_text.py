"""From the bytes of a web page to text for a model. Knows no network."""

import asyncio
import codecs
import re
import sys
from contextlib import suppress
from pathlib import Path

from nanomem.errors import ShowModel

_SECONDS = 10.0
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# Of Python's codecs those that the web uses: some of the others (punycode) take hours for a page.
_USED = re.compile(r"utf-8|utf-16(-[lb]e)?|(iso8859|cp125|cp9|koi8|mac-|gb|big5|euc_|shift_jis|iso2022)[\w-]*")


async def as_text(body: bytes, content_type: str) -> str:
    """The page as text, HTML as Markdown. Raises ShowModel for what is no text."""
    kind = content_type.partition(";")[0].strip().casefold()
    if kind in ("text/html", "application/xhtml+xml"):
        return await _markdown(_decoded(body, content_type))
    if not kind.startswith("text/") and not re.fullmatch(r"|application/(.*\+)?(json|xml|javascript)", kind):
        raise ShowModel(f"It is {kind[:80]}, which cannot be shown as text.")
    text = _decoded(body, content_type)
    if "\0" in text:
        raise ShowModel("It is binary data, which cannot be shown as text.")
    return text


def _decoded(body: bytes, content_type: str) -> str:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    if charset := _charset(content_type) or _charset(body[:2048].decode("ascii", "ignore")):
        return body.decode(charset, "replace")
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body)  # the end may be cut in a character
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _charset(text: str) -> str | None:
    """The first character set a header or the beginning of a page names, if it is one to be used."""
    if found := _CHARSET.search(text):
        with suppress(LookupError, ValueError):
            name = codecs.lookup(found[1]).name
            # Pages that say Latin-1 mean Windows' superset of it, says the HTML standard.
            return "cp1252" if name in ("iso8859-1", "ascii") else name if _USED.fullmatch(name) else None
    return None


async def _markdown(html: str) -> str:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(Path(__file__).with_name("page.py"))),
        env={},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    text = b""
    try:
        async with asyncio.timeout(_SECONDS):
            text, _ = await program.communicate(html.encode("utf-8", "replace"))
    except TimeoutError:
        pass
    finally:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()
    # If it did not come to an end, what stands between the tags.
    return text.decode() if program.returncode == 0 else re.sub(r"<[^<>]*>|\s+", " ", html)
