"""Sizes of the batches that coordinators write, whatever the limits of their topic were lowered to.

Without them a transaction that is larger than a lowered `max.message.bytes` could neither be committed nor aborted, and
consumers of its partitions would stop at its first record. In Kafka the topic's limits apply to coordinators, too.
"""

from __future__ import annotations

from typing import Final

import structlog

from kraft.coordinator.shard_batches import TooLarge
from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.model.errors import Refusal
from kraft.server.loop.periods import loop_time_s

log = structlog.get_logger()

BATCH_BYTES_MIN: Final = KAFKA_DEFAULTS.max_message_bytes
"""Coordinators write batches of this size under any config: the default of `max.message.bytes`, 1 MiB."""

LOG_S: Final = 60.0
"""Least time between two log lines of a shard about its sizes: a timer is retried every half second."""


def batch_bytes_max(config: TopicConfig) -> int:
    """Return the size above which coordinators refuse to write to a log what a client can make smaller."""
    return max(config.max_message_bytes, BATCH_BYTES_MIN)


class SizeLog:
    """Logs which writes of a shard were refused for their size."""

    def __init__(self, partition: str) -> None:
        self._partition = partition
        self._next_s = float("-inf")

    def refused(self, refusal: Refusal | None, task: str) -> None:
        """Log the refusal of a command or timer if its records were too large; at most once in LOG_S."""
        now_s = loop_time_s()
        if isinstance(refusal, TooLarge) and now_s >= self._next_s:
            self._next_s = now_s + LOG_S
            log.warning("coordinator write too large", partition=self._partition, task=task, reason=refusal.message)
