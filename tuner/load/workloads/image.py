"""A small picture to send, made without a library."""

from __future__ import annotations

import base64
import random
import struct
import zlib


def tiny_png(rng: random.Random, side: int = 64) -> str:
    """A square PNG of four coloured quadrants, as a data URL. Different draws, different colours."""
    colours = [bytes(int(rng.random() * 256) for _ in range(3)) for _ in range(4)]
    half = side // 2
    rows = []
    for y in range(side):
        left, right = colours[2 * (y >= half)], colours[2 * (y >= half) + 1]
        rows.append(b"\0" + left * half + right * (side - half))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    data += _chunk(b"IDAT", zlib.compress(b"".join(rows), 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
