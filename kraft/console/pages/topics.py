"""The list of topics, and one topic with its partitions: with the figures of both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kraft.client import TopicPartition
from kraft.console.asking import CLIENT_MS, Asked, Paged, Panel, Wanted, wanted, with_rows, without_value
from kraft.console.pages.topic_figures import (
    Offsets,
    Partition,
    Shape,
    TopicRecords,
    leader_of,
    offsets_of,
    records_by_topic,
    shape_of,
    sizes_of,
    without_replicas_on,
)
from kraft.health.facts import PROBE_MS
from kraft.model.ids import uuid_to_text

if TYPE_CHECKING:
    from kraft.client import Admin, KraftError
    from kraft.metadata.described_topics import TopicDescription
    from kraft.wire.schema.describe_log_dirs import DescribeLogDirsResult

SORTS: Final = ("name", "partitions", "under-replicated", "spread", "skew", "leader-skew")

PLACES_AT_ONCE_MAX: Final = 500
"""Partitions of the rows of a page whose offsets and sizes are a part of it; those of more are asked for afterwards."""

PLACES_MAX: Final = 5_000
"""Partitions of the rows of a page whose offsets and sizes are asked for; with more, the page would be slow."""


_TOO_MANY: Final = (
    f"there are more than {PLACES_MAX:,} partitions here, whose offsets and sizes would take too long: search for fewer"
)

T = TypeVar("T")

Directories: TypeAlias = Mapping[int, "Sequence[DescribeLogDirsResult] | KraftError"]


class TopicRow(Struct, frozen=True, kw_only=True):
    topic: str
    internal: bool
    shape: Shape


class Topics(Struct, frozen=True, kw_only=True):
    topics: Panel[Paged[TopicRow]]
    records: Panel[dict[str, TopicRecords]] | None
    """By topic, of the rows that are shown. None: not asked for yet, as there are many."""

    sizes: Panel[dict[str, int]] | None
    """Bytes of all replicas of a topic, likewise."""

    silent: list[int] = []
    """Brokers that did not answer for the sizes of their replicas, which are not counted."""

    @property
    def status(self) -> int:
        return self.topics.status


class PartitionRow(Struct, frozen=True, kw_only=True):
    partition: int
    leader: int | None
    is_preferred: bool
    """Whether the leader is the first of the replicas."""

    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


class TopicFacts(Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: str
    internal: bool
    shape: Shape
    cluster_brokers: int
    configs: dict[str, str]
    """Those that are set on the topic itself."""

    partitions: Paged[PartitionRow]


class Topic(Struct, frozen=True, kw_only=True):
    topic: Panel[TopicFacts]
    offsets: Panel[dict[int, Offsets]]
    """By partition, of those that are shown."""

    records: Panel[TopicRecords]
    sizes: Panel[dict[int, int]]
    """Bytes of all replicas of a partition, likewise."""

    silent: list[int] = []
    """Brokers that did not answer for the sizes of their replicas, which are not counted."""

    size_bytes: int | None = None
    """Of the whole topic; None: not known."""

    @property
    def status(self) -> int:
        return self.topic.status


class _Listed(Struct, frozen=True, kw_only=True):
    page: Paged[TopicRow]
    partitions: Mapping[str, Sequence[Partition]]
    """Those of the rows, by topic."""

    @property
    def places(self) -> list[TopicPartition]:
        return [TopicPartition(topic, each.partition_index) for topic, of in self.partitions.items() for each in of]

    def shown(self, silent: Sequence[int]) -> Paged[TopicRow]:
        """Return the rows, where the replicas on these brokers count among those that are away."""
        rows = [
            replace(each, shape=without_replicas_on(each.shape, self.partitions[each.topic], silent))
            for each in self.page.rows
        ]
        return with_rows(self.page, rows)


async def topics(asked: Asked) -> Topics:
    listed = await asked.panel(lambda: _listed(asked.admin, wanted(asked.query, SORTS)))
    found = listed.value
    if found is None:
        unknown = without_value(listed)
        return Topics(topics=unknown, records=unknown, sizes=unknown)
    places = found.places
    if len(places) > PLACES_MAX:
        return Topics(topics=Panel(value=found.page), records=Panel(problem=_TOO_MANY), sizes=Panel(problem=_TOO_MANY))
    if len(places) > PLACES_AT_ONCE_MAX and asked.query.get("more") != "true":
        return Topics(topics=Panel(value=found.page), records=None, sizes=None)
    records, sizes = await asyncio.gather(
        asked.panel(lambda: _records(asked, offsets_of(asked.admin, places))),
        asked.panel(lambda: sizes_of(_directories(asked.admin, places))),
    )
    if sizes.value is None:
        return Topics(topics=Panel(value=found.page), records=records, sizes=without_value(sizes))
    silent = sizes.value.silent
    by_topic = Panel(value=sizes.value.by_topic)
    return Topics(topics=Panel(value=found.shown(silent)), records=records, sizes=by_topic, silent=silent)


def _listed(admin: Admin, asked_for: Wanted) -> _Listed:
    """Return the rows of the page: the metadata of all topics is one answer, and has what their order is by."""
    cluster = admin.describe_cluster(timeout_ms=CLIENT_MS)
    partitions: Mapping[str, Sequence[Partition]] = {each.name or "": each.partitions for each in cluster.topics}
    internal = {each.name for each in cluster.topics if each.is_internal}
    brokers = len(cluster.brokers)
    found = [each for each in partitions if asked_for.matches(each)]
    names: Paged[str]
    if asked_for.sort == "name":
        names = asked_for.shown(found, len(partitions), str)
    else:
        measure = _measure(asked_for.sort)
        keys = {each: (measure(shape_of(partitions[each], brokers)), each) for each in found}
        names = asked_for.shown(found, len(partitions), keys.__getitem__)
    rows = [
        TopicRow(topic=each, internal=each in internal, shape=shape_of(partitions[each], brokers))
        for each in names.rows
    ]
    return _Listed(page=with_rows(names, rows), partitions={each: partitions[each] for each in names.rows})


def _measure(sort: str) -> Callable[[Shape], int]:
    measures: dict[str, Callable[[Shape], int]] = {
        "partitions": lambda each: each.partitions,
        "under-replicated": lambda each: each.under_replicated,
        "spread": lambda each: each.spread_percent,
        "skew": lambda each: each.skew_percent,
        "leader-skew": lambda each: each.leader_skew_percent,
    }
    return measures[sort]


def _records(asked: Asked, offsets: Mapping[TopicPartition, Offsets]) -> dict[str, TopicRecords]:
    return records_by_topic(offsets, asked.state.growth, asked.cluster.name, time.monotonic_ns() // 1_000_000)


def _directories(admin: Admin, places: Sequence[TopicPartition]) -> Directories:
    return admin.describe_log_directories(partitions=places, timeout_ms=PROBE_MS)


async def topic(asked: Asked) -> Topic:
    name, shown = asked.path["topic"], wanted(asked.query, ("partition",))

    def facts() -> tuple[TopicFacts, Sequence[Partition]]:
        description = asked.admin.describe_topics([name], timeout_ms=CLIENT_MS // 2)[0]
        brokers = asked.admin.describe_cluster(topics=(), timeout_ms=CLIENT_MS // 2).brokers
        return facts_of(description, len(brokers), shown), description.metadata.partitions

    described = await asked.panel(facts)
    if described.value is None:
        unknown = without_value(described)
        return Topic(topic=unknown, offsets=Panel(value={}), records=Panel(value=None), sizes=Panel(value={}))
    found, partitions = described.value
    is_whole = found.shape.partitions <= PLACES_MAX
    numbers = [each.partition for each in found.partitions.rows]
    places = [TopicPartition(name, each) for each in (range(found.shape.partitions) if is_whole else numbers)]
    offsets, sizes = await asyncio.gather(
        asked.panel(lambda: offsets_of(asked.admin, places)),
        asked.panel(lambda: sizes_of(_directories(asked.admin, places))),
    )
    silent = sizes.value.silent if sizes.value else []
    by_partition = without_value(sizes) if sizes.value is None else Panel(value=sizes.value.by_partition)
    return Topic(
        topic=Panel(value=replace(found, shape=without_replicas_on(found.shape, partitions, silent))),
        offsets=_of_numbers(offsets, numbers),
        records=_of_all(asked, name, offsets if is_whole else Panel(problem=_TOO_MANY)),
        sizes=_of_numbers(by_partition, numbers),
        silent=silent,
        size_bytes=sum(sizes.value.by_partition.values()) if is_whole and sizes.value else None,
    )


def _of_numbers(found: Panel[dict[TopicPartition, T]], numbers: Sequence[int]) -> Panel[dict[int, T]]:
    """Return what was found of the partitions that are shown."""
    if found.value is None:
        return without_value(found)
    by_number = {each.partition: value for each, value in found.value.items()}
    return Panel(value={each: by_number[each] for each in numbers if each in by_number})


def _of_all(asked: Asked, topic: str, offsets: Panel[dict[TopicPartition, Offsets]]) -> Panel[TopicRecords]:
    if offsets.value is None:
        return without_value(offsets)
    return Panel(value=_records(asked, offsets.value).get(topic))


def facts_of(description: TopicDescription, cluster_brokers: int, shown: Wanted) -> TopicFacts:
    rows = [
        PartitionRow(
            partition=each.partition_index,
            leader=leader_of(each),
            is_preferred=leader_of(each) in each.replica_nodes[:1],
            replicas=list(each.replica_nodes),
            in_sync=list(each.isr_nodes),
            offline=list(each.offline_replicas),
        )
        for each in sorted(description.metadata.partitions, key=lambda each: each.partition_index)
    ]
    return TopicFacts(
        topic=description.topic,
        topic_id=uuid_to_text(description.metadata.topic_id),
        internal=description.metadata.is_internal,
        shape=shape_of(description.metadata.partitions, cluster_brokers),
        cluster_brokers=cluster_brokers,
        configs=dict(sorted(description.configs.items())),
        partitions=shown.shown(rows, len(rows)),
    )
