"""A broker's parts with many partitions and groups, as metrics read them: real logs and offsets, without a process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from kraft.model.ids import Offset, TopicId, TopicPartition
from kraft.runtime.clock import SystemClock
from kraft.server.broker.broker_node import BrokerNode
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.group_coordinators import GroupCoordinators, GroupsView
from kraft.server.coordinator.group_lags import GroupLags
from kraft.server.loop.throttling import Throttling
from kraft.server.loop.watch import LoopFacts
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.replica.log_syncer import LogSyncer
from kraft.server.replica.partitions import Partitions
from kraft.server.upkeep.counts import UpkeepCounts

PARTITIONS_OF_TOPIC: Final = 100
OFFSETS_OF_GROUP: Final = 10


class _Groups:
    """The coordinator's committed state, as the lags of its groups read it."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.members_bytes = 0

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
            directories=SimpleNamespace(offline={}),
            syncer=LogSyncer([]),
            maintenance=SimpleNamespace(counts=UpkeepCounts()),
        ),
        metadata=SimpleNamespace(image=lambda: image, published_index=lambda: 0),
        coordinators=SimpleNamespace(
            groups=coordinators, lags=lags, transactions=SimpleNamespace(coordinators=nothing)
        ),
        apis=SimpleNamespace(
            throttling=Throttling(SystemClock().monotonic_ms),
            audit=SimpleNamespace(note=None),
            fetches=fetches,
            logins=SimpleNamespace(counts={}),
        ),
    )
    config = SimpleNamespace(metrics=SimpleNamespace(per_partition=True))
    return NodeParts(config=cast(NodeConfig, config), loop=LoopFacts(), broker=cast(BrokerNode, broker))
