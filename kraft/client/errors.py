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


class BufferExhausted(KraftError):
    """The producer's `buffer_memory` stayed full for `max_block_ms`: brokers take records slower than they come."""


class ClientClosed(KraftError):
    """The producer, consumer or admin client was closed."""


class NotBuiltYet(KraftError):
    """A feature that this version does not have."""
