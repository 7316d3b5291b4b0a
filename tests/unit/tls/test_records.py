from __future__ import annotations

import pytest

from kraft.tls.records import RECORD_BYTES_MAX, NotTls, record_end


def _record(content: bytes) -> bytes:
    return b"\x17\x03\x03" + len(content).to_bytes(2, "big") + content


def test_a_record_ends_where_its_header_says() -> None:
    received = memoryview(_record(b"first") + _record(b"second"))
    assert record_end(received, 0) == 10
    assert record_end(received, 10) == 21
    assert record_end(received, 21) is None


def test_a_record_that_is_not_complete_has_no_end() -> None:
    whole = _record(b"content")
    assert all(record_end(memoryview(whole[:length]), 0) is None for length in range(len(whole)))


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (b"\0\0\0\x17\0\x12\0\x03", "security.protocol=SSL"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "gRPC"),
        (b"\x16\x02", "no TLS record"),
        (b"\xff", "no TLS record"),
        (b"\x17\x03\x03\xff\xff", "longer than TLS allows"),
    ],
)
def test_other_bytes_are_refused_with_the_likely_reason(start: bytes, reason: str) -> None:
    with pytest.raises(NotTls, match=reason):
        record_end(memoryview(start), 0)


def test_the_longest_record_of_tls_1_2_is_taken() -> None:
    record = _record(bytes(RECORD_BYTES_MAX - 5))
    assert record_end(memoryview(record), 0) == len(record)
