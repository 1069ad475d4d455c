"""Writes images, grey or in colour, as PNG files, with zlib of the standard library."""

from __future__ import annotations

import struct
import zlib


def grey_png(pixels: bytes, width: int, height: int) -> bytes:
    """A PNG of `height` rows of `width` 8-bit greys.

    >>> grey_png(bytes(6), 3, 2)[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    return _png(pixels, width, height, 1, 0)


def rgb_png(pixels: bytes, width: int, height: int) -> bytes:
    """A PNG of `height` rows of `width` pixels of 8-bit red, green and blue.

    >>> rgb_png(bytes(18), 3, 2)[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    return _png(pixels, width, height, 3, 2)


def _png(pixels: bytes, width: int, height: int, samples: int, color_type: int) -> bytes:
    line = width * samples
    if len(pixels) != line * height:
        raise ValueError(f"{width} x {height} pixels are {line * height} bytes (got {len(pixels)})")
    rows = b"".join(b"\0" + pixels[row * line : (row + 1) * line] for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, color_type, 0, 0, 0)
    parts = (_part(b"IHDR", header), _part(b"IDAT", zlib.compress(rows, 6)), _part(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
