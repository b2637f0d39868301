from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuner.load import sse
from tuner.load.sse import EventTooLarge, SseParser


def reference(stream: bytes) -> list[bytes]:
    """The HTML standard's algorithm, written down line by line, on the whole stream at once."""
    stream = stream.removeprefix(b"\xef\xbb\xbf")
    lines = re.split(b"\r\n|\n|\r", stream)
    lines.pop()  # what stands after the last line end is no line
    events, data = [], b""
    for line in lines:
        if line == b"":
            if data:
                events.append(data[:-1])
            data = b""
            continue
        name, _, value = line.partition(b":")
        if name == b"data":
            data += value.removeprefix(b" ") + b"\n"
    return events


LINE_ENDS = [b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n"]
OTHERS = [b"data: ", b"data:", b"data", b"event: x", b": note", b"id: 1", b"retry: 5", b"[DONE]"]
TEXTS = [b"{}", b" ", b"x", "é".encode(), b"\xef\xbb\xbf", b":"]
pieces = st.sampled_from([*LINE_ENDS, *OTHERS, *TEXTS])


@given(st.lists(pieces, max_size=40), st.lists(st.integers(1, 9), min_size=1, max_size=20))
@example([b"data: a", b"\r", b"\n", b"\r", b"\n"], [1])
@example([b"\xef\xbb\xbf", b"data: a", b"\n\n"], [1])
@example([b"data", b"\n\n"], [3])
def test_any_stream_cut_anywhere_gives_what_the_standard_says(
    parts: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(parts)
    parser, found, at, turn = SseParser(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += parser.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert found == reference(stream)


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), max_size=8),
    st.integers(1, 7),
)
def test_characters_cut_in_the_middle_come_out_whole(texts: list[str], size: int) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts).encode()
    parser = SseParser()
    found = []
    for at in range(0, len(stream), size):
        found += parser.feed(stream[at : at + size])
    assert [payload.decode() for payload in found] == texts


def test_an_event_is_given_out_with_the_read_that_completes_it() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 1\n") == []
    assert parser.feed(b"\ndata: 2\n\nda") == [b"1", b"2"]
    assert parser.feed(b"ta: 3\r\r") == [b"3"]  # not held back to see whether LF follows
    assert parser.feed(b"\n") == []


def test_an_event_cut_off_by_the_end_is_none() -> None:
    assert SseParser().feed(b"data: 1\n") == []


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    parser = SseParser()
    parser.feed(b"data: " + b"x" * 90)
    with pytest.raises(EventTooLarge):
        parser.feed(b"x" * 20)
