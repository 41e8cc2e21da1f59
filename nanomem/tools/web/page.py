"""A program: the bytes of a page on its input, `html` or `text` and a character set or nothing as its arguments.

Writes the text as UTF-8, HTML as Markdown. Nothing else imports or knows it.
"""

import codecs
import os
import re
import resource
import sys
from contextlib import suppress

_MEMORY = 1 << 30
_CPU_S = 10
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_META = re.compile(rb"<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_NOT_TEXT = ["script", "style", "noscript", "template", "svg", "iframe"]


def decoded(body: bytes, charset: str) -> str:
    """By its byte order mark, the given character set, or its own word; else as UTF-8, or what Windows makes of it."""
    marked = next((name for mark, name in _BOMS if body.startswith(mark)), "")
    declared = _META.search(body[:2048])
    for name in (marked, charset, declared[1].decode() if declared else ""):
        with suppress(LookupError, UnicodeError):  # also raised for no name at all
            return body.decode(name, "replace")
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body)  # the end may be cut in a character
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def markdown(html: str) -> str:
    """The Markdown of a page; of one nested too deeply the bare text."""
    from bs4 import BeautifulSoup  # plain text needs neither
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    for tag in soup(_NOT_TEXT):
        tag.extract()
    try:
        text = MarkdownConverter(heading_style="atx", strip=["img"]).convert_soup(soup)
    except RecursionError:
        text = soup.get_text("\n", strip=True)
    return re.sub(r"\n\s*\n\s*", "\n\n", text).strip()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    kind, charset = sys.argv[1:]
    text = decoded(sys.stdin.buffer.read(), charset)
    sys.stdout.buffer.write((markdown(text) if kind == "html" else text).encode("utf-8", "replace"))
    sys.stdout.flush()
    os._exit(0)  # taking a deep tree down again may exhaust the stack
