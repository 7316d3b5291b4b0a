"""Reads the record batches of a range of one partition, straight from its leader's listener of Kafka's protocol.

That path has no retries and no look-ups of its own. Whatever is not a response with records (a leader that moved, an
offset out of range, a connection that breaks, no such listener) is left to the consumer's ordinary path over gRPC,
which continues at the same offset and knows the leader epochs that were read (KIP-320).
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from typing import Final, Protocol

from msgspec import Struct

from kraft.client.bulk.fetch_socket import RESPONSE_BYTES_MAX, Fetch, FetchAnswer, FetchSocket
from kraft.client.bulk.sockets import FetchSockets
from kraft.client.sans_io.partition_state import FetchedChunk
from kraft.client.sans_io.read_epochs import ReadEpochs
from kraft.log.format.record_batch import BatchHeader, read_header
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import TopicPartition
from kraft.wire.errors import ProtocolError

ANSWER_TIMEOUT_S: Final = 30.0

log = logging.getLogger("kraft.client")


class DirectLeader(Struct, frozen=True):
    """Leader of a partition, by the address of its listener of Kafka's protocol."""

    address: str
    epoch: int


class FetchedBatches(Struct, frozen=True, kw_only=True):
    """Record batches of one response: header and position in `data` of each. The first may begin before the range.

    There may be none, where the leader has no more for now. `more_follow`: the next response is on its way.
    """

    data: bytes
    batches: list[tuple[BatchHeader, int]]
    aborted: tuple[AbortedTransaction, ...]
    next_offset: int
    more_follow: bool = False


class RangeSource(Protocol):
    """The ordinary path of a consumer."""

    def direct_leader(self, partition: TopicPartition) -> DirectLeader | None:
        """Return the leader; None if it is not known, or has no listener that this client can use."""

    def read_chunks(
        self, partition: TopicPartition, start: int, end: int, epochs: ReadEpochs
    ) -> Iterator[FetchedChunk]:
        """Yield the range over gRPC; what was read before it has those leader epochs."""


class RangeReader:
    def __init__(
        self,
        source: RangeSource,
        sockets: FetchSockets,
        partition: TopicPartition,
        *,
        max_wait_ms: int,
        reads_committed: bool,
        bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._source = source
        self._sockets = sockets
        self._partition = partition
        self._max_wait_ms = max_wait_ms
        self._reads_committed = reads_committed
        self._bytes_max = min(bytes_max, RESPONSE_BYTES_MAX)
        self._epochs = ReadEpochs()

    def read(self, start: int, end: int) -> Generator[FetchedBatches, None, None]:
        """Yield the responses that hold the range, in order. Raises what the ordinary path raises."""
        position = start
        while position < end:
            leader = self._usable_leader()
            if leader is not None:
                for fetched in self._read_directly(leader, position, end):
                    position = fetched.next_offset
                    yield fetched
                if position >= end:
                    return
                yield FetchedBatches(data=b"", batches=[], aborted=(), next_offset=position)
            for chunk in self._source.read_chunks(self._partition, position, end, self._epochs):
                fetched = self._fetched(chunk.records, 0, chunk.aborted, position)
                position = fetched.next_offset
                yield fetched
                if self._usable_leader() is not None:
                    break

    def _usable_leader(self) -> DirectLeader | None:
        leader = self._source.direct_leader(self._partition)
        return leader if leader is not None and self._sockets.may_try(leader.address) else None

    def _read_directly(self, leader: DirectLeader, position: int, end: int) -> Iterator[FetchedBatches]:
        """Yield responses until `end`, or until the first one that has no records."""
        connection: FetchSocket | None = None
        try:
            connection, answer = self._first_answer(leader, position)
            while True:
                if answer.error_code is not ErrorCode.NONE or answer.begin == len(answer.frame):
                    # Perhaps this leader lags behind the old one, or the offset is gone: the other path finds out.
                    self._sockets.failed(leader.address)
                    code = answer.error_code.name
                    log.debug("direct fetch ended: partition=%s offset=%d error=%s", self._partition, position, code)
                    return
                fetched = self._fetched(answer.frame, answer.begin, answer.aborted, position, end)
                position = fetched.next_offset
                self._sockets.worked(leader.address)
                if position < end:
                    # The next response arrives while the caller works on this one.
                    connection.ask(self._fetch(leader, position))
                yield fetched
                if position >= end:
                    return
                answer = connection.answer(ANSWER_TIMEOUT_S)
        except (OSError, ProtocolError, InvalidBatch) as error:
            self._sockets.failed(leader.address)
            event = "direct fetch failed, continued over gRPC: partition=%s offset=%d reason=%s"
            log.info(event, self._partition, position, error)
        finally:
            if connection is not None:
                self._sockets.give_back(connection)

    def _first_answer(self, leader: DirectLeader, position: int) -> tuple[FetchSocket, FetchAnswer]:
        """Connect and fetch; once more if a kept connection turns out to be closed."""
        while True:
            connection = self._sockets.take(leader.address)
            was_used = connection.has_answered
            try:
                connection.ask(self._fetch(leader, position))
                return connection, connection.answer(ANSWER_TIMEOUT_S)
            except BaseException as error:
                connection.close()
                if not (was_used and isinstance(error, ConnectionError)):
                    raise

    def _fetch(self, leader: DirectLeader, position: int) -> Fetch:
        return Fetch(
            partition=self._partition,
            offset=position,
            leader_epoch=leader.epoch,
            max_wait_ms=self._max_wait_ms,
            bytes_max=self._bytes_max,
            reads_committed=self._reads_committed,
        )

    def _fetched(
        self,
        data: bytes,
        begin: int,
        aborted: tuple[AbortedTransaction, ...],
        position: int,
        direct_end: int | None = None,
    ) -> FetchedBatches:
        """Return the batches in `data` from `begin` on. Raises InvalidBatch if they are not what was requested."""
        batches: list[tuple[BatchHeader, int]] = []
        while begin < len(data):
            header = read_header(data, begin)
            if begin + header.size_bytes > len(data):
                raise InvalidBatch(f"a batch of {header.size_bytes} bytes is cut off after {len(data) - begin}")
            batches.append((header, begin))
            begin += header.size_bytes
        next_offset = batches[-1][0].next_offset if batches else position
        if next_offset <= position:
            raise InvalidBatch(f"requested offset {position}, received records that end at {next_offset}")
        for header, _ in batches:
            self._epochs.read(header.leader_epoch, header.base_offset)
        more_follow = direct_end is not None and next_offset < direct_end
        return FetchedBatches(
            data=data, batches=batches, aborted=aborted, next_offset=next_offset, more_follow=more_follow
        )
