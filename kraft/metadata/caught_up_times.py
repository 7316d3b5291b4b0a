"""The time at which each follower of the metadata log last held everything that its leader held."""

from __future__ import annotations

from collections.abc import Container


class CaughtUpTimes:
    """The last caught-up time of each follower, in milliseconds of the caller's clock.

    A follower that now holds what the leader held at an earlier call of `observe` had caught up as of that call, even
    if the leader has appended more since. Kafka computes lastCaughtUpTimestamp in the same way, at each fetch. The more
    often `observe` is called, the more exact the times are.
    """

    def __init__(self) -> None:
        self.times: dict[int, int] = {}
        """Times by node id; only nodes that have ever caught up."""
        self._pending: dict[int, tuple[int, int]] = {}

    def forget_all(self) -> None:
        self.times.clear()
        self._pending.clear()

    def keep_only(self, node_ids: Container[int]) -> None:
        for node_id in [known for known in {*self.times, *self._pending} if known not in node_ids]:
            self.times.pop(node_id, None)
            self._pending.pop(node_id, None)

    def observe(self, node_id: int, end: int, leader_end: int, now_ms: int) -> None:
        """Note that the follower holds the log up to `end`, and the leader up to `leader_end`."""
        if end >= leader_end:
            self.times[node_id] = now_ms
            self._pending.pop(node_id, None)
            return
        wanted_end, since_ms = self._pending.get(node_id, (leader_end, now_ms))
        if end >= wanted_end:
            self.times[node_id] = since_ms
            wanted_end, since_ms = leader_end, now_ms
        self._pending[node_id] = (wanted_end, since_ms)
