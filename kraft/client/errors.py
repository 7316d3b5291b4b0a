"""What can go wrong for a user of the client, beside a broker's own refusal.

Every error here is a `KraftError`, and its text is one line that says what to look at.
"""

from __future__ import annotations

from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition


class InvalidSetting(KraftError, ValueError):
    """A setting of the client that does not exist, or a value that it cannot have."""


class DeliveryTimeout(KraftError):
    """A record was not acknowledged within `delivery_timeout_ms`. Whether it was stored is unknown."""

    def __init__(self, partition: TopicPartition, timeout_ms: int, reason: str) -> None:
        super().__init__(
            f"{partition}: not acknowledged within delivery.timeout.ms={timeout_ms}; last reason: {reason}"
        )
        self.partition = partition
        self.reason = reason


class RecordTooLarge(Refusal):
    """A record above `max_request_size`, refused before it was sent anywhere."""

    def __init__(self, size_bytes: int, max_request_size: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record of {size_bytes} bytes is above the producer's max.request.size={max_request_size}",
        )


class LogTruncated(Refusal):
    """Records that a consumer was given are no longer in the log, and auto.offset.reset is none.

    `position` is where the consumer stood. `divergent_offset` is the first offset of which the leader's log is known
    to be another; None when the leader knows nothing of the records that were read.
    """

    def __init__(self, partition: TopicPartition, position: int, divergent_offset: int | None) -> None:
        self.what = describe_truncation(partition, position, divergent_offset)
        """The message without the remedy."""
        remedy = "auto.offset.reset=none; seek to where reading shall go on"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.what}, and {remedy}")
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset


def describe_truncation(partition: TopicPartition, position: int, divergent_offset: int | None) -> str:
    """Says that an unclean election took back records below `position`, where a reader stood."""
    if divergent_offset is None:
        return f"{partition}: the log was truncated, and its leader has none of what was read up to offset {position}"
    return (
        f"{partition}: the log was truncated to offset {divergent_offset}, and offsets {divergent_offset} to "
        f"{position - 1}, which were read, are gone or hold other records"
    )


class BufferExhausted(KraftError):
    """The producer's `buffer_memory` stayed full for `max_block_ms`: brokers take records slower than they come."""


class ClientClosed(KraftError):
    """The producer, consumer or admin client was closed."""


class NotBuiltYet(KraftError):
    """A feature that this version does not have."""
