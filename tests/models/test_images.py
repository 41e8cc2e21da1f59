"""A picture's tokens follow from its size, which is read from its header, whatever the rest is."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.models.images import UNKNOWN, image_tokens, size

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1024, 1024)
GIF = b"GIF89a" + struct.pack("<HH", 300, 200)
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", 600, 800) + b"\0" * 9
LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 640, 480)
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 639 | 479 << 14) + b"\0" * 9
EXTENDED = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PNG, (1024, 1024)),
        (GIF, (300, 200)),
        (JPEG, (800, 600)),
        (LOSSY, (640, 480)),
        (LOSSLESS, (640, 480)),
        (EXTENDED, (640, 480)),
        (b"", (0, 0)),
        (b"\xff\xd8\xff\xe0\0\0", (0, 0)),
        (b"<svg/>", (0, 0)),
    ],
)
def test_reads_sizes(data: bytes, expected: tuple[int, int]) -> None:
    """Of all kinds of pictures that chat networks send."""
    assert size(data) == expected


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1024, 1024, 765), (2048, 4096, 1105), (512, 512, 255), (1, 1, 255), (100_000, 1, 765), (0, 5, UNKNOWN)],
)
def test_counts_tiles(width: int, height: int, tokens: int) -> None:
    """85 and 170 a tile, after scaling: the provider's own examples."""
    assert image_tokens("image/png", PNG[:16] + struct.pack(">II", width, height)) == tokens


@given(st.sampled_from([b"", PNG[:16], GIF[:6], JPEG[:4], LOSSY[:16], EXTENDED[:16]]), st.binary(max_size=60))
def test_never_raises(start: bytes, rest: bytes) -> None:
    """Any bytes have a price, and a bounded one."""
    assert 255 <= image_tokens("image/jpeg", start + rest) <= 85 + 170 * 8
