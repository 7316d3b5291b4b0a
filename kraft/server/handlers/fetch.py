"""Fetch: committed record batches for consumers, at once if there are enough, otherwise as soon as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.log.format.record_batch import HEADER_BYTES, split
from kraft.log.segment.batches import READ_BATCHES_MAX
from kraft.log.segment.lookup import AbortedLookUp
from kraft.log.segment.segment import READ_BYTES_MAX
from kraft.log.transactions.aborted import AbortedTransaction as LoggedTransaction
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import AbortedTransaction, FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import Offset
from kraft.rpc.call import Served
from kraft.rpc.calls import FETCH
from kraft.server.handlers.list_offsets import wait_for_file_change
from kraft.server.loop.budget import Budget
from kraft.server.loop.purgatory import Notifier, Watch
from kraft.server.loop.slow_reads import RequestReads, SlowReads
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions

RESPONSE_BYTES_MAX: Final = 55 * 1024 * 1024
"""Maximum bytes of records in a response: Kafka's default fetch.max.bytes; a gRPC message may be a little larger."""

PARTITIONS_AT_ONCE: Final = 500
"""Partitions read before other tasks have their turn: a request may name more than can be read in a second."""

TURN_S_MAX: Final = 0.01
"""Time after which other tasks have their turn: one partition may give some MiB, or a thousand small batches."""


LOOK_UP_S_MAX: Final = 30.0
"""How long the look-ups of aborted transactions of one request may take."""

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum bytes of records that all waiting fetches together keep in memory: each may have read nearly `min_bytes`. A
fetch beyond it keeps only the count of its records, and reads them again for its response."""


class _Bounds(Struct, frozen=True):
    """Bounds of the bytes that a read may return."""

    bytes_max: int
    at_least_one: bool
    """KIP-74: the first batch of a response is returned whatever its size, so that a consumer never gets stuck."""


class _Read(Struct):
    """Records of one partition, with the partition and the bounds of the read that found the last of them."""

    result: FetchPartitionResult
    partition: Partition | None
    bounds: _Bounds
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

    def goes_on(self, partition: Partition, wanted: FetchPartition, bounds: _Bounds) -> bool:
        """Return whether a read within these bounds would find the same records, and perhaps more behind them."""
        return (
            0 < self.size_bytes <= bounds.bytes_max
            and self.partition is partition
            and self.result.leader_epoch == partition.leader_epoch
            and partition.log.log_start_offset <= wanted.fetch_offset
        )

    def ends_alike(self, bounds: _Bounds) -> bool:
        """Return whether a read within these bounds would end where this one did."""
        was = self.bounds
        is_within = was.at_least_one and self.size_bytes <= was.bytes_max
        return bounds.bytes_max == was.bytes_max and (bounds.at_least_one == was.at_least_one or is_within)


class _Reading:
    """Results of a request so far, in its order, and how many more bytes it may return."""

    def __init__(self, request: FetchRequest) -> None:
        self._request_id = request.request_id
        # Never wait for more than one read of a partition can return: there may be more behind it.
        bytes_min = min(request.min_bytes, request.max_bytes, READ_BYTES_MAX, RESPONSE_BYTES_MAX)
        self._bytes_min = bytes_min if request.partitions else 0
        self.left_bytes = min(request.max_bytes, RESPONSE_BYTES_MAX)
        self.found_bytes = 0
        self._has_error = False
        self.reads: list[_Read] = []

    def bounds(self, wanted: FetchPartition) -> _Bounds:
        """Return the bounds of the next read."""
        return _Bounds(min(self.left_bytes, wanted.partition_max_bytes), self.found_bytes == 0)

    def add(self, read: _Read) -> None:
        self.found_bytes += read.size_bytes
        self.left_bytes = max(self.left_bytes - read.size_bytes, 0)
        self._has_error = self._has_error or read.result.error_code is not ErrorCode.NONE
        self.reads.append(read)

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
        return FetchResponse(request_id=self._request_id, partitions=[read.result for read in self.reads])


class FetchHandler:
    def __init__(
        self, partitions: Partitions, waiting_bytes_max: int = WAITING_BYTES_MAX, slow_reads: SlowReads | None = None
    ) -> None:
        self._partitions = partitions
        self._slow_reads = slow_reads or SlowReads(ThreadPoolExecutor(1, thread_name_prefix="slow-reads"))
        self._waiting_bytes = Budget(waiting_bytes_max)

    def begin(self, request: FetchRequest) -> Awaitable[FetchResponse] | FetchResponse:
        """Do the same as `handle`, but return the response itself if there is nothing to wait for."""
        reading = _Reading(request)
        is_whole = self._read_on(request, reading)
        if is_whole and (reading.is_enough or request.max_wait_ms <= 0) and not reading.has_look_ups:
            return reading.response()
        return self._handle(request, reading)

    def handle(self, request: FetchRequest) -> Awaitable[FetchResponse]:
        """Answer when there are `min_bytes`, a partition has an error, or the wait times out."""
        begun = self.begin(request)
        if isinstance(begun, Awaitable):
            return begun
        # Not a coroutine, for which the listener would need a task and a turn of the loop.
        answer: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        answer.set_result(begun)
        return answer

    async def _handle(self, request: FetchRequest, reading: _Reading) -> FetchResponse:
        """Complete `reading`, which has begun. After each wait, only the partitions that changed are read again."""
        deadline_s = asyncio.get_running_loop().time() + request.max_wait_ms / 1_000
        await self._read_rest(request, reading)
        if not reading.is_enough:
            reading = await self._wait(request, reading, deadline_s)
        if not reading.is_whole:
            reading = _Reading(request)
            await self._read_rest(request, reading)
        if reading.has_look_ups:
            await self._look_up(request, reading)
        return reading.response()

    async def _wait(self, request: FetchRequest, reading: _Reading, deadline_s: float) -> _Reading:
        """Wait until there are enough records, or for the deadline, and return the latest reading."""
        with Watch(self._watched(request)) as watch:
            try:
                while True:
                    watch.again()
                    reading = await self._read_again(request, reading)
                    if reading.is_enough:
                        return reading
                    self._keep(reading, watch)
                    if not await watch.wait(deadline_s - asyncio.get_running_loop().time()):
                        return reading
            finally:
                self._waiting_bytes.release(watch)

    def _keep(self, reading: _Reading, fetch: Watch) -> None:
        """Keep the records in memory during a wait if there is room for them."""
        if reading.found_bytes and not self._waiting_bytes.claim(fetch, reading.kept_bytes):
            self._waiting_bytes.release(fetch)
            reading.drop_records()

    def _watched(self, request: FetchRequest) -> list[Notifier]:
        found = (self._partitions.find_by_name(wanted.topic, wanted.partition) for wanted in request.partitions)
        return [partition.committed for partition in found if partition is not None]

    async def _read_again(self, request: FetchRequest, before: _Reading) -> _Reading:
        """Return a new reading that keeps the results of `before` where a read would return the same."""
        reading = _Reading(request)
        await self._read_rest(request, reading, before.reads)
        return reading

    async def _read_rest(self, request: FetchRequest, reading: _Reading, before: Sequence[_Read] = ()) -> None:
        while True:
            if self._read_on(request, reading, before):
                return
            await asyncio.sleep(0)

    def _read_on(self, request: FetchRequest, reading: _Reading, before: Sequence[_Read] = ()) -> bool:
        """Read on for one turn. True: all partitions are read. False: other tasks have their turn first."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TURN_S_MAX
        begin = len(reading.reads)
        for at, wanted in enumerate(request.partitions[begin : begin + PARTITIONS_AT_ONCE], begin):
            bounds = reading.bounds(wanted)
            read = before[at] if before else None
            if read is None or not self._is_current(wanted, read, bounds, request.reads_committed):
                read = self._read(wanted, bounds, request.reads_committed, read)
            reading.add(read)
            if loop.time() >= until_s:
                break
        return len(reading.reads) == len(request.partitions)

    async def _look_up(self, request: FetchRequest, reading: _Reading) -> None:
        """Look up, in a thread, the aborted transactions that take long.

        Where that takes too long, or there is no room for the records meanwhile, there are none: a consumer asks again.
        """
        reads = self._slow_reads.of_request(LOOK_UP_S_MAX)
        is_kept = self._waiting_bytes.claim(reading, reading.kept_bytes)
        try:
            for at, wanted in enumerate(request.partitions):
                read = reading.reads[at]
                try:
                    while is_kept and read.look_up is not None:
                        read = await self._looked_up(wanted, read, read.look_up, reads)
                except TimeoutError:
                    is_kept = False
                if read.look_up is not None:
                    read = _Read(replace(read.result, records=b""), None, read.bounds)
                reading.reads[at] = read
        finally:
            self._waiting_bytes.release(reading)

    async def _looked_up(
        self, wanted: FetchPartition, read: _Read, look_up: AbortedLookUp, reads: RequestReads
    ) -> _Read:
        """Return the read with its aborted transactions, or another one if the log has changed meanwhile."""
        partition = read.partition
        assert partition is not None, "without a partition there is nothing to look up"
        leader, log = partition.leader, partition.log
        found: list[LoggedTransaction] = []
        failure: OSError | ValueError | None = None
        try:
            found = await reads.run(look_up.steps)
        except TimeoutError:
            # TimeoutError is an OSError, but not one of the disk.
            raise
        except (OSError, ValueError) as error:
            failure = error
        if partition.leader is not leader or partition.log is not log or not log.still_has(look_up.segments):
            await wait_for_file_change(partition, reads)
            return self._read(wanted, read.bounds, reads_committed=True)
        try:
            if failure is not None:
                partition.replica_log.aborted_look_up_failed(failure)
        except Refusal as refusal:
            return _Read(self._refused(wanted, refusal), None, read.bounds)
        return _Read(replace(read.result, aborted=_named(found)), partition, read.bounds)

    def _is_current(self, wanted: FetchPartition, read: _Read, bounds: _Bounds, reads_committed: bool) -> bool:
        """Return whether a read within `bounds` would return the same: nothing that a result shows has changed."""
        partition, result = self._partitions.find_by_name(wanted.topic, wanted.partition), read.result
        end = result.last_stable_offset if reads_committed else result.high_watermark
        return (
            partition is not None
            and partition is read.partition
            and partition.leader is not None
            and partition.leader_epoch == result.leader_epoch
            and partition.high_watermark == result.high_watermark
            and partition.last_stable_offset == result.last_stable_offset
            and partition.log.log_start_offset == result.log_start_offset
            # At the end there is nothing to read, whatever the bounds.
            and (read.ends_alike(bounds) or wanted.fetch_offset >= end)
        )

    def _read(
        self, wanted: FetchPartition, bounds: _Bounds, reads_committed: bool, before: _Read | None = None
    ) -> _Read:
        """Read the partition. What `before` found is not read again: if it still counts, only what is behind it is."""
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            partition.as_leader(wanted.current_leader_epoch)
            stable = partition.last_stable_offset
            upper = stable if reads_committed else partition.high_watermark
            start, records, earlier, dropped_bytes = Offset(wanted.fetch_offset), b"", (0, 0, 0), 0
            if before is not None and before.goes_on(partition, wanted, bounds):
                records, dropped_bytes = before.result.records, before.dropped_bytes
                earlier = before.size_bytes, *before.counted()
                start = Offset(earlier[2])
            left_bytes, at_least_one = bounds.bytes_max - earlier[0], bounds.at_least_one and not earlier[0]
            records += partition.replica_log.read(start, left_bytes, upper, at_least_one)
            found = partition.replica_log.aborted_in(Offset(wanted.fetch_offset), records) if reads_committed else []
        except Refusal as refusal:
            return _Read(self._refused(wanted, refusal), None, bounds)
        result = FetchPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            log_start_offset=partition.log.log_start_offset,
            records=records,
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            last_stable_offset=stable,
            aborted=[] if isinstance(found, AbortedLookUp) else _named(found),
        )
        look_up = found if isinstance(found, AbortedLookUp) else None
        return _Read(result, partition, bounds, Offset(wanted.fetch_offset), upper, earlier, dropped_bytes, look_up)

    def _refused(self, wanted: FetchPartition, refusal: Refusal) -> FetchPartitionResult:
        leader_id, leader_epoch = self._partitions.leader_hint(wanted.topic, wanted.partition)
        held = self._partitions.find_by_name(wanted.topic, wanted.partition)
        return FetchPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=refusal.error_code,
            error_message=refusal.message,
            log_start_offset=-1 if held is None else held.log.log_start_offset,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )

    def served(self) -> list[Served]:
        return [FETCH.served_by(self.handle)]


def _named(aborted: Sequence[LoggedTransaction]) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in aborted]
