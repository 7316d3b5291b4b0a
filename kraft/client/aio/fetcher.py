"""Fetches ahead for a consumer's `FetchBuffer`: a stream to each leader, with one request in flight on each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Set
from contextlib import aclosing
from typing import Any, Final, TypeAlias

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS
from kraft.client.cluster.connections import Connections, FetchStream
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS, MetadataCache
from kraft.client.cluster.offset_lookup import OffsetLookup, Outcome, no_such_partition
from kraft.client.model.errors import AuthenticationFailed, ClientClosed
from kraft.client.model.settings import ConsumerSettings
from kraft.client.model.values import FoundOffset, OffsetAndMetadata
from kraft.client.sans_io.fetch_buffer import FetchBuffer, SentCheck, SentFetch
from kraft.client.sans_io.partition_state import PartitionState
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchResponse
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import LATEST_TIMESTAMP
from kraft.rpc.calls import FETCH, OFFSET_FOR_LEADER_EPOCH
from kraft.rpc.peers import NotServed, Unreachable
from kraft.runtime.clock import Clock

CommittedLookup: TypeAlias = Callable[[list[TopicPartition], int], Awaitable[dict[TopicPartition, OffsetAndMetadata]]]
"""Returns the committed offsets of the partitions that have one, within a timeout in milliseconds."""

STALL_MS: Final = 1_000
"""Delay of a response after which the consumer refreshes its metadata: the leader may have changed."""


class Fetcher:
    """A task that finds the states' leaders and positions, and starts a fetching task for each leader."""

    def __init__(
        self,
        buffer: FetchBuffer,
        settings: ConsumerSettings,
        connections: Connections,
        metadata: MetadataCache,
        lookup: OffsetLookup,
        clock: Clock,
        committed: CommittedLookup | None = None,
    ) -> None:
        self._buffer = buffer
        self._settings = settings
        self._connections = connections
        self._metadata = metadata
        self._lookup = lookup
        self._clock = clock
        self._committed = committed
        self._is_closed = False
        self._failure: BaseException | None = None
        """The error that ended a task: an internal error, since the tasks handle every other one."""
        self._changed = asyncio.Event()
        self._news = asyncio.Event()
        self._leaders: dict[str, asyncio.Task[None]] = {}
        self._leader_changed: dict[str, asyncio.Event] = {}
        self._missing_since_ms: dict[TopicPartition, int] = {}
        self._lookups: set[asyncio.Task[None]] = set()
        self._waiting = 0
        """The number of callers in `wait_for_news`."""
        self._is_moved = False
        self._looked_up: dict[TopicPartition, int] = {}
        """The generation of each state whose position or committed offset is being looked up."""
        self._sought_topics: set[str] = set()
        """Topics that are being looked up."""
        self._task = self._started(self._run(), "kraft consumer")

    def wake_up(self) -> None:
        """Wake the task after a change: an assignment, a position, room in the buffer, metadata."""
        self._changed.set()

    def moved(self) -> None:
        """Fetch no more until the next poll, unless one waits: partitions are sought or resumed one after the other.

        With each of them, a look at all partitions and a request for them would take as long as for all together.
        """
        self._is_moved = True
        if self._waiting:
            self.polled()

    def polled(self) -> None:
        """Somebody wants records or a position: act on what has moved."""
        if self._is_moved:
            self._is_moved = False
            self.wake_up()

    def metadata_refreshed(self) -> None:
        """Go on, or fail what has no leader if no broker that may know it accepts this client."""
        refused = self._metadata.refused
        for state in self._buffer.states if refused is not None else ():
            if state.error is None and self._metadata.leader(state.partition) is None and refused is not None:
                self._fail(state.partition, refused, is_passing=state.is_read)
        self.wake_up()

    def notify(self) -> None:
        """End `wait_for_news`: something happened that the caller acts on."""
        self._news.set()

    async def wait_for_news(self, timeout_ms: int) -> None:
        """Wait until something was fetched, looked up or failed since the last call, or the timeout passes.

        Raises ClientClosed, or the error that ended one of the tasks.
        """
        self._waiting += 1
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1000):
                await self._news.wait()
        except TimeoutError:
            return
        finally:
            self._waiting -= 1
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._failure is not None:
            raise self._failure
        self._news.clear()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def close(self) -> None:
        self._is_closed = True
        self._news.set()
        tasks = [self._task, *self._leaders.values(), *self._lookups]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _started(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failure = failure
            self._news.set()

    # --- leaders and positions --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            now_ms = self._clock.monotonic_ms()
            self._look_topics_up()
            self._look_positions_up()
            for address in self._find_leaders(now_ms):
                if address not in self._leaders:
                    self._leader_changed[address] = asyncio.Event()
                    self._leaders[address] = self._started(self._fetch_from(address), f"fetch from {address}")
            for event in self._leader_changed.values():
                event.set()
            retry_at_ms = self._buffer.next_retry_ms(now_ms)
            try:
                async with asyncio.timeout(None if retry_at_ms is None else max(1, retry_at_ms - now_ms) / 1000):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _find_leaders(self, now_ms: int) -> set[str]:
        addresses = set()
        for state in self._buffer.states:
            leader = self._metadata.leader(state.partition)
            count = self._metadata.partition_count(state.partition.topic)
            if leader is not None:
                self._missing_since_ms.pop(state.partition, None)
                addresses.add(leader.address)
            elif state.error is None and count is not None:
                self._metadata.request_refresh()
                self._check_exists(state, count, now_ms)
        return addresses

    def _check_exists(self, state: PartitionState, count: int, now_ms: int) -> None:
        """Fail the state of a partition that has been missing for a while. One that is new comes after a moment."""
        partition = state.partition
        refusal = self._metadata.refusal_of(partition.topic)
        has_number = 0 <= partition.partition < count
        if not has_number:
            self._metadata.any_broker.ask_another()
            refusal = no_such_partition(partition, count)
        if refusal is None or refusal.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._missing_since_ms.pop(partition, None)
            return
        since_ms = self._missing_since_ms.setdefault(partition, now_ms)
        if now_ms - since_ms >= MISSING_TOPIC_GRACE_MS:
            # Topics grow: after the error was raised, the partition is looked for again, for as long.
            del self._missing_since_ms[partition]
            self._fail(partition, refusal, is_passing=not has_number and state.is_read)

    def _fail(self, partition: TopicPartition, error: Exception, *, is_passing: bool = False) -> None:
        self._buffer.fail(partition, error, is_passing=is_passing)
        self._news.set()

    def _look_topics_up(self) -> None:
        """Start a look-up of the topics that are neither known nor being looked up."""
        unknown = {
            state.partition.topic
            for state in self._buffer.states
            if state.error is None and self._metadata.partition_count(state.partition.topic) is None
        }
        unknown -= self._sought_topics
        if unknown:
            self._sought_topics |= unknown
            self._look_up(self._find_topics(unknown), "topics")

    async def _find_topics(self, topics: set[str]) -> None:
        try:
            refused = await self._refused_of(topics)
        finally:
            self._sought_topics -= topics
        for state in self._buffer.states:
            error = refused.get(state.partition.topic)
            is_known = self._metadata.partition_count(state.partition.topic) is not None
            if error is not None and state.error is None and not is_known:
                self._fail(state.partition, error, is_passing=_is_passing(error))
        self.wake_up()

    async def _refused_of(self, topics: Set[str]) -> Mapping[str, Exception]:
        """Look up the topics; return the errors of those that are still unknown."""
        try:
            return await self._metadata.look_up(topics, self._settings.default_api_timeout_ms, self.wake_up)
        except (AuthenticationFailed, Unreachable) as error:
            return dict.fromkeys(topics, error)
        except Refusal as error:
            if len(topics) == 1:
                return dict.fromkeys(topics, error)
        # One of them, such as an empty name, is a reason to refuse the whole request.
        each = await asyncio.gather(*(self._refused_of({topic}) for topic in topics))
        return {topic: error for refused in each for topic, error in refused.items()}

    def _look_positions_up(self) -> None:
        """Start a look-up of the positions that are needed and not being looked up."""
        wanted: dict[TopicPartition, int] = {}
        committed: dict[TopicPartition, int] = {}
        for state in self._buffer.states:
            count = self._metadata.partition_count(state.partition.topic)
            is_known = count is not None and 0 <= state.partition.partition < count
            is_looked_up = self._looked_up.get(state.partition) == state.generation
            if not is_known or is_looked_up:
                continue
            if state.needs_committed and state.error is None:
                committed[state.partition] = self._looked_up[state.partition] = state.generation
            elif state.reset_to is not None and state.needs_position:
                wanted[state.partition] = state.reset_to
                self._looked_up[state.partition] = state.generation
        if wanted:
            generations = {partition: self._looked_up[partition] for partition in wanted}
            self._look_up(self._find_positions(wanted, generations), "positions")
        if committed:
            self._look_up(self._find_committed(committed), "committed offsets")

    def _look_up(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._started(work, name)
        self._lookups.add(task)
        task.add_done_callback(self._lookups.discard)

    async def _find_committed(self, generations: dict[TopicPartition, int]) -> None:
        assert self._committed is not None, "only a consumer with a group looks committed offsets up"
        try:
            found = await self._committed(list(generations), self._settings.default_api_timeout_ms)
        except (Refusal, Unreachable) as error:
            outcomes: dict[TopicPartition, OffsetAndMetadata | Exception | None] = dict.fromkeys(generations, error)
        else:
            outcomes = {partition: found.get(partition) for partition in generations}
        for partition, outcome in outcomes.items():
            self._take_committed(partition, generations[partition], outcome)
        self._news.set()
        self.wake_up()

    def _take_committed(
        self, partition: TopicPartition, generation: int, outcome: OffsetAndMetadata | Exception | None
    ) -> None:
        if self._looked_up.get(partition) == generation:
            del self._looked_up[partition]
        if not self._buffer.wants_committed(partition, generation):
            return
        if isinstance(outcome, Exception):
            self._fail(partition, outcome, is_passing=_is_passing(outcome))
        elif outcome is None:
            self._buffer.nothing_committed(partition)
        else:
            self._buffer.committed_found(partition, outcome.offset, outcome.leader_epoch)

    async def _find_positions(
        self, timestamps_ms: dict[TopicPartition, int], generations: dict[TopicPartition, int]
    ) -> None:
        timeout_ms = self._settings.default_api_timeout_ms
        async with aclosing(self._lookup.find_each(timestamps_ms, timeout_ms)) as outcomes:
            async for partition, outcome in outcomes:
                self._take_position(partition, generations[partition], outcome)
                self._news.set()
                self.wake_up()

    def _take_position(self, partition: TopicPartition, generation: int, outcome: Outcome) -> None:
        if self._looked_up.get(partition) == generation:
            del self._looked_up[partition]
        if not self._buffer.wants_position(partition, generation):
            return
        if isinstance(outcome, FoundOffset) and outcome.offset < 0:
            # No record is as late as the timestamp that was sought.
            self._buffer.seek_to_timestamp(partition, LATEST_TIMESTAMP)
        elif isinstance(outcome, FoundOffset):
            self._buffer.position_found(partition, outcome)
        else:
            self._fail(partition, outcome, is_passing=_is_passing(outcome))

    # --- one leader -------------------------------------------------------------------------------------------

    async def _fetch_from(self, address: str) -> None:
        stream: FetchStream | None = None
        changed = self._leader_changed[address]
        try:
            while True:
                changed.clear()
                check = self._buffer.next_check(address, self._led_by(address), self._clock.monotonic_ms())
                if check is not None:
                    await self._check(check)
                    continue
                if self._is_moved:
                    await changed.wait()
                    continue
                sent = self._buffer.next_request(address, self._led_by(address), self._clock.monotonic_ms())
                if sent is None:
                    await changed.wait()
                    continue
                if stream is None:
                    stream = self._connections.peer(address).open(FETCH)
                if not await self._exchange(stream, sent):
                    await stream.close()
                    stream = None
                self._news.set()
        finally:
            if stream is not None:
                await stream.close()

    async def _check(self, sent: SentCheck) -> None:
        """Check with a new leader that it has what was read."""
        timeout_s = min(ATTEMPT_MAX_MS, self._settings.request_timeout_ms) / 1000
        node = self._connections.peer(sent.address)
        try:
            response = await node.call(OFFSET_FOR_LEADER_EPOCH, sent.request, timeout_s)
        except NotServed:
            # An older broker, during an upgrade: read on without the check, as clients of its version do.
            self._buffer.check_not_served(sent)
        except Unreachable:
            self._buffer.check_lost(sent, self._clock.monotonic_ms())
            self._metadata.request_refresh()
        except Refusal as refusal:
            self._buffer.check_refused(sent, refusal, self._clock.monotonic_ms())
            self._metadata.request_refresh()
        else:
            if self._buffer.checked(sent, response, self._clock.monotonic_ms()):
                self._metadata.request_refresh()
        self._news.set()
        # A position may be unknown now, or a retry due.
        self.wake_up()

    async def _exchange(self, stream: FetchStream, sent: SentFetch) -> bool:
        """Send one request and take its response. Return False if the stream cannot be used again."""
        timeout_ms = self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await stream.send(sent.request)
                response = await self._receive(stream, sent)
        except (Unreachable, TimeoutError):
            self._buffer.lost(sent, self._clock.monotonic_ms())
            self._metadata.request_refresh()
            self.wake_up()
            return False
        except Refusal as refusal:
            self._buffer.refused(sent, refusal, self._clock.monotonic_ms())
            self._metadata.request_refresh()
            self.wake_up()
            return False
        if response is None:
            return False
        self._learn_leaders(response)
        if self._buffer.answered(sent, response, self._clock.monotonic_ms()):
            self._metadata.request_refresh()
        # A position may be unknown now, or a retry due.
        self.wake_up()
        if response.throttle_time_ms:
            self._news.set()
            # The broker would not read another request, which would count as late.
            await asyncio.sleep(response.throttle_time_ms / 1_000)
        return True

    async def _receive(self, stream: FetchStream, sent: SentFetch) -> FetchResponse | None:
        """Return the response; None if a seek or a change of leader made it useless."""
        changed = self._leader_changed[sent.address]
        receiving = asyncio.ensure_future(stream.receive())
        late_at_ms = self._clock.monotonic_ms() + self._settings.fetch_max_wait_ms + STALL_MS
        try:
            while not receiving.done():
                changed.clear()
                if self._is_outdated(sent):
                    return None
                if not await self._first_of(receiving, changed, late_at_ms):
                    # A leader that answers late may no longer be the leader.
                    self._metadata.request_refresh()
                    late_at_ms += STALL_MS
            return receiving.result()
        finally:
            receiving.cancel()

    async def _first_of(self, receiving: asyncio.Future[FetchResponse], changed: asyncio.Event, until_ms: int) -> bool:
        """Wait for either. Return False if the time passes first."""
        changing = asyncio.ensure_future(changed.wait())
        waited: list[asyncio.Future[Any]] = [receiving, changing]
        left_s = max(0, until_ms - self._clock.monotonic_ms()) / 1000
        try:
            done, _ = await asyncio.wait(waited, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changing.cancel()
        return bool(done)

    def _is_outdated(self, sent: SentFetch) -> bool:
        led = self._led_by(sent.address)
        return not self._buffer.is_wanted(sent, led) or self._buffer.misses(sent, led, self._clock.monotonic_ms())

    def _learn_leaders(self, response: FetchResponse) -> None:
        for result in response.partitions:
            partition = TopicPartition(result.topic, result.partition)
            self._metadata.learn_leader(partition, result.leader_id, result.leader_epoch)

    def _led_by(self, address: str) -> dict[TopicPartition, int]:
        led: dict[TopicPartition, int] = {}
        for state in self._buffer.states:
            leader = self._metadata.leader(state.partition)
            if leader is not None and leader.address == address:
                led[state.partition] = leader.epoch
        return led


def _is_passing(error: Exception) -> bool:
    """True if what failed may succeed later, if only after an operator has changed something."""
    return isinstance(error, (Unreachable, AuthenticationFailed)) or (
        isinstance(error, Refusal) and error.error_code.retriable
    )
