"""A broker's parts with many partitions and groups, as metrics read them: real logs and offsets, without a process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast
from uuid import UUID

from benchmarks.led_partition import led_partition, led_state
from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.model.ids import BrokerId, Offset, TopicId, TopicPartition
from kraft.runtime.clock import SystemClock
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.client_metrics.receiving import ClientMetrics
from kraft.server.config.components import ReplicationConfig
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.group_coordinators import GroupCoordinators, GroupsView
from kraft.server.coordinator.group_lags import GroupLags
from kraft.server.kafka_listener.request_times import CallTimes
from kraft.server.loop.throttling import Throttling
from kraft.server.loop.watch import LoopFacts
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replication_throttles import ReplicationThrottles
from kraft.server.replica.waiting_appends import WaitingAppends
from kraft.server.upkeep.counts import UpkeepCounts
from kraft.wire.api_keys import ApiKey

PARTITIONS_OF_TOPIC: Final = 100
OFFSETS_OF_GROUP: Final = 10


class _Groups:
    """The coordinator's committed state, as the lags of its groups read it."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.members_bytes = 0
        self.rebalances = SimpleNamespace(total=0, unsettled=0)

    def committed(self) -> dict[int, Groups]:
        return {0: self._groups}

    def committed_of(self, group_id: str) -> tuple[int, Groups]:
        return 0, self._groups

    def views(self) -> tuple[GroupsView, ...]:
        groups = self._groups
        settings = GroupShardSettings()
        return (GroupsView(committed=groups, latest=groups, volatile=GroupsVolatile(), settings=settings),)


def _offsets(groups: int) -> Groups:
    offsets, now_ms = NO_OFFSETS, SystemClock().wall_ms()
    for group in range(groups):
        for partition in range(OFFSETS_OF_GROUP):
            key = OffsetCommitKey(group=f"group-{group}", topic=_topic(group % 10), partition=partition)
            value = OffsetCommitValue(
                offset=1, leader_epoch=-1, metadata="", commit_timestamp=now_ms, expire_timestamp=-1
            )
            offsets = offsets.replay(key, value)
    return Groups(offsets=offsets)


def _topic(number: int) -> str:
    return f"topic-{number}"


def _topic_id(number: int) -> TopicId:
    return TopicId(UUID(int=1 + number))


def _image(partitions: int) -> MetadataImage:
    topics = {}
    for number in range(-(-partitions // PARTITIONS_OF_TOPIC)):
        count = min(PARTITIONS_OF_TOPIC, partitions - number * PARTITIONS_OF_TOPIC)
        states = {each: led_state(each) for each in range(count)}
        topics[_topic_id(number)] = TopicImage(topic=_topic(number), topic_id=_topic_id(number), partitions=states)
    return MetadataImage(topics=topics)


def _held(directory: Path, image: MetadataImage) -> Partitions:
    partitions = Partitions(lambda _: True)
    for topic in image.topics.values():
        for number in topic.partitions:
            partitions.add(led_partition(directory, topic.topic, number, topic.topic_id))
    return partitions


async def _ends(wanted: Sequence[TopicPartition]) -> Iterable[tuple[TopicPartition, Offset]]:
    return [(each, Offset(9)) for each in wanted]


class _Loader:
    """The metadata of a broker that has all of it."""

    published_index = committed_index_known = applied = 1
    applying_s = 0.0

    def behind_s(self) -> float:
        return 0.0


def _used(times: CallTimes) -> CallTimes:
    """Return the times of as many APIs as there are, each of which was called."""
    for key in ApiKey:
        times.of(key.name).count = 1
        times.of(key.name).answered(0.001)
    return times


async def built_parts(directory: Path, partitions: int, groups: int) -> NodeParts:
    image = _image(partitions)
    held, coordinators = _held(directory, image), _Groups(_offsets(groups))
    lags = GroupLags(cast(GroupCoordinators, coordinators), _ends, lambda: image, SystemClock())
    await lags.look()
    nothing = SimpleNamespace(all_committed=lambda: ())
    fetches = SimpleNamespace(sessions=(), waiting=SimpleNamespace(held=0))
    broker = SimpleNamespace(
        logs=SimpleNamespace(
            partitions=held,
            directories=SimpleNamespace(offline={}, online=[]),
            disk_space=SimpleNamespace(free_bytes=dict),
            syncer=LogSyncer([]),
            maintenance=SimpleNamespace(counts=UpkeepCounts()),
        ),
        metadata=SimpleNamespace(image=lambda: image, loader=_Loader()),
        replicas=SimpleNamespace(
            throttles=ReplicationThrottles(ReplicationConfig(), BrokerId(1), SystemClock().monotonic_ms),
            publisher=SimpleNamespace(fetchers=SimpleNamespace(silences_s=dict)),
        ),
        waiting_appends=WaitingAppends(),
        coordinators=SimpleNamespace(
            groups=coordinators, lags=lags, transactions=SimpleNamespace(coordinators=nothing)
        ),
        apis=SimpleNamespace(
            throttling=Throttling(SystemClock().monotonic_ms),
            call_times=_used(CallTimes()),
            client_metrics=ClientMetrics(
                lambda: image, ThreadPoolExecutor(1), SystemClock().monotonic_ms, 1 << 20, is_received=False
            ),
            audit=SimpleNamespace(note=None),
            fetches=fetches,
            logins=SimpleNamespace(counts={}),
        ),
    )
    config = SimpleNamespace(
        metrics=SimpleNamespace(per_partition=True), transactions=SimpleNamespace(timeout_max_ms=900_000)
    )
    return NodeParts(config=cast(NodeConfig, config), loop=LoopFacts(), broker=cast(BrokerNode, broker))
