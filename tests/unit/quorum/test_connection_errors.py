"""The texts are those of gRPC 1.85, as a link to such a voter gets them."""

from __future__ import annotations

import pytest

from kraft.quorum.connection_errors import short_reason

CONNECTING = "failed to connect to all addresses; last error: "
NO_HTTP2 = (
    "parsing HTTP/2 (Expected SETTINGS frame as the first frame, got frame type 80) "
    "(Trying to connect an http1.x server (HTTP status 400))"
)
NOWHERE = "nowhere.invalid:9094"
LOOKUP = "hostname lookup error:address lookup failed for"


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        (
            f"{CONNECTING}UNKNOWN: ipv4:127.0.0.1:16823: Failed to connect to remote host: Connection refused",
            "connection refused",
        ),
        (
            f"{CONNECTING}UNKNOWN: ipv6:%5B::1%5D:16823: Failed to connect to remote host: Connection refused",
            "connection refused",
        ),
        (f"{CONNECTING}UNAVAILABLE: ipv4:127.0.0.1:40237: Socket closed", "socket closed"),
        (
            f"{CONNECTING}UNAVAILABLE: ipv4:127.0.0.1:46791: recvmsg:Connection reset by peer (104)",
            "connection reset by peer (104)",
        ),
        (f"{CONNECTING}INTERNAL: ipv4:127.0.0.1:41239: Failed {NO_HTTP2}", f"failed {NO_HTTP2}"),
        (f"errors resolving {NOWHERE}: [field:{LOOKUP} {NOWHERE}: Domain name not found]", "domain name not found"),
        ("Stream removed (Socket closed)", "socket closed"),
    ],
)
def test_the_reason_is_what_grpc_says_last(details: str, reason: str) -> None:
    assert short_reason(details) == reason


@pytest.mark.parametrize("details", ["node 2 is starting or stopping", "the other side closed the stream", ""])
def test_other_texts_are_left_as_they_are(details: str) -> None:
    assert short_reason(details) == details
