"""Acts on new metadata: opens and closes logs, gives partitions their roles, keeps a fetcher for each leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import structlog

from kraft.metadata.configs import TopicConfig, overridden
from kraft.metadata.delta import AssignedPartition, RemovedPartition, delta
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.model.errors import Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, TopicPartition
from kraft.server import background
from kraft.server.high_watermarks import HighWatermarks
from kraft.server.partition import Partition, PartitionSurroundings
from kraft.server.partition_store import PartitionStore, log_config
from kraft.server.partitions import Partitions
from kraft.server.replica_fetcher import ReplicaFetcher

log = structlog.get_logger()


class ReplicaPublisher:
    """`publish` is called for one step at a time, by the metadata loader."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        partitions: Partitions,
        store: PartitionStore,
        executor: Executor,
        defaults: TopicConfig,
        high_watermarks: HighWatermarks,
        surroundings: PartitionSurroundings,
        make_fetcher: Callable[[BrokerId], ReplicaFetcher],
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._store = store
        self._executor = executor
        self._defaults = defaults
        self._high_watermarks = high_watermarks
        self._surroundings = surroundings
        self._make_fetcher = make_fetcher
        self._fetchers: dict[BrokerId, tuple[ReplicaFetcher, asyncio.Task[None]]] = {}
        self._is_first = True

    async def publish(self, before: MetadataImage, after: MetadataImage) -> None:
        """Makes this broker what `after` says it is. Raises Corruption and OSError from the disk."""
        step = delta(before, after, self._broker_id)
        for removed in step.remove:
            await self._remove(removed)
        for topic in step.reconfigured:
            self._reconfigure(topic)
        is_ahead = await self._open_missing([*step.lead, *step.follow], after)
        if self._is_first:
            self._is_first = False
            held = {partition.topic_partition for partition in self._partitions}
            await self._in_thread(lambda: self._store.set_strays_aside(held))
            self._high_watermarks.forget_unopened()
        if step.remove or is_ahead:
            # The file names partitions without their topic's id. An entry that outlived its topic would, after a
            # crash, stand for a new topic of the same name, and be ahead of the truth.
            await self.checkpoint()
        for assigned in step.lead:
            self._held(assigned).lead(assigned.state, self._broker_epoch())
        for assigned in step.follow:
            self._held(assigned).follow(assigned.state)
        if not step.is_empty:
            self._tend_fetchers()
            log.info(
                "metadata is acted on",
                leads=len(step.lead),
                follows=len(step.follow),
                removes=len(step.remove),
                replicas=len(self._partitions),
            )

    async def checkpoint(self) -> None:
        """Writes down the high watermarks. Raises OSError."""
        offsets = self._high_watermarks.with_unopened(
            {partition.topic_partition: partition.high_watermark for partition in self._partitions}
        )
        await self._in_thread(lambda: self._high_watermarks.write(offsets))

    async def close(self) -> None:
        """Ends all fetching and closes every log durably."""
        tasks = [task for _, task in self._fetchers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for partition in self._partitions:
            partition.close()

    # --- partitions ------------------------------------------------------------------------------------------

    async def _open_missing(self, assignments: Sequence[AssignedPartition], image: MetadataImage) -> bool:
        """True when a high watermark that was written down is above the end of its log."""
        is_ahead = False
        missing = [one for one in assignments if self._partitions.find(one.topic_id, one.state.partition) is None]
        for assigned in missing:
            topic_partition = TopicPartition(assigned.topic, assigned.state.partition)
            config = self._config(image.topics[assigned.topic_id])
            topic_id = assigned.topic_id
            opened = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._store.open, topic_partition, topic_id, config
            )
            high_watermark = self._high_watermarks.take(topic_partition) or opened.log_start_offset
            is_ahead = is_ahead or high_watermark > opened.log_end_offset
            self._partitions.add(
                Partition(
                    topic_partition=topic_partition,
                    topic_id=topic_id,
                    log=opened,
                    high_watermark=min(high_watermark, opened.log_end_offset),
                    config=config,
                    surroundings=self._surroundings,
                )
            )
        return is_ahead

    async def _remove(self, removed: RemovedPartition) -> None:
        partition = self._partitions.find(removed.topic_id, removed.partition)
        if partition is None:
            return
        self._partitions.remove(partition)
        partition.retire()
        try:
            await self._in_thread(partition.delete)
        except Refusal as refusal:
            self._surroundings.storage_failed(refusal.message)
            raise
        log.info("replica is deleted", partition=str(partition.topic_partition), topic_deleted=removed.topic_is_deleted)

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._config(topic)
        for number in topic.partitions:
            partition = self._partitions.find(topic.topic_id, number)
            if partition is not None:
                partition.reconfigure(config, log_config(config))

    def _held(self, assigned: AssignedPartition) -> Partition:
        return self._partitions.by_id(assigned.topic_id, assigned.state.partition)

    def _config(self, topic: TopicImage) -> TopicConfig:
        return overridden(self._defaults, topic.configs)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work)

    # --- fetchers --------------------------------------------------------------------------------------------

    def _tend_fetchers(self) -> None:
        """One fetcher for each broker that is followed; each looks for its partitions itself."""
        leaders = {partition.follower.leader_id for partition in self._partitions if partition.follower is not None}
        for gone in self._fetchers.keys() - leaders:
            _, task = self._fetchers.pop(gone)
            task.cancel()
        for leader_id in leaders:
            if leader_id in self._fetchers:
                self._fetchers[leader_id][0].assignment_changed()
            else:
                fetcher = self._make_fetcher(leader_id)
                task = background.start(
                    fetcher.run(), f"fetcher from broker {leader_id}", self._surroundings.storage_failed
                )
                self._fetchers[leader_id] = fetcher, task
