"""What a picture costs in a prompt, from its header alone. Pure."""

import math
import re

UNKNOWN = 1_105
"""For a picture whose size cannot be read: 85 + 6 tiles."""

# A JPEG's segments up to the one with its size: marker, length, and so on.
_JPEG_SIZE = (*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0))


def image_tokens(media_type: str, data: bytes) -> int:
    """OpenAI's rule for high detail, taken for every provider: 85, and 170 for each tile of 512 x 512 pixels.

    Before that the picture is scaled down into 2,048 x 2,048, then until its shorter side is 768. The header
    decides what it is; `media_type` is the sender's word. Source: platform.openai.com/docs/guides/images-vision.
    """
    width, height = size(data)
    if not (width and height) or not media_type.startswith("image/"):
        return UNKNOWN
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    tiles = math.ceil(max(1, int(width * scale)) / 512) * math.ceil(max(1, int(height * scale)) / 512)
    return 85 + 170 * tiles


def size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of a PNG, GIF, WebP or JPEG; zeros if they cannot be read."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return _big(data, 16, 4), _big(data, 20, 4)
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return _little(data, 6, 2), _little(data, 8, 2)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp(data)
    return _jpeg(data) if data.startswith(b"\xff\xd8") else (0, 0)


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case b"VP8L":
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while found := re.compile(rb"\xff+([^\xff])").match(data, at):
        at, marker = found.end(), found[1][0]
        if marker in _JPEG_SIZE and at + 7 <= len(data):
            return _big(data, at + 5, 2), _big(data, at + 3, 2)
        length = _big(data, at, 2)
        if length < 2:
            break
        at += length
    return 0, 0


def _big(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _little(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "little")
