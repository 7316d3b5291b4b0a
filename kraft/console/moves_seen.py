"""Since when the console has seen partitions move: brokers do not keep when a move began."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Final

from msgspec import Struct

from kraft.model.ids import TopicPartition

SEEN_MAX: Final = 10_000
"""Moves that are remembered, of all clusters; of further ones is not said since when."""


class Seen(Struct, frozen=True, kw_only=True):
    since_ms: int
    copied_bytes: int
    """What had been copied then."""


class MovesSeen:
    """Used from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_cluster: dict[str, dict[TopicPartition, Seen]] = {}

    def seen(self, cluster: str, copied: Mapping[TopicPartition, int], now_ms: int) -> dict[TopicPartition, Seen]:
        """Return since when these partitions move, all that move in the cluster now; others are forgotten."""
        with self._lock:
            before = self._by_cluster.get(cluster, {})
            room = SEEN_MAX - sum(map(len, self._by_cluster.values())) + len(before)
            found: dict[TopicPartition, Seen] = {}
            for partition, copied_bytes in copied.items():
                if len(found) == room:
                    break
                found[partition] = before.get(partition) or Seen(since_ms=now_ms, copied_bytes=copied_bytes)
            self._by_cluster[cluster] = found
            return dict(found)
