"""One pair at work in one worker: its shards by the workers' group, its topics, and what belongs to the first shard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from kraft.client.aio import Admin, Consumer
from kraft.mirror import clients
from kraft.mirror.beginning import Beginning, begin, refuse_other_mirrors
from kraft.mirror.config import PairConfig
from kraft.mirror.copying import Counts
from kraft.mirror.groups import carry_groups
from kraft.mirror.positions import Positions
from kraft.mirror.repeats import CannotMirror, positions_gone
from kraft.mirror.shards import Shard
from kraft.mirror.throttle import Throttle
from kraft.mirror.topics import Mirrored, PairTopics, places_of, states_of
from kraft.mirror.translation import PartitionState
from kraft.model.errors import ErrorCode, InvalidBatch, KraftError, Refusal
from kraft.model.ids import TopicPartition
from kraft.rpc.peers import Unreachable

POLL_MS: Final = 200

BEGIN_AGAIN_S: Final = 2.0
"""Pause before a pair whose clusters did not answer begins again."""

GONE_TOLD_EVERY_S: Final = 30.0
"""Time between two errors that the positions topic is gone."""

log = structlog.get_logger()


def _may_pass(error: KraftError) -> bool:
    """Return whether a pair may begin later without anybody's help."""
    if isinstance(error, InvalidBatch):
        # Positions that somebody else wrote do not mend themselves.
        return False
    return isinstance(error, Unreachable) or (isinstance(error, Refusal) and error.error_code.retriable)


class PairWorker:
    """A worker's part of a pair. The worker with shard 0 also prepares topics and carries groups over."""

    def __init__(self, mirror: str, pair: PairConfig, aliases: frozenset[str], worker: str, throttle: Throttle) -> None:
        self.pair = pair
        self.counts = Counts()
        self.topics: Mapping[str, Mirrored] = {}
        self._mirror = mirror
        self._aliases = aliases
        self._worker = worker
        self._throttle = throttle
        self._shards: dict[int, Shard] = {}
        self._addresses = clients.addresses_of(pair)
        self._may_copy = False
        self._told_gone_s = -GONE_TOLD_EVERY_S
        self._beginning: Beginning | None = None
        self._source: Admin
        self._target: Admin

    @property
    def shards(self) -> list[int]:
        """The shards that this worker has."""
        return sorted(self._shards)

    @property
    def states(self) -> dict[TopicPartition, PartitionState]:
        """The positions of this worker's shards."""
        return {key: state for shard in self._shards.values() for key, state in shard.states.items()}

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """Offsets of the source that this worker's shards have yet to copy."""
        return {key: lag for shard in self._shards.values() for key, lag in shard.lags.items()}

    async def run(self, stopped: asyncio.Event) -> None:
        """Mirror until stopped. Raises KraftError for what is wrong at the start."""
        async with clients.admin_of(self.pair.source) as source, clients.admin_of(self.pair.target) as target:
            self._source, self._target = source, target
            looked_up = PairTopics(self.pair, source, target, self._aliases)
            self._beginning = await self._begun(looked_up, stopped)
            if self._beginning is None:
                return
            self._addresses |= self._beginning.addresses
            refused: CannotMirror | None = None
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._follow_topics(looked_up)),
                    group.create_task(self._carry_groups(looked_up)),
                ]
                try:
                    await self._keep_membership(stopped)
                except CannotMirror as error:
                    refused = error
                for each in tasks:
                    each.cancel()
            if refused is not None:
                raise refused

    async def _begun(self, looked_up: PairTopics, stopped: asyncio.Event) -> Beginning | None:
        """Begin, once both clusters answer; None if the mirror is stopped before. Raises KraftError for what is wrong.

        A machine that starts again starts all its programs at once, and a cluster may take longer than its mirror.
        """
        ending = asyncio.ensure_future(stopped.wait())
        try:
            while not stopped.is_set():
                work = asyncio.ensure_future(begin(self._mirror, self.pair, self._source, self._target, looked_up))
                await asyncio.wait([work, ending], return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    work.cancel()
                    await asyncio.wait([work])
                    break
                error = work.exception()
                if error is None:
                    return work.result()
                if not isinstance(error, KraftError) or not _may_pass(error):
                    raise error
                log.warning("pair waits until both clusters answer", pair=self.pair.name, reason=self._told(error))
                await asyncio.wait([ending], timeout=BEGIN_AGAIN_S)
        finally:
            ending.cancel()
            await asyncio.wait([ending])
        return None

    def _told(self, error: object) -> str:
        return clients.reason_of(error, self._addresses)

    # --- shards -----------------------------------------------------------------------------------------------

    async def _keep_membership(self, stopped: asyncio.Event) -> None:
        """Be a member of the workers' group, and copy the shards that it gives to this worker."""
        assert self._beginning is not None, "the pair has begun"
        while not stopped.is_set():
            member = clients.member(self.pair, self._beginning.positions, self._worker)
            try:
                async with member:
                    await self._follow_assignment(member, stopped)
            except CannotMirror:
                await self._stop_shards(list(self._shards))
                raise
            except (KraftError, Unreachable) as error:
                if isinstance(error, Refusal) and error.error_code is ErrorCode.FENCED_INSTANCE_ID:
                    await self._stop_shards(list(self._shards))
                    raise CannotMirror(
                        f"{self.pair.name}: another worker has taken over the name {self._worker}: "
                        "give each worker its own --worker"
                    ) from None
                log.warning(
                    "worker left the mirror's group, and joins it again: its partitions are not copied meanwhile",
                    pair=self.pair.name,
                    group=self._beginning.positions,
                    reason=self._told(error),
                )
                await self._stop_shards(list(self._shards))
                await asyncio.sleep(1)
        await self._stop_shards(list(self._shards))
        await self._leave(self._beginning.positions)

    async def _leave(self, group_id: str) -> None:
        """Leave the group at once: a member with a name would stay in it until its session ends."""
        if self._worker:
            try:
                await self._target.remove_members_from_consumer_group(group_id, [self._worker])
            except (KraftError, Unreachable) as error:
                log.info(
                    "worker has not left its group: its partitions wait until its session ends",
                    pair=self.pair.name,
                    reason=self._told(error),
                )

    async def _follow_assignment(self, member: Consumer, stopped: asyncio.Event) -> None:
        given: set[TopicPartition] = set()

        async def assigned(partitions: list[TopicPartition]) -> None:
            member.pause(*partitions)
            given.update(partitions)

        async def revoked(partitions: list[TopicPartition]) -> None:
            given.difference_update(partitions)
            await self._stop_shards([each.partition for each in partitions])

        assert self._beginning is not None, "the pair has begun"
        member.subscribe(self._beginning.positions, on_assigned=assigned, on_revoked=revoked)
        while not stopped.is_set():
            await member.poll_batches(POLL_MS)
            if given and not self._may_copy:
                await refuse_other_mirrors(self.pair, self._source, self._target, self._beginning)
                self._may_copy = True
                continue
            while given:
                self._start_shard(given.pop())

    def _start_shard(self, place: TopicPartition) -> None:
        assert self._beginning is not None, "the pair has begun"
        if place.partition in self._shards or place.partition >= self._beginning.shards:
            return
        log.info(
            "worker copies this part of the partitions from now on",
            pair=self.pair.name,
            part=place.partition,
            parts=self._beginning.shards,
        )
        self._shards[place.partition] = Shard(
            self.pair,
            place,
            self._beginning,
            admins=(self._source, self._target),
            topics=lambda: self.topics,
            throttle=self._throttle,
            counts=self.counts,
        )

    async def _stop_shards(self, numbers: list[int]) -> None:
        stopping = {each: self._shards.pop(each) for each in numbers if each in self._shards}
        if stopping:
            await asyncio.gather(*(each.stop() for each in stopping.values()))
            log.info(
                "worker no longer copies these parts of the partitions: others take them, or it begins again",
                pair=self.pair.name,
                parts=sorted(stopping),
            )

    # --- topics and groups ------------------------------------------------------------------------------------

    async def _follow_topics(self, looked_up: PairTopics) -> None:
        while True:
            try:
                if 0 in self._shards:
                    await looked_up.prepare()
                await self._tell_gone_positions()
                found = await looked_up.look()
                if found != self.topics:
                    self.topics = found
            except (KraftError, Unreachable) as error:
                log.warning("topics not looked up", pair=self.pair.name, reason=self._told(error))
            # A new worker has its shards, and new topics their leaders, a moment later.
            await asyncio.sleep(self.pair.refresh_s if self.topics and self._shards else 1)

    async def _tell_gone_positions(self) -> None:
        """Log what to do if the positions topic is gone, now and then."""
        assert self._beginning is not None, "the pair has begun"
        now_s = asyncio.get_running_loop().time()
        if now_s < self._told_gone_s + GONE_TOLD_EVERY_S or await self._beginning.has_positions(self._target):
            return
        self._told_gone_s = now_s
        log.error(
            "pair copies nothing", pair=self.pair.name, reason=positions_gone(self.pair, self._beginning.positions)
        )

    async def _carry_groups(self, looked_up: PairTopics) -> None:
        if not self.pair.syncs_groups:
            return
        assert self._beginning is not None, "the pair has begun"
        async with clients.consumer_of(self.pair.target) as reader:
            positions = Positions(reader, self._beginning.positions)
            while True:
                await asyncio.sleep(self.pair.groups_interval_s)
                if 0 not in self._shards:
                    continue
                try:
                    await positions.read(range(self._beginning.shards))
                    # As they are now: an offset in a topic that was created again since would be one of other records.
                    topics = await looked_up.look()
                    states, targets = states_of(positions.states, topics), places_of(topics)
                    await carry_groups(self.pair, self._source, self._target, states, targets)
                except (KraftError, Unreachable) as error:
                    log.warning(
                        "committed offsets of groups not carried over", pair=self.pair.name, reason=self._told(error)
                    )
