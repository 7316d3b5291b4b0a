"""Counts of a voter: what it sent and got, and how long commits took lately."""

from __future__ import annotations

import pytest

from kraft.quorum.counts import QuorumCounts
from kraft.quorum.messages import AppendEntries, AppendEntriesResponse, VoteRequest, VoteResponse

HEARTBEAT = AppendEntries(term=1, previous_index=0, previous_term=0, entries=(), commit_index=0)
VOTE = VoteRequest(term=1, last_log_index=0, last_log_term=0)
ACKNOWLEDGED = AppendEntriesResponse(term=1, next_index=1, success=True, reset=False)


def test_requests_count_when_they_are_sent_and_responses_when_they_come() -> None:
    counts = QuorumCounts()
    counts.sent(100, [HEARTBEAT, VOTE, VoteResponse(term=1)])
    counts.received(70, [ACKNOWLEDGED, HEARTBEAT])
    assert (counts.sent_bytes, counts.received_bytes) == (100, 70)
    assert (counts.requests_sent, counts.responses_received) == (2, 1)


def test_the_mean_is_of_this_minute_and_the_one_before() -> None:
    counts = QuorumCounts()
    assert counts.commit_mean_s(0.0) is None
    for took_s, now_s in ((0.010, 10.0), (0.030, 59.0), (0.080, 70.0)):
        counts.committed(took_s, now_s)
    assert counts.commit_mean_s(70.0) == pytest.approx(0.040)
    assert counts.commit_mean_s(130.0) == pytest.approx(0.080)
    assert counts.commit_mean_s(200.0) is None
    # After a pause nothing of before counts.
    counts.committed(0.005, 1_000.0)
    assert counts.commit_mean_s(1_000.0) == pytest.approx(0.005)
    assert counts.commits == 4
    assert counts.commit_s == pytest.approx(0.125)
