"""A program that turns HTML on its input into Markdown on its output. Nothing else imports or knows it.

A process of its own, because a page can make a parser take hours or gigabytes, and only a process can be ended.
"""

import os
import re
import resource
import sys

from bs4 import BeautifulSoup
from markdownify import MarkdownConverter

_MEMORY = 1 << 30
_CPU_S = 15
_NOT_TEXT = ["script", "style", "noscript", "template", "svg", "iframe"]


def convert(html: bytes) -> str:
    """The Markdown of a page; of one nested too deeply the bare text."""
    soup = BeautifulSoup(html, "html.parser", from_encoding="utf-8")
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
    sys.stdout.buffer.write(convert(sys.stdin.buffer.read()).encode("utf-8", "replace"))
    sys.stdout.flush()
    os._exit(0)  # taking a deep tree down again may exhaust the stack
