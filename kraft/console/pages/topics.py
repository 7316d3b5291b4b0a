"""The list of topics, and one topic with its partitions and configs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from kraft.client import ConfigSource, ErrorCode, KraftError, Refusal, TopicPartition
from kraft.console.asking import CLIENT_MS, ROWS_MAX, Asked, Paged, Panel, Wanted, wanted, with_rows
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.metadata.described_topics import TopicDescription
    from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult
    from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition

SORTS: Final = ("name", "partitions", "under-replicated")


class TopicRow(Struct, frozen=True, kw_only=True):
    topic: str
    internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    without_leader: int


class Topics(Struct, frozen=True, kw_only=True):
    topics: Panel[Paged[TopicRow]]

    @property
    def status(self) -> int:
        return self.topics.status


class PartitionRow(Struct, frozen=True, kw_only=True):
    partition: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


class Offsets(Struct, frozen=True, kw_only=True):
    """First and next offset of a partition, or why they are not known."""

    start: int | None
    end: int | None
    problem: str = ""


class ConfigRow(Struct, frozen=True, kw_only=True):
    name: str
    value: str | None
    """None: hidden."""

    source: str
    overridden: bool
    """Whether it is set on the topic itself."""

    help: str


class TopicFacts(Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: str
    internal: bool
    partitions: Paged[PartitionRow]


class Topic(Struct, frozen=True, kw_only=True):
    topic: Panel[TopicFacts]
    offsets: Panel[dict[int, Offsets]]
    """By partition."""

    configs: Panel[list[ConfigRow]]

    @property
    def status(self) -> int:
        return self.topic.status


async def topics(asked: Asked) -> Topics:
    return Topics(topics=await asked.panel(lambda: _listed(asked.admin, wanted(asked.query, SORTS))))


def _listed(admin: Admin, asked_for: Wanted) -> Paged[TopicRow]:
    """Describe only the topics of this page, where they are sorted by name; otherwise all, for their order."""
    names = sorted(admin.list_topics(timeout_ms=CLIENT_MS))
    found = [each for each in names if asked_for.matches(each)]
    if asked_for.sort != "name":
        described = [row_of(each) for each in admin.describe_topics([], timeout_ms=CLIENT_MS)]
        return asked_for.shown(
            [each for each in described if asked_for.matches(each.topic)], len(names), key(asked_for)
        )
    page = asked_for.shown(found, len(names))
    by_name = {each.topic: row_of(each) for each in _described(admin, page.rows)}
    rows = [by_name[each] for each in page.rows if each in by_name]
    return with_rows(page, rows)


def _described(admin: Admin, names: Sequence[str]) -> list[TopicDescription]:
    if not names:
        return []
    try:
        return admin.describe_topics(list(names), timeout_ms=CLIENT_MS)
    except Refusal as refusal:
        if refusal.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        # One was deleted since it was listed: those that are left are found among all.
        return admin.describe_topics([], timeout_ms=CLIENT_MS)


def key(asked_for: Wanted) -> Callable[[TopicRow], object]:
    if asked_for.sort == "partitions":
        return lambda each: (each.partitions, each.topic)
    return lambda each: (each.under_replicated, each.topic)


def row_of(description: TopicDescription) -> TopicRow:
    partitions = description.metadata.partitions
    return TopicRow(
        topic=description.topic,
        internal=description.metadata.is_internal,
        partitions=len(partitions),
        replication_factor=max((len(each.replica_nodes) for each in partitions), default=0),
        under_replicated=sum(len(each.isr_nodes) < len(each.replica_nodes) for each in partitions),
        without_leader=sum(_leader(each) is None for each in partitions),
    )


def _leader(partition: DescribeTopicPartitionsResponsePartition) -> int | None:
    leader = partition.leader_id
    return None if leader < 0 or leader in partition.offline_replicas else leader


async def topic(asked: Asked) -> Topic:
    name, shown = asked.path["topic"], wanted(asked.query, ("partition",))

    def facts() -> TopicFacts:
        return facts_of(asked.admin.describe_topics([name], timeout_ms=CLIENT_MS)[0], shown)

    described, configs = await asyncio.gather(
        asked.panel(facts),
        asked.panel(lambda: configs_of(asked.admin.describe_topic_configs(name, timeout_ms=CLIENT_MS))),
    )
    numbers = [] if described.value is None else [each.partition for each in described.value.partitions.rows]
    offsets = await asked.panel(lambda: offsets_in(asked.admin, name, numbers))
    return Topic(topic=described, offsets=offsets, configs=configs)


def facts_of(description: TopicDescription, shown: Wanted) -> TopicFacts:
    rows = [
        PartitionRow(
            partition=each.partition_index,
            leader=_leader(each),
            replicas=list(each.replica_nodes),
            in_sync=list(each.isr_nodes),
            offline=list(each.offline_replicas),
        )
        for each in sorted(description.metadata.partitions, key=lambda each: each.partition_index)
    ]
    return TopicFacts(
        topic=description.topic,
        topic_id=str(description.metadata.topic_id),
        internal=description.metadata.is_internal,
        partitions=shown.shown(rows, len(rows)),
    )


def offsets_in(admin: Admin, topic: str, numbers: Sequence[int]) -> dict[int, Offsets]:
    """Return first and next offsets; what the leader of a partition does not say is said of that partition."""
    if not numbers:
        return {}
    assert len(numbers) <= ROWS_MAX
    places = [TopicPartition(topic, each) for each in numbers]
    starts = admin.list_offsets(dict.fromkeys(places, EARLIEST_TIMESTAMP), timeout_ms=CLIENT_MS // 2)
    ends = admin.list_offsets(dict.fromkeys(places, LATEST_TIMESTAMP), timeout_ms=CLIENT_MS // 2)
    found = {}
    for place in places:
        start, end = starts[place], ends[place]
        problem = next((str(each) for each in (start, end) if isinstance(each, KraftError)), "")
        found[place.partition] = Offsets(
            start=None if isinstance(start, KraftError) else start.offset,
            end=None if isinstance(end, KraftError) else end.offset,
            problem=problem,
        )
    return found


def configs_of(entries: Sequence[DescribeConfigsResourceResult]) -> list[ConfigRow]:
    """Return the configs, those first that are set on the topic itself."""
    rows = [
        ConfigRow(
            name=each.name,
            value=None if each.is_sensitive else each.value,
            source=_SOURCES.get(each.config_source, "unknown"),
            overridden=each.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG,
            help=each.documentation or "",
        )
        for each in entries
    ]
    return sorted(rows, key=lambda each: (not each.overridden, each.name))


_SOURCES: Final = {
    int(ConfigSource.DYNAMIC_TOPIC_CONFIG): "this topic",
    int(ConfigSource.DYNAMIC_BROKER_CONFIG): "the broker",
    int(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG): "all brokers",
    int(ConfigSource.STATIC_BROKER_CONFIG): "the broker's file",
    int(ConfigSource.DEFAULT_CONFIG): "default",
}
