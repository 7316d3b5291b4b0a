from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kraft.model.refused_for import RefusedFor
from kraft.rpc.refusal_log import AGAIN_AFTER_MS, LINES_MAX, TEXT_MAX, RefusalLog, readable_peer


class Time:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def test_the_line_names_the_peer_and_the_reason() -> None:
    with capture_logs() as lines:
        RefusalLog(Time()).log("ipv6:%5B::1%5D:40000", "a stranger", RefusedFor.NOT_A_NODE)
    assert lines == [{"event": "peer refused", "log_level": "warning", "peer": "[::1]:40000", "reason": "a stranger"}]


def test_repeated_refusals_of_a_host_are_logged_once_a_minute() -> None:
    time = Time()
    refusals = RefusalLog(time)
    with capture_logs() as lines:
        for port in range(1_000):
            refusals.log(f"ipv4:10.0.0.1:{port}", "a stranger", RefusedFor.NOT_A_NODE)
        refusals.log("ipv4:10.0.0.2:1", "a stranger", RefusedFor.NOT_A_NODE)
        time.now_ms += AGAIN_AFTER_MS
        refusals.log("ipv4:10.0.0.1:1", "a stranger", RefusedFor.NOT_A_NODE)
    assert [(line["peer"], line.get("refusals_not_logged")) for line in lines] == [
        ("10.0.0.1:0", None),
        ("10.0.0.2:1", 999),
        ("10.0.0.1:1", None),
    ]


def test_reasons_that_differ_in_a_number_are_of_one_kind() -> None:
    refusals = RefusalLog(Time())
    with capture_logs() as lines:
        for position in range(100):
            refusals.log("ipv4:10.0.0.1:1", f"a request ends early, at byte {position}", RefusedFor.NOT_A_NODE)
            refusals.log("ipv4:10.0.0.1:1", f"a request of {position} bytes", RefusedFor.NOT_A_NODE)
    assert [line["reason"] for line in lines] == ["a request ends early, at byte 0", "a request of 0 bytes"]


def test_reasons_that_a_stranger_chooses_do_not_fill_the_log() -> None:
    refusals = RefusalLog(Time())
    with capture_logs() as lines:
        for number in range(10_000):
            refusals.log("ipv4:10.0.0.1:1", "ab"[number % 2] * number + "x" * 10_000, RefusedFor.NOT_A_NODE)
    assert len(lines) == LINES_MAX
    assert max(len(line["reason"]) for line in lines) == TEXT_MAX


@pytest.mark.parametrize(
    ("peer", "readable"),
    [
        ("ipv4:127.0.0.1:1", "127.0.0.1:1"),
        ("unix:/a", "unix:/a"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "[fe80::1%eth0]:1"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:1", "10.0.0.7:1"),
    ],
)
def test_grpcs_names_of_peers_are_made_readable(peer: str, readable: str) -> None:
    assert readable_peer(peer) == readable
