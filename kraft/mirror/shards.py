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
from kraft.mirror.beginning import Beginning, Topics
from kraft.mirror.config import PairConfig
from kraft.mirror.copying import ROUND_BYTES_MAX, Counts, PartitionStops, ShardCopy
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
HELD_S: Final = 30.0
"""A partition that cannot be copied is looked at again after this time."""

_LOOK_UP_MS: Final = 5_000
"""Longest wait for the offsets of a source's partition: those of other partitions are not to wait for its leader."""

ROUND_BYTES_MIN: Final = 256 * 1024

log = structlog.get_logger()


class PositionsGone(KraftError):
    """The positions topic is not the one with which the pair began."""


class CreatedAgain(KraftError):
    """A topic is not the one that it was when its copying began."""


class Shard:
    """A task that copies one shard of a pair, and begins again from the committed positions after any error."""

    def __init__(
        self,
        pair: PairConfig,
        place: TopicPartition,
        beginning: Beginning,
        *,
        admins: tuple[Admin, Admin],
        topics: Callable[[], Mapping[str, Mirrored]],
        throttle: Throttle,
        counts: Counts,
    ) -> None:
        """`admins` are those of the source and of the target."""
        self._pair = pair
        self._place = place
        self._beginning = beginning
        self._source, self._target = admins
        self._topics = topics
        self._throttle = throttle
        self._counts = counts
        self._transactional_id = f"{place}" if beginning.is_exactly_once else None
        self._is_stopped = asyncio.Event()
        self._held_until_s: dict[TopicPartition, float] = {}
        """Partitions that are left out."""

        self._round_bytes = ROUND_BYTES_MAX
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
            except PartitionStops as error:
                self._hold(error.partition, str(error))
                continue
            except PositionsGone:
                # The pair tells it.
                self._counts.restarts += 1
            except (KraftError, Unreachable) as error:
                # A round that took too long for its transaction takes less the next time.
                self._round_bytes = max(ROUND_BYTES_MIN, self._round_bytes // 4)
                self._counts.restarts += 1
                log.warning(
                    "copying begins again from the committed positions",
                    pair=self._pair.name,
                    part=self._place.partition,
                    reason=clients.reason_of(error, self._beginning.addresses),
                )
            except Exception as error:
                # Nothing of it was committed, so the shard begins again here, too.
                self._counts.restarts += 1
                log.error("internal error", pair=self._pair.name, part=self._place.partition, exc_info=error)
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
            self._check_positions(await self._target.find_topics([self._place.topic]))
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
                check=self._check,
            )
            self._copying = copy
            await self._rounds(copy)

    async def _rounds(self, copy: ShardCopy) -> None:
        topics: Mapping[str, Mirrored] | None = None
        targets: dict[TopicPartition, TopicPartition] = {}
        while not self._is_stopped.is_set():
            if (known := self._topics()) is not topics or self._is_due():
                topics = known
                targets = await self._assigned(copy, known)
            if not targets:
                await self._pause(IDLE_S)
            else:
                copy.round_bytes = self._throttle.burst_bytes(self._round_bytes)
                if await copy.round(self._is_stopped):
                    self._round_bytes = min(ROUND_BYTES_MAX, 2 * self._round_bytes)

    def _is_due(self) -> bool:
        """Return whether a partition that is left out is to be looked at again."""
        now_s = asyncio.get_running_loop().time()
        return any(until_s <= now_s for until_s in self._held_until_s.values())

    def _check_positions(self, topics: Topics) -> None:
        """Raise PositionsGone unless the positions topic is the one with which the pair began."""
        if not self._beginning.are_positions_in(topics):
            raise PositionsGone(self._place.topic)

    async def _check(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Raise KraftError if a topic was created again since its state began: what was read is of another one.

        A fetch names topics, and does not show which one of a name it read.
        """
        targets = self._topics()
        here = await self._source.find_topics({each.topic for each in states})
        names = {targets[each.topic].target for each in states if each.topic in targets}
        there = await self._target.find_topics({self._place.topic, *names})
        self._check_positions(there)
        for partition, state in states.items():
            found = here.get(partition.topic)
            if found is not None and str(found.topic_id) != state.topic_id:
                raise CreatedAgain(f"topic {partition.topic} was created again at the source")
            target = targets.get(partition.topic)
            at_target = None if target is None else there.get(target.target)
            if at_target is not None and str(at_target.topic_id) != state.target_id:
                raise CreatedAgain(f"topic {at_target.name} was created again at the target")

    async def _assigned(self, copy: ShardCopy, topics: Mapping[str, Mirrored]) -> dict[TopicPartition, TopicPartition]:
        """Assign the shard's partitions of these topics to the copy, each with a position that the source has."""
        now_s = asyncio.get_running_loop().time()
        self._held_until_s = {each: until_s for each, until_s in self._held_until_s.items() if until_s > now_s}
        # All topics: named ones would be refused together if one of them may not be described.
        here, there = await asyncio.gather(self._source.find_topics(), self._target.find_topics())
        targets = {
            source: target
            for source, target in places_of(topics).items()
            if shard_of(source, self._beginning.shards) == self._place.partition
            and source not in self._held_until_s
            and source.topic in here
            and target.topic in there
        }
        firsts, ends = await asyncio.gather(
            self._source.list_offsets(dict.fromkeys(targets, EARLIEST_TIMESTAMP), timeout_ms=_LOOK_UP_MS),
            self._source.list_offsets(dict.fromkeys(targets, LATEST_TIMESTAMP), timeout_ms=_LOOK_UP_MS),
        )
        found: dict[TopicPartition, PartitionState] = {}
        for partition, target in list(targets.items()):
            first, end = firsts[partition], ends[partition]
            if isinstance(first, KraftError) or isinstance(end, KraftError):
                self._hold(partition, str(first if isinstance(first, KraftError) else end))
                del targets[partition]
                continue
            ids = str(here[partition.topic].topic_id), str(there[target.topic].topic_id)
            state = self._state_of(copy, partition, *ids)
            if state.next_offset > end.offset:
                self._hold(
                    partition,
                    f"the source ends at offset {end.offset}, and {state.next_offset} was mirrored: it lost records",
                )
                del targets[partition]
                continue
            found[partition] = self._after_retention(partition, state, first.offset, copy.states.get(partition))
        await copy.begin_at(found)
        await copy.assign(targets)
        return targets

    def _state_of(self, copy: ShardCopy, partition: TopicPartition, topic_id: str, target_id: str) -> PartitionState:
        state, known = copy.states.get(partition), self._beginning.known.get(partition)
        if state is None or (known is not None and known.topic_id == topic_id != state.topic_id):
            state = known
        elif known is not None:
            state = state.continued(known)
        end = 0
        if state is not None:
            is_here, is_there = state.topic_id == topic_id, state.target_id in ("", target_id)
            if is_here and is_there:
                return replace(state, target_id=target_id)
            end = state.target_end if is_there else 0
            log.warning(
                "topic was created again, and is mirrored from its beginning",
                pair=self._pair.name,
                partition=str(partition),
                at="target" if is_here else "source",
            )
        topic, number = partition.topic, partition.partition
        return PartitionState(topic=topic, partition=number, topic_id=topic_id, target_id=target_id, target_end=end)

    def _after_retention(
        self, partition: TopicPartition, state: PartitionState, first: int, committed: PartitionState | None
    ) -> PartitionState:
        if state.next_offset >= first:
            return state
        # What was there before the mirror began is not missed: it is only not there any more.
        ids = state.topic_id, state.target_id
        has_begun = state.next_offset > 0 or (
            committed is not None and (committed.topic_id, committed.target_id) == ids
        )
        missed = first - state.next_offset if has_begun else 0
        if missed:
            log.warning(
                "the source deleted records before they were mirrored",
                pair=self._pair.name,
                partition=str(partition),
                first=state.next_offset,
                offsets=missed,
            )
        return replace(state, next_offset=first, leader_epoch=-1, skipped=state.skipped + missed)

    def _hold(self, partition: TopicPartition, reason: str) -> None:
        self._held_until_s[partition] = asyncio.get_running_loop().time() + HELD_S
        log.error("partition is not mirrored", pair=self._pair.name, partition=str(partition), reason=reason)
