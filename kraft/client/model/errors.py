"""Errors that the client raises itself; a broker's refusal is `kraft.model.errors.Refusal`.

Every error here is a `KraftError`, and its text is one line that says where to look.
"""

from __future__ import annotations

from kraft.model.describe_quorum import QuorumDescription
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import TopicPartition


class InvalidSetting(KraftError, ValueError):
    """A client setting that does not exist, or an invalid value of one."""


class AuthenticationFailed(Refusal):
    """A broker does not accept this client, or this client that broker, until somebody changes settings.

    The login was refused or is missing, a certificate is not accepted, or one of the two has TLS and the other has not.
    What waits for that broker ends at once: to try again is in vain. For what is no error code of Kafka's, `error_code`
    is UNKNOWN_SERVER_ERROR. `lacks_settings`: the client has none of the settings of security that are needed.
    """

    def __init__(self, code: ErrorCode, message: str, *, lacks_settings: bool = False) -> None:
        super().__init__(code, message)
        self.lacks_settings = lacks_settings

    def __str__(self) -> str:
        has_code = self.error_code is not ErrorCode.UNKNOWN_SERVER_ERROR
        return super().__str__() if has_code else self.message


class DeliveryTimeout(KraftError):
    """A record was not acknowledged within `delivery_timeout_ms`. It may or may not be stored."""

    def __init__(self, partition: TopicPartition, timeout_ms: int, reason: str) -> None:
        super().__init__(
            f"{partition}: not acknowledged within delivery.timeout.ms={timeout_ms}; last reason: {reason}"
        )
        self.partition = partition
        self.reason = reason


class NoRetriesLeft(KraftError):
    """A batch failed as often as `retries` allows. After a lost response its records may be stored."""

    def __init__(self, partition: TopicPartition, retries: int, reason: str) -> None:
        super().__init__(
            f"{partition}: not acknowledged, and retries={retries} allows no further attempt; last reason: {reason}"
        )
        self.partition = partition
        self.reason = reason


class RecordTooLarge(Refusal):
    """A record is larger than `max_request_size`. The producer did not send it."""

    def __init__(self, size_bytes: int, max_request_size: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record of {size_bytes} bytes is larger than the producer's max.request.size={max_request_size}",
        )


class PartitionUnreadable(Refusal):
    """One partition cannot be read, until the next seek; the others can."""

    def __init__(self, partition: TopicPartition, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.partition = partition


class LogTruncated(PartitionUnreadable):
    """Records that a consumer has read are no longer in the log, and auto.offset.reset is none.

    `position` is the consumer's position. `divergent_offset` is the first offset at which the leader's log differs
    from what was read; None when the leader has none of the records that were read.
    """

    def __init__(self, partition: TopicPartition, position: int, divergent_offset: int | None) -> None:
        self.what = describe_truncation(partition, position, divergent_offset)
        """The message without the remedy."""
        remedy = "auto.offset.reset=none; seek to the offset to continue from"
        super().__init__(partition, ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.what}, and {remedy}")
        self.position = position
        self.divergent_offset = divergent_offset


def describe_truncation(partition: TopicPartition, position: int, divergent_offset: int | None) -> str:
    """Return a text that says that an unclean election lost records below a reader's `position`."""
    if divergent_offset is None:
        return f"{partition}: the log was truncated, and its leader has none of what was read up to offset {position}"
    return (
        f"{partition}: the log was truncated to offset {divergent_offset}, and offsets {divergent_offset} to "
        f"{position - 1}, which were read, are lost or hold other records"
    )


class NoActiveController(Refusal):
    """No controller is active, so the cluster's metadata cannot change. The text names the voters out of reach.

    `description` has what the voters that answered know; its `leader_id` is -1.
    """

    def __init__(self, description: QuorumDescription) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, description.error_message)
        self.description = description


class CommitFailed(Refusal):
    """Offsets were not committed, because their partitions may belong to another member of the group by now.

    Records after the last committed offsets are read again by that member. Retries do not help; the next poll does.
    """


class SubscriptionConflict(KraftError):
    """A call that does not fit the consumer's earlier calls or settings.

    `subscribe` and `assign` exclude each other, a poll needs one of them, and groups need group.id.
    """


class TransactionAborted(KraftError):
    """The open transaction cannot be committed, or was aborted, so none of its records becomes visible.

    Call abort_transaction, then begin again. The cause, if any, is `__cause__`.
    """


class TransactionOutcomeUnknown(KraftError):
    """The transaction was committed or aborted, and its coordinator no longer knows which; the producer can be closed.

    A response to the commit was lost, and since then the transactional id was deleted, as a temporary one is at the end
    of its transaction. Read what the transaction wrote before it is written again.
    """


class TransactionTimeout(KraftError):
    """The end of a transaction, or the producer's start, was not confirmed in time. The same call may be repeated."""


class TransactionConflict(KraftError):
    """A call that does not fit the state of the producer's transaction, such as a record outside of a transaction."""


class ProducerFenced(Refusal):
    """A newer producer uses the transactional id; this one can only be closed."""


class BufferExhausted(KraftError):
    """The producer's `buffer_memory` stayed full for `max_block_ms`: brokers store records too slowly."""


class ClientClosed(KraftError):
    """The producer, consumer or admin client was closed."""


class NotSupportedYet(KraftError):
    """A feature that this version does not support yet."""
