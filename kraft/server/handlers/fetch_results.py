"""Results of a fetch so far: what was read of each partition, and whether it is enough for a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.log.format.record_batch import HEADER_BYTES, split
from kraft.log.segment.batches import READ_BATCHES_MAX
from kraft.log.segment.lookup import AbortedLookUp
from kraft.log.segment.segment import READ_BYTES_MAX
from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import Offset
from kraft.server.replica.partition import Partition

RESPONSE_BYTES_MAX: Final = 55 * 1024 * 1024
"""Maximum bytes of records in a response: Kafka's default fetch.max.bytes; a gRPC message may be a little larger."""


class ReadBounds(Struct, frozen=True):
    """Bounds of the bytes that a read may return."""

    bytes_max: int
    at_least_one: bool
    """KIP-74: the first batch of a response is returned whatever its size, so that a consumer never gets stuck."""


class PartitionRead(Struct):
    """Records of one partition, with the partition and the bounds of the read that found the last of them."""

    result: FetchPartitionResult
    partition: Partition | None
    bounds: ReadBounds
    start: Offset = Offset(0)
    upper: Offset = Offset(0)
    """Records from `start` and below `upper` were wanted."""

    earlier: tuple[int, int, int] = (0, 0, 0)
    """Bytes, batches and end of the records that earlier reads of the request had found."""

    dropped_bytes: int = 0
    """Bytes of the first records, which `result` has no longer."""

    look_up: AbortedLookUp | None = None
    """Finds the aborted transactions of `result`; None if it has them."""

    _counted: tuple[int, int] | None = None

    @property
    def size_bytes(self) -> int:
        return self.dropped_bytes + len(self.result.records)

    def drop_records(self) -> None:
        """Keep what is known of the records, without themselves."""
        if self.result.records:
            self.earlier = self.size_bytes, *self.counted()
            self.dropped_bytes = self.size_bytes
            self.result = replace(self.result, records=b"", aborted=[])
            self.look_up = None

    def counted(self) -> tuple[int, int]:
        """Return how many batches there are, and the offset after the last one."""
        if self._counted is None:
            size_bytes, batches, end = self.earlier
            found = split(memoryview(self.result.records)[size_bytes - self.dropped_bytes :])
            self._counted = batches + len(found), found[-1][0].next_offset if found else end
        return self._counted

    def available_bytes(self) -> int:
        """Return how many bytes there are to be read: all within the bounds, though a read ends where its segment does.

        As in Kafka, that is what `min_bytes` is compared with.
        """
        return max(self.size_bytes, self.bounds.bytes_max) if self._has_more() else self.size_bytes

    def _has_more(self) -> bool:
        """Return whether there are records behind those that were read."""
        if self.size_bytes:
            return self.counted()[1] < self.upper
        # The first batch did not fit. In a sparse log there may be none.
        return self.start < self.upper and self.partition is not None and not self.partition.log.is_sparse

    def goes_on(self, partition: Partition, wanted: FetchPartition, bounds: ReadBounds) -> bool:
        """Return whether a read within these bounds would find the same records, and perhaps more behind them."""
        return (
            0 < self.size_bytes <= bounds.bytes_max
            and self.partition is partition
            and self.result.leader_epoch == partition.leader_epoch
            and partition.log.log_start_offset <= wanted.fetch_offset
        )

    def is_current(
        self, partition: Partition | None, wanted: FetchPartition, bounds: ReadBounds, reads_committed: bool
    ) -> bool:
        """Return whether a read within `bounds` would return the same: nothing that a result shows has changed."""
        result = self.result
        end = result.last_stable_offset if reads_committed else result.high_watermark
        return (
            partition is not None
            and partition is self.partition
            and partition.leader is not None
            and partition.leader_epoch == result.leader_epoch
            and partition.high_watermark == result.high_watermark
            and partition.last_stable_offset == result.last_stable_offset
            and partition.log.log_start_offset == result.log_start_offset
            # At the end there is nothing to read, whatever the bounds.
            and (self._ends_alike(bounds) or wanted.fetch_offset >= end)
        )

    def _ends_alike(self, bounds: ReadBounds) -> bool:
        """Return whether a read within these bounds would end where this one did."""
        was = self.bounds
        is_within = was.at_least_one and self.size_bytes <= was.bytes_max
        return bounds.bytes_max == was.bytes_max and (bounds.at_least_one == was.at_least_one or is_within)


class FetchResults:
    """Results of a request so far, in its order, and how many more bytes it may return."""

    def __init__(self, request: FetchRequest, bytes_max: int, before: Sequence[PartitionRead] = ()) -> None:
        """`before` are the earlier reads of all its partitions, if there were any."""
        self._request = request
        self._bytes_max = bytes_max
        self.before = before
        # Never wait for more than one read of a partition can return: there may be more behind it.
        bytes_min = min(request.min_bytes, bytes_max, READ_BYTES_MAX)
        self._bytes_min = bytes_min if request.partitions else 0
        self.left_bytes = bytes_max
        self.found_bytes = 0
        self._has_error = False
        self.reads: list[PartitionRead] = []

    def again(self) -> FetchResults:
        """Return the results of a new look at the partitions, which takes over what a read would return again."""
        return FetchResults(self._request, self._bytes_max, self.reads)

    @property
    def is_read(self) -> bool:
        """True if every partition is read."""
        return len(self.reads) == len(self._request.partitions)

    def bounds(self, wanted: FetchPartition) -> ReadBounds:
        """Return the bounds of the next read."""
        return ReadBounds(min(self.left_bytes, wanted.partition_max_bytes), self.found_bytes == 0)

    def add(self, read: PartitionRead) -> None:
        self.found_bytes += read.size_bytes
        self.left_bytes = max(self.left_bytes - read.size_bytes, 0)
        self._has_error = self._has_error or read.result.error_code is not ErrorCode.NONE
        self.reads.append(read)

    def replace(self, at: int, read: PartitionRead) -> None:
        self.found_bytes += read.size_bytes - self.reads[at].size_bytes
        self.reads[at] = read

    @property
    def is_enough(self) -> bool:
        """True if there is nothing to wait for: enough records, or an error to report."""
        return (
            self._has_error
            or self.found_bytes >= self._bytes_min
            or self._stopped_at_batch_limit()
            or (self.found_bytes > 0 and self._available_bytes() >= self._bytes_min)
        )

    def _available_bytes(self) -> int:
        return sum(read.available_bytes() for read in self.reads)

    def _stopped_at_batch_limit(self) -> bool:
        """Return whether a read stopped at READ_BATCHES_MAX small batches; there may be more behind them."""
        return any(
            read.counted()[0] >= READ_BATCHES_MAX
            for read in self.reads
            if read.size_bytes >= READ_BATCHES_MAX * HEADER_BYTES
        )

    @property
    def has_look_ups(self) -> bool:
        """True if aborted transactions are still to be looked up."""
        return any(read.look_up is not None for read in self.reads)

    @property
    def kept_bytes(self) -> int:
        """Bytes of records in memory."""
        return sum(len(read.result.records) for read in self.reads)

    @property
    def is_whole(self) -> bool:
        """False if records were dropped."""
        return not any(read.dropped_bytes for read in self.reads)

    def drop_records(self) -> None:
        for read in self.reads:
            read.drop_records()

    def response(self) -> FetchResponse:
        return FetchResponse(request_id=self._request.request_id, partitions=[read.result for read in self.reads])
