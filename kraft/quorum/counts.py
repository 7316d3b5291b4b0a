"""Counts of one voter since its process began: plain numbers, which others read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft.quorum.messages import AppendEntriesResponse, Message, PreVoteResponse, VoteResponse

_RESPONSES: Final = (AppendEntriesResponse, VoteResponse, PreVoteResponse)

MINUTE_S: Final = 60.0


class QuorumCounts:
    """What it exchanged with other voters, and how long its entries took until they were committed."""

    __slots__ = (
        "_before",
        "_minute",
        "_present",
        "commit_s",
        "commits",
        "received_bytes",
        "requests_sent",
        "responses_received",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.sent_bytes = 0
        """Bytes of the frames that it sent, as protobuf."""
        self.received_bytes = 0
        self.requests_sent = 0
        """Messages that are no responses: appends, which heartbeats are, requests for votes, parts of snapshots."""
        self.responses_received = 0
        self.commits = 0
        """Entries of this voter, while it led, that were committed."""
        self.commit_s = 0.0
        """Time from their proposals until it had them committed, and applied."""
        self._minute = 0
        self._present = self._before = (0, 0.0)

    def sent(self, size_bytes: int, messages: Iterable[Message]) -> None:
        self.sent_bytes += size_bytes
        self.requests_sent += sum(not isinstance(message, _RESPONSES) for message in messages)

    def received(self, size_bytes: int, messages: Iterable[Message]) -> None:
        self.received_bytes += size_bytes
        self.responses_received += sum(isinstance(message, _RESPONSES) for message in messages)

    def committed(self, took_s: float, now_s: float) -> None:
        self.commits += 1
        self.commit_s += took_s
        self._turn_to(now_s)
        count, sum_s = self._present
        self._present = count + 1, sum_s + took_s

    def commit_mean_s(self, now_s: float) -> float | None:
        """Return the mean of this minute and of the one before; None if nothing was committed in them."""
        self._turn_to(now_s)
        count = self._present[0] + self._before[0]
        return (self._present[1] + self._before[1]) / count if count else None

    def _turn_to(self, now_s: float) -> None:
        minute = int(now_s // MINUTE_S)
        if minute != self._minute:
            self._before = self._present if minute == self._minute + 1 else (0, 0.0)
            self._minute, self._present = minute, (0, 0.0)
