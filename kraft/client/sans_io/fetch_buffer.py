"""Positions of a consumer and the records that it has fetched ahead: a state machine without clock or network.

Each assigned partition has a track with two offsets: `position`, the next offset for the user, and `fetch_offset`, the
next one to fetch from the leader; buffered records lie between them. A seek starts a new generation of the track;
responses to requests of an older generation are dropped.

Before it fetches in a new leader epoch, the consumer asks the leader for the end offset of the epoch of the last record
read: after an unclean election the leader's log may lack records that were read (KIP-320).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final

from msgspec import Struct

from kraft.client.model.arguments import checked_number, checked_partition
from kraft.client.model.errors import LogTruncated, describe_truncation
from kraft.client.model.settings import ConsumerSettings
from kraft.client.model.values import FoundOffset
from kraft.client.sans_io.backoff import Backoff
from kraft.client.sans_io.track import Chunk, Track
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
    """A fetch request in flight, with the generation that each partition's track had when it was created."""

    address: str
    request: FetchRequest
    generations: list[int]


class SentCheck(Struct, frozen=True):
    """An OffsetForLeaderEpoch request in flight, with each track's generation and fetch offset at its creation."""

    address: str
    request: OffsetForLeaderEpochRequest
    places: dict[TopicPartition, tuple[int, int]]


class FetchBuffer:
    """The tracks of one consumer."""

    def __init__(self, settings: ConsumerSettings, chance: Callable[[], float]) -> None:
        self._settings = settings
        self._backoff = Backoff(first_ms=settings.retry_backoff_ms, max_ms=settings.retry_backoff_max_ms, chance=chance)
        self._tracks: dict[TopicPartition, Track] = {}
        self._generation = 0
        self._requests = 0

    # --- assignment and position ------------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay keep their position; new ones start by `auto_offset_reset`."""
        old = self._tracks
        self._tracks = {}
        for partition in partitions:
            self._tracks[partition] = old.get(partition) or self._new_track(partition)

    @property
    def tracks(self) -> list[Track]:
        return list(self._tracks.values())

    def track(self, partition: TopicPartition) -> Track:
        """Return the partition's track. Raises TypeError, and ValueError for a partition that is not assigned."""
        track = self._tracks.get(checked_partition(partition))
        if track is None:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return track

    def seek(self, partition: TopicPartition, offset: int, stop_at: int | None = None) -> None:
        if not 0 <= checked_number("offset", offset) <= OFFSET_MAX:
            raise ValueError(f"{partition}: cannot seek to offset {offset}, which is not between 0 and 2^63-1")
        track = self._restarted(self.track(partition))
        track.position = track.fetch_offset = offset
        track.stop_at = stop_at

    def seek_to_timestamp(self, partition: TopicPartition, timestamp_ms: int) -> None:
        """Have the position looked up by a timestamp when it is needed."""
        self._restarted(self.track(partition)).reset_to = timestamp_ms

    def wants_position(self, partition: TopicPartition, generation: int) -> bool:
        """True unless there was an assignment, a seek or an error since the look-up of the position began."""
        track = self._tracks.get(partition)
        return track is not None and track.generation == generation and track.needs_position

    def position_found(self, partition: TopicPartition, found: FoundOffset) -> None:
        """Continue at the offset that a look-up found."""
        self.seek(partition, found.offset)
        track = self._tracks[partition]
        track.epochs.read(found.record_epoch, found.offset)
        track.checked_epoch = found.leader_epoch

    def wants_committed(self, partition: TopicPartition, generation: int) -> bool:
        """True unless there was an assignment, a seek or an error since the look-up of the committed offset began."""
        track = self._tracks.get(partition)
        return track is not None and track.generation == generation and track.needs_committed and track.error is None

    def committed_found(self, partition: TopicPartition, offset: int, leader_epoch: int) -> None:
        """Continue at the committed offset; the leader is asked first whether it has what was read in that epoch."""
        self.seek(partition, offset)
        # A committed epoch is that of the last record before the offset.
        self._tracks[partition].epochs.read(leader_epoch, max(0, offset - 1))

    def nothing_committed(self, partition: TopicPartition) -> None:
        """Start by `auto_offset_reset`."""
        track = self._tracks[partition]
        track.needs_committed = False
        self._reset(track, f"{partition} has no committed offset, and auto.offset.reset=none")

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """Return the records from `offset` on, which polls have returned before, once more."""
        track = self.track(partition)
        self._continue_from(track, offset, track.checked_epoch)

    def fail(self, partition: TopicPartition, error: Exception, *, is_passing: bool = False) -> None:
        """Stop the track and drop what was fetched ahead; polls raise the error.

        The track stops until the next seek, or, if the error is passing, until it was raised.
        """
        track = self._tracks[partition]
        assert not is_passing or track.is_read, "only a track without records can continue where it stopped"
        track.error = error
        track.is_error_passing = is_passing
        track.chunks.clear()
        track.buffered_bytes = 0

    def _new_track(self, partition: TopicPartition) -> Track:
        self._generation += 1
        track = Track(partition, self._generation)
        if self._settings.group_id is None:
            self._reset(track, f"{partition} has no position, and auto.offset.reset=none")
        else:
            track.needs_committed = True
        return track

    def _restarted(self, track: Track) -> Track:
        self._generation += 1
        fresh = Track(track.partition, self._generation, is_paused=track.is_paused)
        self._tracks[track.partition] = fresh
        return fresh

    def _reset(self, track: Track, reason: str) -> None:
        track.reset_to = RESET_TIMESTAMPS.get(self._settings.auto_offset_reset)
        track.fetch_offset = None
        if track.reset_to is None:
            track.error = Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, reason)

    # --- fetching ---------------------------------------------------------------------------------------------

    def next_request(self, address: str, partitions: dict[TopicPartition, int], now_ms: int) -> SentFetch | None:
        """Return the next request to the leader of these partitions, given with leader epochs; None if nothing is due.

        A request asks for all of them or is not sent: a partition left out because its buffer is full would, once it
        was read, wait for the end of a request that waits for records of the others.
        """
        tracks = [track for track in self._tracks.values() if track.partition in partitions]
        # What paused partitions have must not keep the others from being fetched.
        if sum(track.buffered_bytes for track in tracks if not track.is_paused) >= self._settings.fetch_max_bytes:
            return None
        tracks = [
            track
            for track in tracks
            if track.is_fetchable
            and track.is_due(partitions[track.partition], now_ms)
            and not track.needs_check(partitions[track.partition])
        ]
        if not tracks:
            return None
        # Partitions with the least buffered come first, because the response may be full before the last of them.
        tracks.sort(key=lambda track: track.buffered_bytes)
        self._requests += 1
        request = FetchRequest(
            request_id=self._requests,
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            partitions=[
                FetchPartition(
                    topic=track.partition.topic,
                    partition=track.partition.partition,
                    fetch_offset=track.fetch_offset or 0,
                    partition_max_bytes=self._settings.max_partition_fetch_bytes,
                    current_leader_epoch=partitions[track.partition],
                )
                for track in tracks
            ],
            reads_committed=self._settings.reads_committed,
        )
        return SentFetch(address, request, [track.generation for track in tracks])

    def answered(self, sent: SentFetch, response: FetchResponse, now_ms: int) -> bool:
        """Take a response. Return True if it shows that the known leaders are out of date."""
        results = {TopicPartition(result.topic, result.partition): result for result in response.partitions}
        is_stale = False
        for track, asked in self._current(sent):
            result = results.get(track.partition)
            if result is not None and self._take(track, asked, result, now_ms):
                is_stale = True
        return is_stale

    def lost(self, sent: SentFetch, now_ms: int) -> None:
        """Retry later: the request will get no response."""
        for track, asked in self._current(sent):
            self._retry(track, asked, now_ms)

    def refused(self, sent: SentFetch, refusal: Refusal, now_ms: int) -> None:
        """Take a Refusal of the whole request: retry later, or stop the tracks if retries do not end it."""
        for track, asked in self._current(sent):
            if refusal.error_code.retriable:
                self._retry(track, asked, now_ms)
            else:
                track.error = Refusal(refusal.error_code, f"{track.partition}: {refusal.message}")

    def is_wanted(self, sent: SentFetch, partitions: Container[TopicPartition]) -> bool:
        """True while the response would serve a partition that the same node still leads."""
        return any(track.partition in partitions for track, _ in self._current(sent))

    def misses(self, sent: SentFetch, partitions: Mapping[TopicPartition, int], now_ms: int) -> bool:
        """True if the request lacks a partition that could be fetched: one that was assigned or sought since."""
        asked = {track.partition for track, _ in self._current(sent)}
        return any(
            track.is_fetchable and track.is_due(partitions[track.partition], now_ms) and track.partition not in asked
            for track in self._tracks.values()
            if track.partition in partitions
        )

    def next_retry_ms(self, now_ms: int) -> int | None:
        """Return the time at which the next failed track may be retried; None if no track waits."""
        return min((track.retry_at_ms for track in self._tracks.values() if track.retry_at_ms > now_ms), default=None)

    def _current(self, sent: SentFetch) -> Iterator[tuple[Track, FetchPartition]]:
        for asked, generation in zip(sent.request.partitions, sent.generations, strict=True):
            track = self._tracks.get(TopicPartition(asked.topic, asked.partition))
            if track is None or track.generation != generation or track.fetch_offset != asked.fetch_offset:
                continue
            # Records that arrive after an error lie behind it: returning them would skip what could not be read.
            if track.error is not None:
                continue
            # Records from a former leader may be missing in the log of a newer leader that was checked since.
            if asked.current_leader_epoch >= track.checked_epoch:
                yield track, asked

    def _take(self, track: Track, asked: FetchPartition, result: FetchPartitionResult, now_ms: int) -> bool:
        match result.error_code:
            case ErrorCode.NONE:
                track.failures = track.retry_at_ms = 0
                reads_committed = self._settings.reads_committed
                track.end_offset = result.last_stable_offset if reads_committed else result.high_watermark
                track.checked_epoch = asked.current_leader_epoch
                self._keep(track, result.records, tuple(result.aborted))
                return False
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                self._reset(track, _out_of_range(track, result))
                return False
            case code if code.retriable:
                self._retry(track, asked, now_ms)
                if code is ErrorCode.CORRUPT_MESSAGE and track.is_read:
                    # Passing, because another replica may become the leader; raised, because perhaps none will.
                    self.fail(track.partition, _corrupt(track, result), is_passing=True)
                return True
            case code:
                track.error = Refusal(code, f"{track.partition}: {result.error_message}")
                return False

    def _keep(self, track: Track, records: bytes, aborted: tuple[AbortedTransaction, ...]) -> None:
        if not records:
            return
        try:
            headers = [header for header, _ in split(records)]
        except InvalidBatch as error:
            self._keep(track, _valid_start(records), aborted)
            if track.error is None:
                track.error = InvalidBatch(f"{track.partition} at offset {track.fetch_offset}: {error.message}")
            return
        header = headers[-1]
        if header.next_offset <= (track.fetch_offset or 0):
            track.error = InvalidBatch(
                f"{track.partition}: requested offset {track.fetch_offset}, received records that end at "
                f"{header.next_offset}"
            )
            return
        _note_epochs(track, headers)
        track.chunks.append(Chunk(records, header.next_offset, aborted))
        track.buffered_bytes += len(records)
        track.fetch_offset = header.next_offset

    def _retry(self, track: Track, asked: FetchPartition | OffsetForLeaderPartition, now_ms: int) -> None:
        track.failures = 1 if asked.current_leader_epoch > track.failed_epoch else track.failures + 1
        track.failed_epoch = max(track.failed_epoch, asked.current_leader_epoch)
        track.retry_at_ms = now_ms + self._backoff.delay_ms(track.failures)

    # --- after a change of leader ------------------------------------------------------------------------------

    def next_check(self, address: str, partitions: Mapping[TopicPartition, int], now_ms: int) -> SentCheck | None:
        """Return the next OffsetForLeaderEpoch request to the leader of these partitions; None if nothing is due."""
        tracks = [
            track
            for track in self._tracks.values()
            if track.is_fetchable
            and track.partition in partitions
            and track.is_due(partitions[track.partition], now_ms)
            and track.needs_check(partitions[track.partition])
        ]
        if not tracks:
            return None
        asked: dict[str, list[OffsetForLeaderPartition]] = {}
        for track in tracks:
            asked.setdefault(track.partition.topic, []).append(
                OffsetForLeaderPartition(
                    partition=track.partition.partition,
                    current_leader_epoch=partitions[track.partition],
                    leader_epoch=track.epochs.latest,
                )
            )
        topics = tuple(OffsetForLeaderTopic(topic=topic, partitions=tuple(those)) for topic, those in asked.items())
        places = {track.partition: (track.generation, track.fetch_offset or 0) for track in tracks}
        return SentCheck(address, OffsetForLeaderEpochRequest(topics=topics), places)

    def checked(self, sent: SentCheck, response: OffsetForLeaderEpochResponse, now_ms: int) -> bool:
        """Take a response. Return True if it shows that the known leaders are out of date."""
        results = {
            TopicPartition(topic.topic, each.partition): each for topic in response.topics for each in topic.partitions
        }
        is_stale = False
        for track, asked in self._current_checks(sent):
            result = results.get(track.partition)
            if result is None:
                continue
            if (code := error_code(result.error_code)) is ErrorCode.NONE:
                track.failures = track.retry_at_ms = 0
                self._compare(track, asked, result)
            elif code.retriable:
                self._retry(track, asked, now_ms)
                is_stale = True
            else:
                track.error = _check_failed(track, asked, code, code.name)
        return is_stale

    def check_lost(self, sent: SentCheck, now_ms: int) -> None:
        """Retry later: the request will get no response."""
        for track, asked in self._current_checks(sent):
            self._retry(track, asked, now_ms)

    def check_refused(self, sent: SentCheck, refusal: Refusal, now_ms: int) -> None:
        """Take a Refusal of the whole request: retry later, or stop the tracks if retries do not end it."""
        for track, asked in self._current_checks(sent):
            if refusal.error_code.retriable:
                self._retry(track, asked, now_ms)
            else:
                track.error = _check_failed(track, asked, refusal.error_code, refusal.message)

    def check_not_served(self, sent: SentCheck) -> None:
        """Skip the check: the leader does not have this API."""
        for track, asked in self._current_checks(sent):
            track.checked_epoch = asked.current_leader_epoch

    def _current_checks(self, sent: SentCheck) -> Iterator[tuple[Track, OffsetForLeaderPartition]]:
        for topic in sent.request.topics:
            for asked in topic.partitions:
                partition = TopicPartition(topic.topic, asked.partition)
                track, place = self._tracks.get(partition), sent.places[partition]
                if track is not None and (track.generation, track.fetch_offset) == place and track.error is None:
                    yield track, asked

    def _compare(self, track: Track, asked: OffsetForLeaderPartition, result: EpochEndOffset) -> None:
        """Continue, or go back to the first offset at which the leader's log differs. Source: KIP-320."""
        position, read_to = track.position or 0, track.fetch_offset or 0
        if result.end_offset < 0 or result.leader_epoch < 0:
            self._truncated(track, None, asked.current_leader_epoch)
            return
        difference = track.epochs.first_difference(read_to, result.leader_epoch, result.end_offset)
        if difference < position:
            self._truncated(track, difference, asked.current_leader_epoch)
        elif difference < read_to:
            # Only records fetched ahead are affected; the user has not seen them.
            self._continue_from(track, position, asked.current_leader_epoch)
        else:
            track.checked_epoch = asked.current_leader_epoch

    def _truncated(self, track: Track, divergent_offset: int | None, leader_epoch: int) -> None:
        position = track.position or 0
        if self._settings.auto_offset_reset not in RESET_TIMESTAMPS:
            self.fail(track.partition, LogTruncated(track.partition, position, divergent_offset))
            track.ready.clear()
            return
        what = describe_truncation(track.partition, position, divergent_offset)
        if divergent_offset is None:
            log.warning("%s; reading continues at the %s offset", what, self._settings.auto_offset_reset)
            self._reset(self._restarted(track), what)
        else:
            log.warning("%s; reading continues at offset %d", what, divergent_offset)
            self._continue_from(track, divergent_offset, leader_epoch)

    def _continue_from(self, track: Track, offset: int, leader_epoch: int) -> None:
        """Drop what was fetched ahead and continue at `offset`."""
        fresh = self._restarted(track)
        fresh.position = fresh.fetch_offset = offset
        fresh.stop_at = track.stop_at
        fresh.epochs = track.epochs.up_to(offset)
        fresh.checked_epoch = leader_epoch

    # --- output -----------------------------------------------------------------------------------------------

    def take_chunk(self, track: Track) -> Chunk | None:
        """Remove and return the partition's next chunk; the caller advances `position` as it returns its records."""
        if not track.chunks:
            return None
        chunk = track.chunks.popleft()
        track.buffered_bytes -= len(chunk.records)
        return chunk

    def next_error(self, *, raised_before: bool) -> Exception | None:
        """Return an error to raise: of a track without buffered records, or, with `raised_before`, of any track."""
        for track in self._tracks.values():
            is_due = track.is_read and not track.was_error_raised
            if track.error is not None and (raised_before or is_due):
                return self.take_error(track)
        return None

    def take_error(self, track: Track) -> Exception | None:
        """Return the track's error to raise it. After a passing one the track continues."""
        error = track.error
        if track.is_error_passing:
            track.error, track.is_error_passing = None, False
        else:
            track.was_error_raised = error is not None
        return error


def _note_epochs(track: Track, headers: list[BatchHeader]) -> None:
    if headers[0].leader_epoch == track.epochs.latest == headers[-1].leader_epoch:
        return
    for header in headers:
        track.epochs.read(header.leader_epoch, header.base_offset)


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


def _check_failed(track: Track, asked: OffsetForLeaderPartition, code: ErrorCode, reason: str) -> Refusal:
    what = f"{track.partition}: the end offset of leader epoch {asked.leader_epoch} is not available"
    return Refusal(code, f"{what}: {reason}")


def _corrupt(track: Track, result: FetchPartitionResult) -> InvalidBatch:
    reason = f" ({result.error_message})" if result.error_message else ""
    what = f"{track.partition} at offset {track.fetch_offset}: the leader finds the batch corrupt{reason}"
    return InvalidBatch(f"{what}; if that does not end, seek to an offset after it")


def _out_of_range(track: Track, result: FetchPartitionResult) -> str:
    start = f" (log start offset {result.log_start_offset})" if result.log_start_offset >= 0 else ""
    return f"{track.partition} does not hold offset {track.fetch_offset}{start}, and auto.offset.reset=none"
