"""Reads one replica from the broker that holds it, whether it leads or follows, up to the replica's high watermark."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from msgspec import Struct

from kraft.client.aio import Admin
from kraft.client.cluster.connections import FetchStream
from kraft.log.format.record_batch import split, whole_batches
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.fetch import FetchPartition, FetchPartitionResult, FetchRequest
from kraft.model.ids import TopicPartition
from kraft.replicas.batches import Batch
from kraft.rpc.calls import FETCH
from kraft.rpc.peers import Unreachable

THROTTLED_S_MAX: Final = 600.0
"""Longest time that a quota may hold back one fetch."""

EMPTY_ANSWERS_MAX: Final = 3
"""Answers without records, although the high watermark is higher, after which there are none: a broker that has no
room for a response sends such ones, too."""


class ReadSettings(Struct, frozen=True, kw_only=True):
    timeout_ms: int
    """Longest wait for the answer to one fetch."""

    max_wait_ms: int
    """Longest wait for records of a replica that is behind."""

    fetch_bytes: int


class NotRead(KraftError):
    """The replica cannot be read."""


class BrokerReads:
    """Fetches from brokers, over a stream to each. A broker that did not answer is not asked again."""

    def __init__(self, admin: Admin, addresses: dict[int, str], settings: ReadSettings, silent: dict[int, str]) -> None:
        """`silent`: why brokers did not answer, by id; other readers may share it."""
        self._admin = admin
        self._addresses = addresses
        self.settings = settings
        self._silent = silent
        self._streams: dict[int, FetchStream] = {}

    async def close(self) -> None:
        for stream in self._streams.values():
            await stream.close()

    async def fetch(
        self, broker_id: int, partition: TopicPartition, offset: int, max_wait_ms: int
    ) -> FetchPartitionResult:
        """Return the broker's answer about its replica. Raises NotRead if it gives none."""
        if broker_id not in self._addresses:
            raise NotRead("its broker is not in service")
        if broker_id in self._silent:
            raise NotRead(self._silent[broker_id])
        is_new = broker_id not in self._streams
        try:
            try:
                return await self._answer(broker_id, partition, offset, max_wait_ms)
            except Unreachable:
                # A connection that was used before may have ended with its broker's process.
                if is_new:
                    raise
                return await self._answer(broker_id, partition, offset, max_wait_ms)
        except TimeoutError:
            reason = f"{self._addresses[broker_id]} did not answer within {self.settings.timeout_ms} ms"
        except Unreachable as error:
            reason = str(error)
        except Refusal as refusal:
            raise NotRead(refusal.message or refusal.error_code.name) from refusal
        self._silent.setdefault(broker_id, reason)
        raise NotRead(reason)

    async def _answer(
        self, broker_id: int, partition: TopicPartition, offset: int, max_wait_ms: int
    ) -> FetchPartitionResult:
        """Send fetches until one is answered: a quota may answer others without partitions."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + THROTTLED_S_MAX
        request = self._request(partition, offset, max_wait_ms)
        stream = self._streams.get(broker_id)
        if stream is None:
            stream = self._streams[broker_id] = self._admin.calls.node(self._addresses[broker_id]).open(FETCH)
        try:
            while loop.time() < until_s:
                async with asyncio.timeout((self.settings.timeout_ms + max_wait_ms) / 1_000):
                    await stream.send(request)
                    response = await stream.receive()
                if response.throttle_time_ms:
                    await asyncio.sleep(response.throttle_time_ms / 1_000)
                if response.partitions:
                    return response.partitions[0]
        except BaseException:
            self._streams.pop(broker_id, None)
            await stream.close()
            raise
        raise NotRead(f"a quota held back its records for {THROTTLED_S_MAX:g} s")

    def _request(self, partition: TopicPartition, offset: int, max_wait_ms: int) -> FetchRequest:
        size_bytes = self.settings.fetch_bytes
        wanted = FetchPartition(
            topic=partition.topic, partition=partition.partition, fetch_offset=offset, partition_max_bytes=size_bytes
        )
        return FetchRequest(
            request_id=1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=size_bytes,
            partitions=[wanted],
            of_replica=True,
        )


class ReplicaReader:
    """A replica's batches from an offset on, at most one answer of its broker at a time."""

    def __init__(self, reads: BrokerReads, broker_id: int, partition: TopicPartition) -> None:
        self._reads = reads
        self._partition = partition
        self.broker_id = broker_id
        self.position = 0
        """Offset of the next fetch."""
        self.batches: deque[Batch] = deque()
        self.high_watermark = -1
        """-1 while it is not known."""
        self.log_start = -1
        self.failure = ""
        """Why the replica cannot be read; empty if it can."""
        self.is_behind = False
        """True if it has no more, although its high watermark is below the end of the comparison."""
        self._has_no_more = False

    def restart_at(self, offset: int) -> None:
        self.position = offset
        self.batches.clear()
        self.is_behind = self._has_no_more = False

    def covered_end(self, end: int) -> int:
        """Return up to where `batches` shows what the replica has."""
        return min(end, self.batches[-1][0].next_offset) if self.batches else end

    def drop_below(self, offset: int) -> None:
        while self.batches and self.batches[0][0].next_offset <= offset:
            self.batches.popleft()

    async def begin(self, offset: int) -> None:
        """Fetch from `offset`: afterwards the high watermark is known, or it `is_past` the offset."""
        self.restart_at(offset)
        await self._take(0)

    async def fill(self, end: int) -> None:
        """Have batches below `end`, if there are any; wait for a replica that is behind as long as it makes progress.

        Sets `failure` or `is_behind`.
        """
        empty_answers, wait_ms, max_wait_ms = 0, 0, self._reads.settings.max_wait_ms
        while not self._is_filled(end):
            before = self.high_watermark
            await self._take(wait_ms)
            if self._is_filled(end):
                break
            if self.high_watermark < end:
                self.is_behind = self._has_no_more = self.high_watermark <= before and wait_ms > 0
            else:
                empty_answers += 1
                self._has_no_more = empty_answers >= EMPTY_ANSWERS_MAX
            wait_ms = max_wait_ms
        while self.batches and self.batches[-1][0].base_offset >= end:
            self.batches.pop()
            self.position = end

    def _is_filled(self, end: int) -> bool:
        is_over = bool(self.failure) or self._has_no_more or self.is_past
        return bool(self.batches) or is_over or self.position >= end

    @property
    def is_past(self) -> bool:
        """True if the replica has deleted what is to be read next: its log starts later."""
        return not self.batches and self.log_start > self.position

    @property
    def has_hole(self) -> bool:
        """True if the replica has nothing up to its high watermark, as after a compaction."""
        return self._has_no_more and not self.is_behind

    async def _take(self, max_wait_ms: int) -> None:
        try:
            result = await self._reads.fetch(self.broker_id, self._partition, self.position, max_wait_ms)
            self._took(result)
        except KraftError as error:
            self.failure = str(error)

    def _took(self, result: FetchPartitionResult) -> None:
        """Take over an answer. Raises NotRead, and InvalidBatch."""
        if result.log_start_offset >= 0:
            self.log_start = result.log_start_offset
        if result.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self.is_past:
                return
            self.high_watermark = min(self.high_watermark, self.position) if self.high_watermark >= 0 else 0
            self.is_behind = self._has_no_more = True
            return
        if result.error_code is not ErrorCode.NONE:
            raise NotRead(_reason(result))
        self.high_watermark = result.high_watermark
        for header, batch in split(whole_batches(result.records)):
            if header.next_offset > self.position:
                self.batches.append((header, batch))
                self.position = header.next_offset


def _reason(result: FetchPartitionResult) -> str:
    code = result.error_code
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return "its broker does not hold it any more, or answers for leaders only, as older versions do"
    return result.error_message or code.name
