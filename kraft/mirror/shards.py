"""One shard at work: fences its former worker, finds its positions, and copies until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Final

import structlog
from msgspec.structs import replace

from kraft.client.aio import Admin
from kraft.mirror import clients
from kraft.mirror.config import PairConfig
from kraft.mirror.copying import Counts, ShardCopy
from kraft.mirror.positions import Positions, shard_of
from kraft.mirror.throttle import Throttle
from kraft.mirror.topics import Mirrored, places_of
from kraft.mirror.translation import PartitionState
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kraft.rpc.peers import Unreachable

RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 10.0
STOP_S_MAX: Final = 30.0
IDLE_S: Final = 1.0

log = structlog.get_logger()

Inverse = Mapping[TopicPartition, PartitionState]


class Shard:
    """A task that copies one shard of a pair, and begins again from the committed positions after any error."""

    def __init__(
        self,
        pair: PairConfig,
        place: TopicPartition,
        shards: int,
        *,
        source: Admin,
        topics: Callable[[], Mapping[str, Mirrored]],
        way_back: Inverse,
        throttle: Throttle,
        counts: Counts,
        transactional: bool,
    ) -> None:
        """`way_back` has the states of a mirror in the other direction, turned around."""
        self._pair = pair
        self._place = place
        self._shards = shards
        self._source = source
        self._topics = topics
        self._way_back = way_back
        self._throttle = throttle
        self._counts = counts
        self._transactional_id = f"{place}" if transactional else None
        self._is_stopped = asyncio.Event()
        self._held_back: dict[TopicPartition, str] = {}
        self._copying: ShardCopy | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mirror {place}")

    @property
    def states(self) -> dict[TopicPartition, PartitionState]:
        """The positions as they were committed last."""
        return {} if self._copying is None else self._copying.states

    @property
    def lags(self) -> dict[TopicPartition, int]:
        return {} if self._copying is None else self._copying.lags

    async def stop(self) -> None:
        """End after the round that is under way."""
        self._is_stopped.set()
        await asyncio.wait([self._task], timeout=STOP_S_MAX)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        wait_s = RETRY_FIRST_S
        while not self._is_stopped.is_set():
            began_s = asyncio.get_running_loop().time()
            try:
                await self._copy()
            except (KraftError, Unreachable) as error:
                self._counts.restarts += 1
                log.warning("shard begins again", pair=self._pair.name, shard=self._place.partition, reason=str(error))
            except Exception as error:
                # Nothing of it was committed, so the shard begins again here, too.
                self._counts.restarts += 1
                log.error("internal error", pair=self._pair.name, shard=self._place.partition, exc_info=error)
            if asyncio.get_running_loop().time() - began_s > RETRY_MAX_S:
                wait_s = RETRY_FIRST_S
            await self._pause(wait_s)
            wait_s = min(RETRY_MAX_S, 2 * wait_s)

    async def _pause(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._is_stopped.wait()
        except TimeoutError:
            return

    async def _copy(self) -> None:
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(clients.target_producer(self._pair, self._transactional_id))
            if self._transactional_id is not None:
                # From here on a former worker of this shard commits nothing more.
                await producer.init_transactions()
            reader = await stack.enter_async_context(clients.consumer_of(self._pair.target))
            positions = Positions(reader, self._place.topic)
            await positions.read([self._place.partition])
            consumer = await stack.enter_async_context(clients.source_consumer(self._pair))
            copy = ShardCopy(
                consumer=consumer,
                producer=producer,
                place=self._place,
                states=dict(positions.states),
                throttle=self._throttle,
                counts=self._counts,
                commit_interval_ms=self._pair.commit_interval_ms,
            )
            self._copying = copy
            await self._rounds(copy)

    async def _rounds(self, copy: ShardCopy) -> None:
        topics: Mapping[str, Mirrored] | None = None
        targets: dict[TopicPartition, TopicPartition] = {}
        while not self._is_stopped.is_set():
            if (known := self._topics()) is not topics:
                topics = known
                targets = await self._assigned(copy, known)
            if not targets:
                await self._pause(IDLE_S)
            else:
                await copy.round(self._is_stopped.is_set)

    async def _assigned(self, copy: ShardCopy, topics: Mapping[str, Mirrored]) -> dict[TopicPartition, TopicPartition]:
        """Assign the shard's partitions of these topics to the copy, each with a position that the source has."""
        targets = {
            source: target
            for source, target in places_of(topics).items()
            if shard_of(source, self._shards) == self._place.partition
        }
        firsts = await self._source.list_offsets(dict.fromkeys(targets, EARLIEST_TIMESTAMP))
        ends = await self._source.list_offsets(dict.fromkeys(targets, LATEST_TIMESTAMP))
        for partition in list(targets):
            first, end = firsts[partition], ends[partition]
            if isinstance(first, KraftError) or isinstance(end, KraftError):
                self._hold(partition, str(first if isinstance(first, KraftError) else end))
                del targets[partition]
                continue
            state = self._state_of(copy, partition, topics[partition.topic].topic_id)
            if state.next_offset > end.offset:
                self._hold(
                    partition,
                    f"the source ends at offset {end.offset}, and {state.next_offset} was mirrored: it lost records",
                )
                del targets[partition]
                continue
            self._held_back.pop(partition, None)
            copy.states[partition] = self._after_retention(partition, state, first.offset)
        copy.assign(targets)
        return targets

    def _state_of(self, copy: ShardCopy, partition: TopicPartition, topic_id: str) -> PartitionState:
        state = copy.states.get(partition) or self._way_back.get(partition)
        if state is not None and state.topic_id == topic_id:
            return state
        if state is not None:
            log.warning("topic was created again at the source", pair=self._pair.name, partition=str(partition))
        end = 0 if state is None else state.target_end
        return PartitionState(topic=partition.topic, partition=partition.partition, topic_id=topic_id, target_end=end)

    def _after_retention(self, partition: TopicPartition, state: PartitionState, first: int) -> PartitionState:
        if state.next_offset >= first:
            return state
        # What was there before the mirror began is not missed: it is only not there any more.
        missed = first - state.next_offset if state.records else 0
        if missed:
            log.warning(
                "the source deleted records before they were mirrored",
                pair=self._pair.name,
                partition=str(partition),
                offsets=missed,
            )
        return replace(state, next_offset=first, skipped=state.skipped + missed)

    def _hold(self, partition: TopicPartition, reason: str) -> None:
        if self._held_back.get(partition) != reason:
            self._held_back[partition] = reason
            log.error("partition is not mirrored", pair=self._pair.name, partition=str(partition), reason=reason)
