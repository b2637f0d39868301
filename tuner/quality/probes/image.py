"""The probe of models that see: an image in the request, and whether it was looked at."""

from __future__ import annotations

import base64
import struct
import zlib

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import completion

_SIDE = 64
_RED, _GREEN = b"\xe0\x10\x10", b"\x10\xc0\x10"


async def image(ask: Asker) -> None:
    """A picture whose left half is red and whose right half is green."""
    url = f"data:image/png;base64,{base64.b64encode(_png()).decode()}"
    content = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "Which two colours are in the picture? Answer in two words."},
    ]
    reply = await ask.chat([{"role": "user", "content": content}], max_tokens=512)
    said = completion(reply).first.text.lower()
    if "red" not in said or "green" not in said:
        raise ProbeFailed(f"of a red and green picture it says {said[:80]!r}")


def _png() -> bytes:
    row = b"\x00" + _RED * (_SIDE // 2) + _GREEN * (_SIDE // 2)
    size = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(row * _SIDE)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
