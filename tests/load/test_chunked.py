from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.load.chunked import BadChunk, ChunkedBody

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def by_h11(body: bytes) -> tuple[bytes, bool] | None:
    """What h11 makes of a body: its content and whether it ended; None for an error."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(HEAD + body)
    content = b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Data):
                content += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return None if connection.trailing_data[0] else (content, True)
            elif event is h11.NEED_DATA:
                return content, False
    except h11.RemoteProtocolError:
        return None


def by_us(body: bytes, sizes: list[int]) -> tuple[bytes, bool] | None:
    """What we make of it, cut into reads."""
    decoder, content, at, turn = ChunkedBody(), b"", 0, 0
    try:
        while at < len(body):
            size = sizes[turn % len(sizes)]
            pieces = decoder.feed(body[at : at + size])
            assert all(pieces)
            content += b"".join(pieces)
            at, turn = at + size, turn + 1
    except BadChunk:
        return None
    return content, decoder.done


chunks = st.lists(st.binary(min_size=1, max_size=30), max_size=6)
cuts = st.lists(st.integers(1, 20), min_size=1, max_size=8)
sizes_as_text = st.sampled_from(["{:x}", "{:X}", "00{:x}", "{:x};a=b", '{:x};q="x y"'])
ends = st.sampled_from(
    [b"0\r\n\r\n", b"000\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"0;z\r\n\r\n", b"", b"0\r\n"]
)


@given(chunks, sizes_as_text, ends, cuts)
def test_bodies_come_out_as_they_went_in(
    parts: list[bytes], form: str, end: bytes, sizes: list[int]
) -> None:
    body = b"".join(form.format(len(part)).encode() + b"\r\n" + part + b"\r\n" for part in parts)
    found = by_us(body + end, sizes)
    assert found == (b"".join(parts), end.endswith(b"\r\n\r\n"))
    assert found == by_h11(body + end)


@given(chunks, st.data(), cuts)
def test_bodies_with_an_error_are_refused_where_h11_refuses_them(
    parts: list[bytes], data: st.DataObject, sizes: list[int]
) -> None:
    body = bytearray(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n")
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.sampled_from(b"\r\n0f;gz +-_x"))
    expected = by_h11(bytes(body))
    found = by_us(bytes(body), sizes)
    if expected is None:
        assert found is None or not found[1]  # an unfinished line is only refused by its length
    elif found is not None:
        assert found == expected


@pytest.mark.parametrize(
    "body",
    [
        *(b"g\r\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b"1_0\r\n", b"\r\n", b" 1\r\n"),
        *(b"1\r\nab\r\n", b"1\r\na\r\r", b"1\r\na\n", b"0\r\n\r\nx"),
        *(b"1" * 17 + b"\r\n", b"1" * 17_000),
    ],
)
def test_what_is_refused(body: bytes) -> None:
    assert by_us(body, [1]) is None
    assert by_us(body, [len(body)]) is None


def test_content_is_given_out_with_the_read_that_brings_it() -> None:
    decoder = ChunkedBody()
    assert decoder.feed(b"a\r\nhello") == [b"hello"]
    assert decoder.feed(b" ") == [b" "]
    assert decoder.feed(b"you!\r") == [b"you!"]
    assert decoder.feed(b"\n") == []
