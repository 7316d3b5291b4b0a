"""When each follower of the metadata log last held everything that its leader did."""

from __future__ import annotations

from collections.abc import Container


class CaughtUpTimes:
    """`times` is in milliseconds of the caller's clock; the more often `look` is called, the more exact it is.

    A follower that now holds what the leader held at an earlier look had caught up as of that look, however much the
    leader has taken since. So Kafka counts lastCaughtUpTimestamp, at each fetch.
    """

    def __init__(self) -> None:
        self.times: dict[int, int] = {}
        """By node, of those that have ever caught up."""
        self._pending: dict[int, tuple[int, int]] = {}

    def forget_all(self) -> None:
        self.times.clear()
        self._pending.clear()

    def keep_only(self, node_ids: Container[int]) -> None:
        for node_id in [known for known in {*self.times, *self._pending} if known not in node_ids]:
            self.times.pop(node_id, None)
            self._pending.pop(node_id, None)

    def look(self, node_id: int, end: int, leader_end: int, now_ms: int) -> None:
        """The follower holds the log up to `end`, the leader up to `leader_end`."""
        if end >= leader_end:
            self.times[node_id] = now_ms
            self._pending.pop(node_id, None)
            return
        wanted_end, since_ms = self._pending.get(node_id, (leader_end, now_ms))
        if end >= wanted_end:
            self.times[node_id] = since_ms
            wanted_end, since_ms = leader_end, now_ms
        self._pending[node_id] = (wanted_end, since_ms)
