"""Fetch: committed record batches for consumers, at once if there are enough, otherwise as soon as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.log.segment.lookup import AbortedLookUp
from kraft.log.transactions.aborted import AbortedTxn
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import AbortedTransaction, FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import Offset
from kraft.server.handlers.fetch_results import RESPONSE_BYTES_MAX, FetchResults, PartitionRead, ReadBounds
from kraft.server.handlers.list_offsets import wait_for_file_change
from kraft.server.loop.budget import Budget
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.purgatory import Notifier, Watch
from kraft.server.loop.slow_reads import RequestReads, SlowReads
from kraft.server.loop.unread_responses import UnreadResponses
from kraft.server.replica.partition import Partition, check_epoch
from kraft.server.replica.partitions import Partitions

PARTITIONS_AT_ONCE: Final = 500
"""Partitions read before other tasks have their turn: a request may name more than can be read in a second."""

TURN_S_MAX: Final = 0.01
"""Time after which other tasks have their turn: one partition may give some MiB, or a thousand small batches."""

LOOK_UP_S_MAX: Final = 30.0
"""How long the look-ups of aborted transactions of one request may take."""

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum bytes of records that all waiting fetches together keep in memory: each may have read nearly `min_bytes`. A
fetch beyond it keeps only the count of its records, and reads them again for its response."""


class Room(Struct, frozen=True):
    """Room for a response among those that clients have not read yet."""

    unread: UnreadResponses
    wait_ms: int
    """Maximum wait for room, which begins after that for records. When it ends, the response has no records."""


class _FetchUnderWay:
    """A fetch that is not answered yet: its results so far, and the room for its response."""

    def __init__(self, request: FetchRequest, room: Room | None) -> None:
        self.request = request
        self._room = room
        self._room_until_s: float | None = None
        self.read_anew()

    def read_anew(self) -> None:
        """Forget the results; from now on they have at most as many bytes as there is room for, or one batch."""
        bytes_max = min(self.request.max_bytes, RESPONSE_BYTES_MAX)
        if self._room is not None:
            bytes_max = min(bytes_max, max(1, self._room.unread.room_bytes()))
        self.results = FetchResults(self.request, bytes_max)

    def read_changes(self) -> None:
        self.results = self.results.again()

    @property
    def has_room(self) -> bool:
        return self._room is None or self._room.unread.takes(self.results.found_bytes)

    def takes_room(self) -> bool:
        """Return whether there is room for the response, and count it at once: other fetches that read now see it."""
        if not self.has_room:
            return False
        if self._room is not None:
            self._room.unread.made(self.results.found_bytes)
        return True

    async def wait_for_room(self) -> bool:
        """Return False when the time is over: it begins with the first of these waits."""
        assert self._room is not None, "there was room"
        if self._room_until_s is None:
            self._room_until_s = loop_time_s() + self._room.wait_ms / 1_000
        return await self._room.unread.room(self._room_until_s)


class FetchHandler:
    def __init__(
        self, partitions: Partitions, slow_reads: SlowReads, waiting_bytes_max: int = WAITING_BYTES_MAX
    ) -> None:
        self._partitions = partitions
        self._slow_reads = slow_reads
        self._waiting_bytes = Budget(waiting_bytes_max)

    def begin(self, request: FetchRequest, room: Room | None = None) -> Awaitable[FetchResponse] | FetchResponse:
        """Do the same as `handle`, but return the response itself if there is nothing to wait for.

        None for `room`: the client reads its responses.
        """
        fetch = _FetchUnderWay(request, room)
        self._read_one_turn(fetch)
        results = fetch.results
        is_over = results.is_read and (results.is_enough or request.max_wait_ms <= 0)
        if is_over and not results.has_look_ups:
            if fetch.takes_room():
                return _counted(results)
            self._keep_no_records(fetch)
        return self._complete(fetch)

    def handle(self, request: FetchRequest) -> Awaitable[FetchResponse]:
        """Answer when there are `min_bytes`, a partition has an error, or the wait times out."""
        begun = self.begin(request)
        if isinstance(begun, Awaitable):
            return begun
        # Not a coroutine, for which the listener would need a task and a turn of the loop.
        answer: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        answer.set_result(begun)
        return answer

    async def _complete(self, fetch: _FetchUnderWay) -> FetchResponse:
        """Wait for records, then for room, and read again after each wait, until there are both or time is over."""
        records_until_s = loop_time_s() + fetch.request.max_wait_ms / 1_000
        self._partitions.counts.fetches_waiting += 1
        try:
            with Watch(self._watched(fetch.request)) as watch:
                # Changes from before it watched have to be noticed, too.
                watch.notified()
                while True:
                    await self._read_in_later_turns(fetch)
                    if not fetch.results.is_enough and await self._wait_for_records(fetch, watch, records_until_s):
                        watch.again()
                        fetch.read_changes()
                    elif fetch.has_room and await self._completes_results(fetch):
                        return _counted(fetch.results)
                    else:
                        self._keep_no_records(fetch)
                        if not await fetch.wait_for_room():
                            return _counted(fetch.results)
                        fetch.read_anew()
        finally:
            self._partitions.counts.fetches_waiting -= 1
            self._waiting_bytes.release(fetch)

    async def _wait_for_records(self, fetch: _FetchUnderWay, watch: Watch, until_s: float) -> bool:
        """Return False when the time is over. The records found are kept in memory if there is room for them."""
        left_s, results = until_s - loop_time_s(), fetch.results
        if left_s <= 0:
            return False
        if results.found_bytes and not self._waiting_bytes.claim(fetch, results.kept_bytes):
            self._keep_no_records(fetch)
        return await watch.wait(left_s)

    def _keep_no_records(self, fetch: _FetchUnderWay) -> None:
        self._waiting_bytes.release(fetch)
        fetch.results.drop_records()

    def _watched(self, request: FetchRequest) -> list[Notifier]:
        found = (self._partitions.find_by_name(wanted.topic, wanted.partition) for wanted in request.partitions)
        return [partition.committed for partition in found if partition is not None]

    async def _completes_results(self, fetch: _FetchUnderWay) -> bool:
        """Read again what was dropped, and look up aborted transactions. Return False if there is no room by then."""
        if not fetch.results.is_whole:
            fetch.read_anew()
            await self._read_in_later_turns(fetch)
        if fetch.results.has_look_ups:
            await self._look_up_aborted(fetch)
        return fetch.takes_room()

    async def _read_in_later_turns(self, fetch: _FetchUnderWay) -> None:
        while not fetch.results.is_read:
            self._read_one_turn(fetch)
            if not fetch.results.is_read:
                await asyncio.sleep(0)

    def _read_one_turn(self, fetch: _FetchUnderWay) -> None:
        """Read on for one turn: others have theirs before the rest is read."""
        request, results = fetch.request, fetch.results
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TURN_S_MAX
        begin = len(results.reads)
        for at, wanted in enumerate(request.partitions[begin : begin + PARTITIONS_AT_ONCE], begin):
            bounds = results.bounds(wanted)
            # A follower's log may be truncated between two reads: nothing is taken over from the one before.
            read = results.before[at] if results.before and not request.of_replica else None
            held = None if read is None else self._partitions.find_by_name(wanted.topic, wanted.partition)
            if read is None or not read.is_current(held, wanted, bounds, request.reads_committed):
                read = self._read_partition(wanted, bounds, request, read)
            results.add(read)
            if loop.time() >= until_s:
                break

    async def _look_up_aborted(self, fetch: _FetchUnderWay) -> None:
        """Look up, in a thread, the aborted transactions that take long.

        Where that takes too long, or there is no room for the records meanwhile, there are none: a consumer asks again.
        """
        results, reads = fetch.results, self._slow_reads.of_request(LOOK_UP_S_MAX)
        is_kept = self._waiting_bytes.claim(fetch, results.kept_bytes)
        for at, wanted in enumerate(fetch.request.partitions):
            read = results.reads[at]
            try:
                while is_kept and read.look_up is not None:
                    read = await self._with_aborted(fetch.request, wanted, read, read.look_up, reads)
            except TimeoutError:
                is_kept = False
            if read.look_up is not None:
                read = PartitionRead(replace(read.result, records=b""), None, read.bounds)
            results.replace(at, read)

    async def _with_aborted(
        self,
        request: FetchRequest,
        wanted: FetchPartition,
        read: PartitionRead,
        look_up: AbortedLookUp,
        reads: RequestReads,
    ) -> PartitionRead:
        """Return the read with its aborted transactions, or another one if the log has changed meanwhile."""
        partition = read.partition
        assert partition is not None, "without a partition there is nothing to look up"
        leader, log = partition.leader, partition.log
        found: list[AbortedTxn] = []
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
            return self._read_partition(wanted, read.bounds, request)
        try:
            if failure is not None:
                partition.replica_log.aborted_look_up_failed(failure)
        except Refusal as refusal:
            return PartitionRead(self._refused(wanted, refusal), None, read.bounds)
        return PartitionRead(replace(read.result, aborted=_named(found)), partition, read.bounds)

    def _read_partition(
        self, wanted: FetchPartition, bounds: ReadBounds, request: FetchRequest, before: PartitionRead | None = None
    ) -> PartitionRead:
        """Read the partition. What `before` found is not read again: if it still counts, only what is behind it is."""
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            if request.of_replica:
                _check_is_comparable(partition, wanted.current_leader_epoch)
            else:
                partition.as_leader(wanted.current_leader_epoch)
            stable, reads_committed = partition.last_stable_offset, request.reads_committed and not request.of_replica
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
            return PartitionRead(self._refused(wanted, refusal), None, bounds)
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
        return PartitionRead(
            result, partition, bounds, Offset(wanted.fetch_offset), upper, earlier, dropped_bytes, look_up
        )

    def _refused(self, wanted: FetchPartition, refusal: Refusal) -> FetchPartitionResult:
        leader_id, leader_epoch = self._partitions.leader_hint(wanted.topic, wanted.partition)
        held = self._partitions.find_by_name(wanted.topic, wanted.partition)
        if held is not None:
            held.counts.failed_fetches += 1
        return FetchPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=refusal.error_code,
            error_message=refusal.message,
            log_start_offset=-1 if held is None else held.log.log_start_offset,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )


def _check_is_comparable(partition: Partition, current_leader_epoch: int) -> None:
    """Raise Refusal if the replica cannot be read, whatever its role."""
    check_epoch(partition, current_leader_epoch)
    if not partition.is_open:
        message = f"the replica of {partition.topic_partition} on this broker is closed"
        raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    if partition.is_truncating:
        message = f"{partition.topic_partition} is being truncated on this broker"
        raise Refusal(ErrorCode.REPLICA_NOT_AVAILABLE, message)


def _counted(results: FetchResults) -> FetchResponse:
    """Return the response, and count what it has of each topic."""
    for read in results.reads:
        if read.partition is not None:
            counts = read.partition.counts
            counts.fetches += 1
            counts.bytes_out += len(read.result.records)
    return results.response()


def _named(aborted: Sequence[AbortedTxn]) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in aborted]
