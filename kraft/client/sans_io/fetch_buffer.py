"""Positions of a consumer and the records that it has fetched ahead: a state machine without clock or network.

Each assigned partition has a state with two offsets: `position`, the next offset for the user, and `fetch_offset`, the
next one to fetch from the leader; buffered records lie between them. A seek starts a new generation of the state;
responses to requests of an older generation are dropped.

Before it fetches in a new leader epoch, the consumer asks the leader for the end offset of the epoch of the last record
read: after an unclean election the leader's log may lack records that were read (KIP-320).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping
from typing import Final

from msgspec import Struct

from kraft.client.model.arguments import checked_number, checked_partition
from kraft.client.model.errors import AuthenticationFailed, LogTruncated, PartitionUnreadable, describe_truncation
from kraft.client.model.settings import ConsumerSettings
from kraft.client.model.values import FoundOffset
from kraft.client.sans_io.backoff import Backoff, Chance
from kraft.client.sans_io.partition_state import FetchedChunk, PartitionState
from kraft.log.format.record_batch import BatchHeader, read_header, split
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal, error_code
from kraft.model.fetch import AbortedTransaction, FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kraft.wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

OFFSET_MAX: Final = (1 << 63) - 1

log = logging.getLogger("kraft.client")

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class SentFetch(Struct, frozen=True):
    """A fetch request in flight, with the generation that each partition's state had when it was created."""

    address: str
    request: FetchRequest
    generations: list[int]


class SentCheck(Struct, frozen=True):
    """An OffsetForLeaderEpoch request in flight, with each state's generation and fetch offset at its creation."""

    address: str
    request: OffsetForLeaderEpochRequest
    places: dict[TopicPartition, tuple[int, int]]


class FetchBuffer:
    """The states of one consumer."""

    def __init__(self, settings: ConsumerSettings, chance: Chance) -> None:
        self._settings = settings
        self._backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, chance=chance)
        self._states: dict[TopicPartition, PartitionState] = {}
        self._generation = 0
        self._requests = 0

    # --- assignment and position ------------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay keep their position; new ones start by `auto_offset_reset`."""
        old = self._states
        self._states = {}
        for partition in partitions:
            self._states[partition] = old.get(partition) or self._new_state(partition)

    @property
    def states(self) -> list[PartitionState]:
        return list(self._states.values())

    def state(self, partition: TopicPartition) -> PartitionState:
        """Return the partition's state. Raises TypeError, and ValueError for a partition that is not assigned."""
        state = self._states.get(checked_partition(partition))
        if state is None:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return state

    def seek(self, partition: TopicPartition, offset: int, stop_at: int | None = None) -> None:
        if not 0 <= checked_number("offset", offset) <= OFFSET_MAX:
            raise ValueError(f"{partition}: cannot seek to offset {offset}, which is not between 0 and 2^63-1")
        state = self._restarted(self.state(partition))
        state.position = state.fetch_offset = offset
        state.stop_at = stop_at

    def seek_to_timestamp(self, partition: TopicPartition, timestamp_ms: int) -> None:
        """Have the position looked up by a timestamp when it is needed."""
        self._restarted(self.state(partition)).reset_to = timestamp_ms

    def wants_position(self, partition: TopicPartition, generation: int) -> bool:
        """True unless there was an assignment, a seek or an error since the look-up of the position began."""
        state = self._states.get(partition)
        return state is not None and state.generation == generation and state.needs_position

    def position_found(self, partition: TopicPartition, found: FoundOffset) -> None:
        """Continue at the offset that a look-up found."""
        self.seek(partition, found.offset)
        state = self._states[partition]
        state.epochs.read(found.record_epoch, found.offset)
        state.checked_epoch = found.leader_epoch

    def wants_committed(self, partition: TopicPartition, generation: int) -> bool:
        """True unless there was an assignment, a seek or an error since the look-up of the committed offset began."""
        state = self._states.get(partition)
        return state is not None and state.generation == generation and state.needs_committed and state.error is None

    def committed_found(self, partition: TopicPartition, offset: int, leader_epoch: int) -> None:
        """Continue at the committed offset; the leader is asked first whether it has what was read in that epoch."""
        self.seek(partition, offset)
        # A committed epoch is that of the last record before the offset.
        self._states[partition].epochs.read(leader_epoch, max(0, offset - 1))

    def nothing_committed(self, partition: TopicPartition) -> None:
        """Start by `auto_offset_reset`."""
        state = self._states[partition]
        state.needs_committed = False
        self._reset(state, f"{partition} has no committed offset, and auto.offset.reset=none")

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """Return the records from `offset` on, which polls have returned before, once more."""
        state = self.state(partition)
        self._continue_from(state, offset, state.checked_epoch)

    def fail(self, partition: TopicPartition, error: Exception, *, is_passing: bool = False) -> None:
        """Stop the state and drop what was fetched ahead; polls raise the error.

        The state stops until the next seek, or, if the error is passing, until it was raised.
        """
        state = self._states[partition]
        assert not is_passing or state.is_read, "only a state without records can continue where it stopped"
        state.error = error
        state.is_error_passing = is_passing
        state.chunks.clear()
        state.buffered_bytes = 0

    def _new_state(self, partition: TopicPartition) -> PartitionState:
        self._generation += 1
        state = PartitionState(partition, self._generation)
        if self._settings.group_id is None:
            self._reset(state, f"{partition} has no position, and auto.offset.reset=none")
        else:
            state.needs_committed = True
        return state

    def _restarted(self, state: PartitionState) -> PartitionState:
        self._generation += 1
        fresh = PartitionState(state.partition, self._generation, is_paused=state.is_paused)
        self._states[state.partition] = fresh
        return fresh

    def _reset(self, state: PartitionState, reason: str) -> None:
        state.reset_to = RESET_TIMESTAMPS.get(self._settings.auto_offset_reset)
        state.fetch_offset = None
        if state.reset_to is None:
            state.error = Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, reason)

    # --- fetching ---------------------------------------------------------------------------------------------

    def next_request(self, address: str, partitions: dict[TopicPartition, int], now_ms: int) -> SentFetch | None:
        """Return the next request to the leader of these partitions, given with leader epochs; None if nothing is due.

        A request asks for all of them or is not sent: a partition left out because its buffer is full would, once it
        was read, wait for the end of a request that waits for records of the others.
        """
        states = [state for state in self._states.values() if state.partition in partitions]
        # What paused partitions have must not keep the others from being fetched.
        if sum(state.buffered_bytes for state in states if not state.is_paused) >= self._settings.fetch_max_bytes:
            return None
        states = [
            state
            for state in states
            if state.is_fetchable
            and state.is_due(partitions[state.partition], now_ms)
            and not state.needs_check(partitions[state.partition])
        ]
        if not states:
            return None
        # Partitions with the least buffered come first, because the response may be full before the last of them.
        states.sort(key=lambda state: state.buffered_bytes)
        self._requests += 1
        request = FetchRequest(
            request_id=self._requests,
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            partitions=[
                FetchPartition(
                    topic=state.partition.topic,
                    partition=state.partition.partition,
                    fetch_offset=state.fetch_offset or 0,
                    partition_max_bytes=self._settings.max_partition_fetch_bytes,
                    current_leader_epoch=partitions[state.partition],
                )
                for state in states
            ],
            reads_committed=self._settings.reads_committed,
        )
        return SentFetch(address, request, [state.generation for state in states])

    def answered(self, sent: SentFetch, response: FetchResponse, now_ms: int) -> bool:
        """Take a response. Return True if it shows that the known leaders are out of date."""
        results = {TopicPartition(result.topic, result.partition): result for result in response.partitions}
        is_stale = False
        for state, asked in self._current(sent):
            result = results.get(state.partition)
            if result is not None and self._take(state, asked, result, now_ms):
                is_stale = True
        return is_stale

    def lost(self, sent: SentFetch, now_ms: int) -> None:
        """Retry later: the request will get no response."""
        for state, asked in self._current(sent):
            self._retry(state, asked, now_ms)

    def refused(self, sent: SentFetch, refusal: Refusal, now_ms: int) -> None:
        """Take a Refusal of the whole request: retry later, or stop the states if retries do not end it."""
        for state, asked in self._current(sent):
            if refusal.error_code.retriable:
                self._retry(state, asked, now_ms)
            elif isinstance(refusal, AuthenticationFailed):
                # An operator may mend it, as by a user that is created again: the next poll tries.
                self.fail(state.partition, refusal, is_passing=state.is_read)
            else:
                state.error = Refusal(refusal.error_code, f"{state.partition}: {refusal.message}")

    def is_wanted(self, sent: SentFetch, partitions: Container[TopicPartition]) -> bool:
        """True while the response would serve a partition that the same node still leads."""
        return any(state.partition in partitions for state, _ in self._current(sent))

    def misses(self, sent: SentFetch, partitions: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """True if the request lacks a partition that could be fetched: one that was assigned or sought since."""
        asked = {state.partition for state, _ in self._current(sent)}
        return any(
            state.is_fetchable and state.is_due(partitions[state.partition], now_ms) and state.partition not in asked
            for state in self._states.values()
            if state.partition in partitions
        )

    def next_retry_ms(self, now_ms: int) -> int | None:
        """Return the time at which the next failed state may be retried; None if no state waits."""
        return min((state.retry_at_ms for state in self._states.values() if state.retry_at_ms > now_ms), default=None)

    def _current(self, sent: SentFetch) -> Iterator[tuple[PartitionState, FetchPartition]]:
        for asked, generation in zip(sent.request.partitions, sent.generations, strict=True):
            state = self._states.get(TopicPartition(asked.topic, asked.partition))
            if state is None or state.generation != generation or state.fetch_offset != asked.fetch_offset:
                continue
            # Records that arrive after an error lie behind it: returning them would skip what could not be read.
            if state.error is not None:
                continue
            # Records from a former leader may be missing in the log of a newer leader that was checked since.
            if asked.current_leader_epoch >= state.checked_epoch:
                yield state, asked

    def _take(self, state: PartitionState, asked: FetchPartition, result: FetchPartitionResult, now_ms: int) -> bool:
        match result.error_code:
            case ErrorCode.NONE:
                state.failures = state.retry_at_ms = 0
                reads_committed = self._settings.reads_committed
                state.end_offset = result.last_stable_offset if reads_committed else result.high_watermark
                state.checked_epoch = asked.current_leader_epoch
                self._keep(state, result.records, tuple(result.aborted))
                return False
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                what = _out_of_range(state, result)
                self._reset(state, f"{what}, and auto.offset.reset=none")
                if state.error is None:
                    log.warning("%s; reading continues at the %s offset", what, self._settings.auto_offset_reset)
                return False
            case code if code.retriable:
                self._retry(state, asked, now_ms)
                if code is ErrorCode.CORRUPT_MESSAGE and state.is_read:
                    # Passing, because another replica may become the leader; raised, because perhaps none will.
                    self.fail(state.partition, _corrupt(state, result), is_passing=True)
                return True
            case code:
                state.error = PartitionUnreadable(state.partition, code, f"{state.partition}: {result.error_message}")
                return False

    def _keep(self, state: PartitionState, records: bytes, aborted: tuple[AbortedTransaction, ...]) -> None:
        if not records:
            return
        try:
            headers = [header for header, _ in split(records)]
        except InvalidBatch as error:
            self._keep(state, _valid_start(records), aborted)
            if state.error is None:
                state.error = InvalidBatch(f"{state.partition} at offset {state.fetch_offset}: {error.message}")
            return
        header = headers[-1]
        if header.next_offset <= (state.fetch_offset or 0):
            state.error = InvalidBatch(
                f"{state.partition}: requested offset {state.fetch_offset}, received records that end at "
                f"{header.next_offset}"
            )
            return
        _note_epochs(state, headers)
        state.chunks.append(FetchedChunk(records, header.next_offset, aborted))
        state.buffered_bytes += len(records)
        state.fetch_offset = header.next_offset

    def _retry(self, state: PartitionState, asked: FetchPartition | OffsetForLeaderPartition, now_ms: int) -> None:
        state.failures = 1 if asked.current_leader_epoch > state.failed_epoch else state.failures + 1
        state.failed_epoch = max(state.failed_epoch, asked.current_leader_epoch)
        state.retry_at_ms = now_ms + self._backoff.delay_ms(state.failures)

    # --- after a change of leader ------------------------------------------------------------------------------

    def next_check(self, address: str, partitions: Mapping[TopicPartition, int], now_ms: int) -> SentCheck | None:
        """Return the next OffsetForLeaderEpoch request to the leader of these partitions; None if nothing is due."""
        states = [
            state
            for state in self._states.values()
            if state.is_fetchable
            and state.partition in partitions
            and state.is_due(partitions[state.partition], now_ms)
            and state.needs_check(partitions[state.partition])
        ]
        if not states:
            return None
        asked: dict[str, list[OffsetForLeaderPartition]] = {}
        for state in states:
            asked.setdefault(state.partition.topic, []).append(
                OffsetForLeaderPartition(
                    partition=state.partition.partition,
                    current_leader_epoch=partitions[state.partition],
                    leader_epoch=state.epochs.latest,
                )
            )
        topics = tuple(OffsetForLeaderTopic(topic=topic, partitions=tuple(those)) for topic, those in asked.items())
        places = {state.partition: (state.generation, state.fetch_offset or 0) for state in states}
        return SentCheck(address, OffsetForLeaderEpochRequest(topics=topics), places)

    def checked(self, sent: SentCheck, response: OffsetForLeaderEpochResponse, now_ms: int) -> bool:
        """Take a response. Return True if it shows that the known leaders are out of date."""
        results = {
            TopicPartition(topic.topic, each.partition): each for topic in response.topics for each in topic.partitions
        }
        is_stale = False
        for state, asked in self._current_checks(sent):
            result = results.get(state.partition)
            if result is None:
                continue
            if (code := error_code(result.error_code)) is ErrorCode.NONE:
                state.failures = state.retry_at_ms = 0
                self._compare(state, asked, result)
            elif code.retriable:
                self._retry(state, asked, now_ms)
                is_stale = True
            else:
                state.error = _check_failed(state, asked, code, code.name)
        return is_stale

    def check_lost(self, sent: SentCheck, now_ms: int) -> None:
        """Retry later: the request will get no response."""
        for state, asked in self._current_checks(sent):
            self._retry(state, asked, now_ms)

    def check_refused(self, sent: SentCheck, refusal: Refusal, now_ms: int) -> None:
        """Take a Refusal of the whole request: retry later, or stop the states if retries do not end it."""
        for state, asked in self._current_checks(sent):
            if refusal.error_code.retriable:
                self._retry(state, asked, now_ms)
            elif isinstance(refusal, AuthenticationFailed):
                self.fail(state.partition, refusal, is_passing=state.is_read)
            else:
                state.error = _check_failed(state, asked, refusal.error_code, refusal.message)

    def check_not_served(self, sent: SentCheck) -> None:
        """Skip the check: the leader does not have this API."""
        for state, asked in self._current_checks(sent):
            state.checked_epoch = asked.current_leader_epoch

    def _current_checks(self, sent: SentCheck) -> Iterator[tuple[PartitionState, OffsetForLeaderPartition]]:
        for topic in sent.request.topics:
            for asked in topic.partitions:
                partition = TopicPartition(topic.topic, asked.partition)
                state, place = self._states.get(partition), sent.places[partition]
                if state is not None and (state.generation, state.fetch_offset) == place and state.error is None:
                    yield state, asked

    def _compare(self, state: PartitionState, asked: OffsetForLeaderPartition, result: EpochEndOffset) -> None:
        """Continue, or go back to the first offset at which the leader's log differs. Source: KIP-320."""
        position, read_to = state.position or 0, state.fetch_offset or 0
        if result.end_offset < 0 or result.leader_epoch < 0:
            self._truncated(state, None, asked.current_leader_epoch)
            return
        difference = state.epochs.first_difference(read_to, result.leader_epoch, result.end_offset)
        if difference < position:
            self._truncated(state, difference, asked.current_leader_epoch)
        elif difference < read_to:
            # Only records fetched ahead are affected; the user has not seen them.
            self._continue_from(state, position, asked.current_leader_epoch)
        else:
            state.checked_epoch = asked.current_leader_epoch

    def _truncated(self, state: PartitionState, divergent_offset: int | None, leader_epoch: int) -> None:
        position = state.position or 0
        if self._settings.auto_offset_reset not in RESET_TIMESTAMPS:
            self.fail(state.partition, LogTruncated(state.partition, position, divergent_offset))
            state.ready.clear()
            return
        what = describe_truncation(state.partition, position, divergent_offset)
        if divergent_offset is None:
            log.warning("%s; reading continues at the %s offset", what, self._settings.auto_offset_reset)
            self._reset(self._restarted(state), what)
        else:
            log.warning("%s; reading continues at offset %d", what, divergent_offset)
            self._continue_from(state, divergent_offset, leader_epoch)

    def _continue_from(self, state: PartitionState, offset: int, leader_epoch: int) -> None:
        """Drop what was fetched ahead and continue at `offset`."""
        fresh = self._restarted(state)
        fresh.position = fresh.fetch_offset = offset
        fresh.stop_at = state.stop_at
        fresh.epochs = state.epochs.up_to(offset)
        fresh.checked_epoch = leader_epoch

    # --- output -----------------------------------------------------------------------------------------------

    def take_chunk(self, state: PartitionState) -> FetchedChunk | None:
        """Remove and return the partition's next chunk; the caller advances `position` as it returns its records."""
        if not state.chunks:
            return None
        chunk = state.chunks.popleft()
        state.buffered_bytes -= len(chunk.records)
        return chunk

    def next_error(self, *, raised_before: bool) -> Exception | None:
        """Return an error to raise: of a state without buffered records, or, with `raised_before`, of any state."""
        for state in self._states.values():
            is_due = state.is_read and not state.was_error_raised
            if state.error is not None and (raised_before or is_due):
                return self.take_error(state)
        return None

    def take_error(self, state: PartitionState) -> Exception | None:
        """Return the state's error to raise it. After a passing one the state continues."""
        error = state.error
        if state.is_error_passing:
            state.error, state.is_error_passing = None, False
        else:
            state.was_error_raised = error is not None
        return error


def _note_epochs(state: PartitionState, headers: list[BatchHeader]) -> None:
    if headers[0].leader_epoch == state.epochs.latest == headers[-1].leader_epoch:
        return
    for header in headers:
        state.epochs.read(header.leader_epoch, header.base_offset)


def _valid_start(records: bytes) -> bytes:
    """Return the whole batches before the first one that `split` cannot read."""
    end = 0
    while True:
        try:
            size_bytes = read_header(records, end).size_bytes
        except InvalidBatch:
            return records[:end]
        if end + size_bytes > len(records):
            return records[:end]
        end += size_bytes


def _check_failed(state: PartitionState, asked: OffsetForLeaderPartition, code: ErrorCode, reason: str) -> Refusal:
    what = f"{state.partition}: the end offset of leader epoch {asked.leader_epoch} is not available"
    return Refusal(code, f"{what}: {reason}")


def _corrupt(state: PartitionState, result: FetchPartitionResult) -> InvalidBatch:
    reason = f" ({result.error_message})" if result.error_message else ""
    what = f"{state.partition} at offset {state.fetch_offset}: the leader finds the batch corrupt{reason}"
    return InvalidBatch(f"{what}; if that does not end, seek to an offset after it")


def _out_of_range(state: PartitionState, result: FetchPartitionResult) -> str:
    start = f" (log start offset {result.log_start_offset})" if result.log_start_offset >= 0 else ""
    return f"{state.partition} does not hold offset {state.fetch_offset}{start}"
