"""Recently refused batches of idempotent producers: later batches of the same producer are refused too.

A producer may have several batches of a partition in flight. The first may be refused for a reason that soon passes,
such as that this broker does not lead yet, and the reason may have passed when the second is checked. From a producer
that the log does not know, any first sequence is accepted (KIP-360): the second batch would be appended without the
first, whose retry would then be out of order forever (KAFKA-15591). From a known producer, the second batch would be a
sequence gap. Some clients then drop its records; librdkafka begins a new producer epoch, in which every unacknowledged
batch of any partition may be appended twice. So the second batch gets the error of the first until the first is
retried. See docs/adr/0020-what-is-sent-behind-a-refused-batch.md.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.log.format.record_batch import SEQUENCE_MAX, BatchHeader, Buffer, read_header
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.server.replica.partition import Partition

REMEMBERED_S: Final = 5.0
"""Batches in flight when the producer learns of the refusal arrive within this time. A producer that drops the refused
batch and continues without a new epoch is blocked no longer than this."""

PRODUCERS_MAX: Final = 10_000
"""Maximum number of remembered pairs of producer and partition; they take a few megabytes."""

NamedPartition = tuple[str, int]
"""A topic's name, or its id as text if the name is unknown, and a partition."""


class _RefusedSequence(Struct, frozen=True, kw_only=True):
    epoch: int
    sequence: int
    code: ErrorCode
    until_s: float


class RefusedSequences:
    """Sequences refused and not retried yet. False if empty, so that checking is cheap. Times are monotonic."""

    def __init__(self) -> None:
        self._refused: dict[tuple[NamedPartition, int], _RefusedSequence] = {}
        """The first refused batch of each producer, in the order of the refusals."""

    def __len__(self) -> int:
        return len(self._refused)

    def note(self, partition: NamedPartition, records: Buffer, code: ErrorCode, now_s: float) -> None:
        """Remember that these records were refused, if the producer may retry them unchanged."""
        header = _header(records) if code.retriable else None
        if header is None:
            return
        key = (partition, header.producer_id)
        before = self._refused.get(key)
        if before is not None and before.until_s > now_s and _is_behind(header, before):
            return
        self._refused.pop(key, None)
        self._forget(now_s, PRODUCERS_MAX - 1)
        self._refused[key] = _RefusedSequence(
            epoch=header.producer_epoch, sequence=header.base_sequence, code=code, until_s=now_s + REMEMBERED_S
        )

    def check(self, partition: Partition, records: Buffer, now_s: float) -> None:
        """Raise the Refusal of an earlier batch of the same producer that has not been retried."""
        self._forget(now_s, PRODUCERS_MAX)
        header = _header(records)
        if header is None:
            return
        topic, number = partition.topic_partition.topic, partition.topic_partition.partition
        for named in ((topic, number), (str(partition.topic_id), number)):
            refused = self._refused.get((named, header.producer_id))
            if refused is None:
                continue
            if _is_behind(header, refused) and not _is_settled(partition, header.producer_id, refused):
                raise Refusal(
                    refused.code,
                    f"sequence {header.base_sequence} of producer {header.producer_id} follows sequence "
                    f"{refused.sequence}, which was refused: retry that one first",
                )
            if not _is_before(header, refused):
                del self._refused[named, header.producer_id]

    def _forget(self, now_s: float, count_max: int) -> None:
        """Forget what has expired, and the oldest above `count_max`."""
        while self._refused:
            oldest = next(iter(self._refused))
            if len(self._refused) <= count_max and self._refused[oldest].until_s > now_s:
                return
            del self._refused[oldest]


def _header(records: Buffer) -> BatchHeader | None:
    """Return the batch header; None unless an idempotent producer sent the records."""
    if not records:
        return None
    try:
        header = read_header(records)
    except InvalidBatch:
        return None
    return header if header.has_producer and header.base_sequence >= 0 else None


def _is_behind(header: BatchHeader, refused: _RefusedSequence) -> bool:
    return header.producer_epoch == refused.epoch and _distance(refused.sequence, header.base_sequence) > 0


def _is_before(header: BatchHeader, refused: _RefusedSequence) -> bool:
    """True if it was sent before the refused batch: it waited for its turn when that one was refused."""
    return header.producer_epoch == refused.epoch and _distance(refused.sequence, header.base_sequence) < 0


def _is_settled(partition: Partition, producer_id: int, refused: _RefusedSequence) -> bool:
    """True if the log has the refused batch, because another broker took its retry, or if its epoch is over."""
    state = partition.log.producers.get(producer_id)
    if state is None or state.epoch < refused.epoch:
        return False
    has_batch = bool(state.batches) and _distance(refused.sequence, state.last_sequence) >= 0
    return has_batch or state.epoch > refused.epoch


def _distance(first: int, second: int) -> int:
    """Return how far `second` comes after `first`; negative if before. Sequences wrap around to 0."""
    forward = (second - first) & SEQUENCE_MAX
    return forward if forward <= SEQUENCE_MAX // 2 else forward - SEQUENCE_MAX - 1
