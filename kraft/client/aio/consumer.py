"""Asyncio consumer. `FetchBuffer` keeps positions and records, `Fetcher` fetches ahead.

Calls that need neither are functions of the modules that the class names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from kraft.client.aio import consumer_commits, range_reads, topic_lookup
from kraft.client.aio.consumer_calls import ConsumerCalls
from kraft.client.aio.engine import Engine
from kraft.client.aio.group import OwnGroup, needs_group
from kraft.client.cluster.network import Network
from kraft.client.model.arguments import checked_partitions
from kraft.client.model.errors import ClientClosed, SubscriptionConflict
from kraft.client.model.settings import LOCAL_BROKER, ConsumerSettings, settings_of
from kraft.client.model.subscription import RebalanceCallback, Subscription, subscription_to
from kraft.client.model.values import ConsumerRecord, PartitionColumns
from kraft.client.sans_io.batches import StoredBatch, records_of
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from kraft.client.sans_io.progress import Progress
from kraft.client.sans_io.record_output import RecordOutput
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

CLOSE_TIMEOUT_MS = 30_000

Taken = TypeVar("Taken")


class Consumer:
    """Asyncio consumer. Reads its partitions in offset order and fetches ahead of the polls.

    It reads the partitions of `assign`, or those that its group gives to it after `subscribe`. With group.id, reading
    starts at the group's committed offsets, and where there is none as auto.offset.reset says.

    Waits for a new leader when one moves or fails. An error that retries do not end (a missing topic of `assign`, an
    offset out of range or a truncated log with auto.offset.reset=none, corrupt bytes) is raised by the next poll. If a
    position is not found within default.api.timeout.ms, poll raises the reason once, and the look-up begins again. A
    missing topic of `subscribe` is logged once, and read when it is created.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = LOCAL_BROKER, *, network: Network | None = None, **settings: Any
    ) -> None:
        """Create a consumer, which connects at first use. Raises InvalidSetting.

        `settings` are the fields of `kraft.client.model.settings.ConsumerSettings`.
        """
        self._settings = settings_of(ConsumerSettings, bootstrap_servers, settings)
        network = network or Network()
        self._clock = network.clock
        self._buffer = FetchBuffer(self._settings, network.chance)
        self._output = RecordOutput(self._buffer, self._settings)
        self._progress = Progress()
        self._group: OwnGroup | None = None
        if (group_id := self._settings.group_id) is not None:
            self._group = OwnGroup(group_id, self._settings, network, self._output, self._progress)
        self._subscription: Subscription | None = None
        """Its callbacks, which the group does not keep."""
        self.iterated: Iterator[ConsumerRecord] = iter(())
        """What an iteration has fetched; `poll_for_iteration` fetches more."""
        self.calls = ConsumerCalls(self._settings, network, self._buffer, self._group)
        """For the functions below; no part of the consumer's interface."""
        self._is_closing = False
        """Callbacks may still use a consumer that is closing."""

    @property
    def settings(self) -> ConsumerSettings:
        """The settings in use, defaults included."""
        return self._settings

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(only_processed=error is not None)

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, only_processed: bool = False) -> None:
        """Commit if enable.auto.commit, leave the group, and close the connections, all within `timeout_ms`.

        `only_processed`: commit nothing of what the last poll returned, or the iteration yielded last, as after an
        error. A callback for revoked partitions is called before the consumer leaves. May be called more than once.
        """
        if self._is_closing:
            return
        self._is_closing = True
        try:
            if self._group is not None and self.calls.opened is not None:
                deadline_ms = self._clock.monotonic_ms() + timeout_ms
                await self._group.unsubscribe(self.calls.opened, deadline_ms, only_processed=only_processed)
        finally:
            await self.calls.close()

    # --- what to read -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> None:
        """Read the partitions of these topics that the group gives to this consumer; replaces what was subscribed to.

        The consumer joins its group with the next poll. `pattern` subscribes to all topics, present and future, whose
        whole name matches; with group.protocol=consumer the coordinator matches it. Callbacks get the partitions and
        run inside polls: after partitions were assigned, before they are revoked, or after they were lost without
        warning (default: `on_revoked`). Offsets may be committed in `on_revoked`, not in `on_lost`.

        Raises SubscriptionConflict without group.id or after `assign`, ValueError for nothing to subscribe to,
        and INVALID_TOPIC_EXCEPTION for a name that no topic can have.
        """
        subscription = subscription_to(topics, pattern, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        if self._group is None:
            raise needs_group("subscribe")
        if self._group.subscription is None and self._output.assigned:
            raise SubscriptionConflict("subscribe: the consumer was assigned partitions; call unsubscribe before")
        self._group.subscribe(subscription)
        self._subscription = subscription

    def subscription(self) -> list[str]:
        """Return the topics that the consumer subscribes to by name, sorted."""
        subscription = None if self._group is None else self._group.subscription
        return [] if subscription is None else sorted(subscription.topics)

    async def unsubscribe(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit if enable.auto.commit, leave the group within `timeout_ms`, and read nothing."""
        if self._group is not None and self.calls.opened is not None:
            await self._group.unsubscribe(self.calls.opened, self._clock.monotonic_ms() + timeout_ms)
        elif self._group is not None:
            self._group.subscription = None
        self._assign(())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that stay assigned keep their position.

        Raises SubscriptionConflict after `subscribe`.
        """
        if self._group is not None and self._group.subscription is not None:
            raise SubscriptionConflict("assign: the consumer is subscribed to topics; call unsubscribe before")
        self._assign(checked_partitions(partitions))

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._output.assigned

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset that the next poll reads from. Raises ValueError for a partition that is not assigned."""
        self.seek_in_epoch(partition, offset, -1)

    def seek_in_epoch(self, partition: TopicPartition, offset: int, leader_epoch: int) -> None:
        """Seek; the leader is asked first whether it has what was read before `offset` in that epoch; -1 is unknown."""
        self._buffer.committed_found(partition, offset, leader_epoch)
        self._moved([partition])

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first offset, looked up at the next poll; all assigned partitions if none is given."""
        self.seek_to_timestamp(EARLIEST_TIMESTAMP, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the end (see `end_offsets`), looked up at the next poll; all assigned partitions if none is given."""
        self.seek_to_timestamp(LATEST_TIMESTAMP, *partitions)

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Move to the first record at or after the timestamp, or to the end if all are older.

        Looked up at the next poll; all assigned partitions if none is given.
        """
        moved = partitions or self._output.assigned
        for partition in moved:
            self._buffer.seek_to_timestamp(partition, timestamp_ms)
        self._moved(moved)

    def pause(self, *partitions: TopicPartition) -> None:
        """Neither fetch nor return records of these partitions until `resume`."""
        for partition in partitions:
            self._buffer.state(partition).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch and return records of these partitions again."""
        paused = [state for state in map(self._buffer.state, partitions) if state.is_paused]
        for state in paused:
            state.is_paused = False
        if paused:
            self._tell_moves()

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return [state.partition for state in self._output.states if state.is_paused]

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned. Raises the error that prevents reading."""
        deadline_ms = self.calls.deadline_ms(timeout_ms)
        while True:
            state = self._buffer.state(partition)
            if state.position is not None and not state.needs_position:
                return self._progress.read(partition, state.position)
            if (error := self._buffer.take_error(state)) is not None:
                self._wake_up()
                raise error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                waited_ms = self.calls.timeout(timeout_ms)
                raise Refusal(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: position not found within {waited_ms} ms")
            fetcher = self.calls.engine().fetcher
            fetcher.polled()
            await fetcher.wait_for_news(left_ms)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the offsets between the position and the end that was fetched last; None before a fetch.

        The end is the high watermark, or the last stable offset with isolation.level=read_committed.
        """
        state = self._buffer.state(partition)
        if state.position is None or state.end_offset < 0:
            return None
        return max(0, state.end_offset - self._progress.read(partition, state.position))

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        before = set(self._output.assigned)
        self._output.assign(partitions)
        for partition in before - set(self._output.assigned):
            self._progress.forget(partition)
        self._wake_up()

    def _moved(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._progress.forget(partition)
        self._tell_moves()

    # --- reading ----------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are any: at most `max_records` (default max.poll.records), [] on timeout.

        Joins the group of a subscribed consumer, and calls its callbacks. Raises SubscriptionConflict if nothing is
        assigned or subscribed to.
        """
        wanted = self._settings.max_poll_records if max_records is None else max_records
        parts = await self.poll_batches(timeout_ms, wanted)
        return [record for part in parts for record in records_of(part)]

    async def poll_batches(self, timeout_ms: int = 1_000, max_records: int | None = None) -> list[PartitionColumns]:
        """Return records as columns, many times faster than `poll`; no limit without `max_records`."""
        engine, group = self.calls.engine(), self._group
        if self._is_closing:
            raise ClientClosed("the consumer is closing")
        if group is not None and group.is_in_callback:
            raise SubscriptionConflict("poll: a callback of this consumer has not returned")
        if not self._output.assigned and (group is None or group.subscription is None):
            raise SubscriptionConflict("poll: nothing is assigned or subscribed to; call subscribe or assign before")
        deadline_ms = self.calls.deadline_ms(timeout_ms)
        self._return_unread()

        def take(held: Container[TopicPartition]) -> list[PartitionColumns]:
            return self._take_parts(engine, max_records, held)

        if group is None:
            return await self._next(engine, deadline_ms, take)
        group.poll_began(engine)
        try:
            return await self._next(engine, deadline_ms, take)
        finally:
            group.poll_ended()

    async def poll_stored(self, timeout_ms: int = 1_000) -> list[StoredBatch]:
        """Return batches as the leaders store them: of markers, and with what is known of aborted transactions.

        The first one may begin before the position. Nothing is decompressed or checked. For a consumer without a group;
        raises SubscriptionConflict if nothing is assigned.
        """
        engine = self.calls.engine()
        if self._group is not None or not self._output.assigned:
            raise SubscriptionConflict("poll_stored: needs partitions from assign, and no group.id")

        def take(_: Container[TopicPartition]) -> list[StoredBatch]:
            taken = list(self._output.take_stored())
            if taken:
                engine.fetcher.wake_up()
            return taken

        return await self._next(engine, self.calls.deadline_ms(timeout_ms), take)

    async def _next(
        self, engine: Engine, deadline_ms: int, take: Callable[[Container[TopicPartition]], list[Taken]]
    ) -> list[Taken]:
        while True:
            held = frozenset() if self._group is None else await self._group.reconcile(engine)
            engine.fetcher.polled()
            # Each error is raised once before the records of other partitions, and again when there are none.
            if (error := self._buffer.next_error(raised_before=False)) is not None:
                engine.fetcher.wake_up()
                raise error
            if taken := take(held):
                return taken
            if (error := self._buffer.next_error(raised_before=True)) is not None:
                engine.fetcher.wake_up()
                raise error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return []
            await engine.fetcher.wait_for_news(left_ms)

    def _take_parts(
        self, engine: Engine, max_records: int | None, held: Container[TopicPartition]
    ) -> list[PartitionColumns]:
        taken = list(self._output.take(max_records, held))
        if taken:
            engine.fetcher.wake_up()
        parts = [part for part in taken if part.columns.offsets]
        for part in parts:
            self._progress.returned(part.partition, part.columns.offsets[0])
        return parts

    def take_back(self) -> None:
        """Return the records of the last poll again with the next one: its caller was interrupted, and has none."""
        self._rewind(self._progress.taken_back())

    def _return_unread(self) -> None:
        """Go back to the first record that an iteration has not yielded."""
        self._rewind(self._progress.poll_began())

    def _rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.iterated = iter(())
        for partition, offset in offsets.items():
            self._buffer.rewind(partition, offset)
        if offsets:
            self._wake_up()

    def __aiter__(self) -> Consumer:
        """Iterate over records, without end unless consumer.timeout.ms is set."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        while True:
            for record in self.iterated:
                return record
            if not await self.poll_for_iteration():
                raise StopAsyncIteration

    async def poll_for_iteration(self) -> bool:
        """Fetch records for an iteration, after those that it has; False if none come within consumer.timeout.ms."""
        timeout_ms = self._settings.consumer_timeout_ms
        deadline_ms = None if timeout_ms < 0 else self._clock.monotonic_ms() + timeout_ms
        while True:
            left_ms = 1_000 if deadline_ms is None else min(1_000, deadline_ms - self._clock.monotonic_ms())
            if records := await self.poll(max(0, left_ms)):
                self.iterated = self._progress.each(records)
                return True
            if deadline_ms is not None and self._clock.monotonic_ms() >= deadline_ms:
                return False

    # --- commits ----------------------------------------------------------------------------------------------

    commit = consumer_commits.commit
    commit_async = consumer_commits.commit_async
    committed = consumer_commits.committed
    group_metadata = consumer_commits.group_metadata
    consumed = consumer_commits.consumed

    # --- ranges -----------------------------------------------------------------------------------------------

    read_columns = range_reads.read_columns
    read_batches = range_reads.read_batches

    # --- about partitions -------------------------------------------------------------------------------------

    partitions_for = topic_lookup.partitions_for
    topics = topic_lookup.topics
    beginning_offsets = topic_lookup.beginning_offsets
    end_offsets = topic_lookup.end_offsets
    offsets_for_times = topic_lookup.offsets_for_times

    # --- inside -----------------------------------------------------------------------------------------------

    def _tell_moves(self) -> None:
        if self.calls.opened is not None:
            self.calls.opened.fetcher.moved()

    def _wake_up(self) -> None:
        if self.calls.opened is not None:
            self.calls.opened.fetcher.wake_up()
