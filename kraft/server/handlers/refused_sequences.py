"""Batches of idempotent producers that were refused a moment ago: what was sent behind one of them is refused as well.

A producer has several batches of a partition under way. The first may be refused for a reason that passes, as that this
broker does not lead yet, and the reason may have passed when the second is looked at. Of a producer that the log does
not know any first sequence is accepted (KIP-360), so the second would be appended without the first, whose retry is
then out of order for good (KAFKA-15591). Of a producer that it does know the second would be a gap. Some clients give
its records up at that, and librdkafka begins a new epoch, in which everything that had no answer yet, of any partition,
may be appended a second time. So the second has the answer of the first, until the first has come again. See
docs/adr/0020-what-is-sent-behind-a-refused-batch.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.log.format.record_batch import SEQUENCE_MAX, BatchHeader, Buffer, read_header
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.server.replica.partition import Partition

REMEMBERED_S: Final = 5.0
"""What was under way when its producer learned of the refusal has arrived by then. A producer that gave the refused
batch up, and goes on behind it without a new epoch, is held up for no longer."""

PRODUCERS_MAX: Final = 10_000
"""Partitions of producers that are remembered, in a few megabytes."""

NamedPartition = tuple[str, int]
"""A topic's name, or its id as text where its name is not known, and a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    epoch: int
    sequence: int
    code: ErrorCode
    until_s: float


class RefusedSequences:
    """False while nothing is remembered, so that it costs next to nothing to ask. Times are monotonic."""

    def __init__(self) -> None:
        self._refused: dict[tuple[NamedPartition, int], _Refused] = {}
        """The first of each producer's batches that was refused, in the order of the refusals."""

    def __len__(self) -> int:
        return len(self._refused)

    def note(self, partition: NamedPartition, records: Buffer, code: ErrorCode, now_s: float) -> None:
        """These records were refused. Only what the same producer may send again unchanged is remembered."""
        header = _header(records) if code.retriable else None
        if header is None:
            return
        key = (partition, header.producer_id)
        before = self._refused.get(key)
        if before is not None and before.until_s > now_s and _is_behind(header, before):
            return
        self._refused.pop(key, None)
        self._forget(now_s, PRODUCERS_MAX - 1)
        self._refused[key] = _Refused(
            epoch=header.producer_epoch, sequence=header.base_sequence, code=code, until_s=now_s + REMEMBERED_S
        )

    def check(self, partition: Partition, records: Buffer, now_s: float) -> None:
        """Raises the Refusal of an earlier batch when that has not come again."""
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
                    f"sequence {header.base_sequence} of producer {header.producer_id} was sent behind "
                    f"{refused.sequence}, which was refused and has not come again",
                )
            if not _is_before(header, refused):
                del self._refused[named, header.producer_id]

    def _forget(self, now_s: float, count_max: int) -> None:
        """What is over, and the oldest of more than so many."""
        while self._refused:
            oldest = next(iter(self._refused))
            if len(self._refused) <= count_max and self._refused[oldest].until_s > now_s:
                return
            del self._refused[oldest]


def _header(records: Buffer) -> BatchHeader | None:
    """None unless an idempotent producer sent them."""
    try:
        header = read_header(records)
    except InvalidBatch:
        return None
    return header if header.has_producer and header.base_sequence >= 0 else None


def _is_behind(header: BatchHeader, refused: _Refused) -> bool:
    return header.producer_epoch == refused.epoch and _distance(refused.sequence, header.base_sequence) > 0


def _is_before(header: BatchHeader, refused: _Refused) -> bool:
    """It was sent before the refused batch, and waited for its turn when that was refused."""
    return header.producer_epoch == refused.epoch and _distance(refused.sequence, header.base_sequence) < 0


def _is_settled(partition: Partition, producer_id: int, refused: _Refused) -> bool:
    """The log has the refused batch, since another broker took it when it came again; or its epoch is over."""
    state = partition.log.producers.get(producer_id)
    if state is None or state.epoch < refused.epoch:
        return False
    has_batch = bool(state.batches) and _distance(refused.sequence, state.last_sequence) >= 0
    return has_batch or state.epoch > refused.epoch


def _distance(first: int, second: int) -> int:
    """How far `second` lies behind `first`; negative when it lies before. Sequences begin again at 0."""
    forward = (second - first) & SEQUENCE_MAX
    return forward if forward <= SEQUENCE_MAX // 2 else forward - SEQUENCE_MAX - 1
