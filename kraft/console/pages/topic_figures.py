"""The figures of a topic: how its partitions are spread over brokers, what is in them, and how fast it grows.

The formulas of spread and skew are those of CMAK, but for replicas that are not in sync, which count here: a broker
that is away has not made the others skewed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from kraft.client import KraftError, Refusal, TopicPartition
from kraft.console.asking import CLIENT_MS
from kraft.console.growth import Growth, Rate
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from kraft.client import Admin, OffsetAndTimestamp
    from kraft.wire.schema.describe_log_dirs import DescribeLogDirsResult


class Partition(Protocol):
    """A partition, as any of Kafka's messages describes it."""

    @property
    def partition_index(self) -> int: ...
    @property
    def leader_id(self) -> int: ...
    @property
    def replica_nodes(self) -> Sequence[int]: ...
    @property
    def isr_nodes(self) -> Sequence[int]: ...
    @property
    def offline_replicas(self) -> Sequence[int]: ...


class Shape(Struct, frozen=True, kw_only=True):
    """Partitions and replicas of a topic. Percentages are whole numbers, rounded down."""

    partitions: int
    replication_factor: int
    under_replicated: int
    under_replicated_percent: int
    without_leader: int
    brokers: int
    """Those that hold replicas of the topic."""

    spread_percent: int
    """How many of the cluster's brokers hold replicas of the topic."""

    skewed: list[int]
    """Brokers with more replicas than their share, which is rounded up."""

    skew_percent: int
    """How many of the topic's brokers these are."""

    leader_skewed: list[int]
    leader_skew_percent: int
    preferred_leader_percent: int
    """How many partitions are led by their preferred leader."""

    replicas_away: int = 0
    """Replicas on brokers that are not in service, or do not answer, or in directories that failed: nobody tells their
    sizes."""


class Offsets(Struct, frozen=True, kw_only=True):
    """First and next offset of a partition, or why they are not known."""

    start: int | None
    end: int | None
    problem: str = ""


class TopicRecords(Struct, frozen=True, kw_only=True):
    """What is in the logs of a topic's partitions."""

    records: int
    """From first to next offset, which counts what compaction has removed as well."""

    end_sum: int
    """The next offsets of all partitions together: what was ever written."""

    unknown: int
    """Partitions whose offsets are not known; they are not counted."""

    rate: Rate | None
    """None: nobody has looked at the topic within the last minutes."""


def leader_of(partition: Partition) -> int | None:
    leader = partition.leader_id
    return None if leader < 0 or leader in partition.offline_replicas else leader


def shape_of(partitions: Sequence[Partition], cluster_brokers: int) -> Shape:
    """Return the figures of a topic in a cluster of so many brokers."""
    count = len(partitions)
    replicas = Counter(broker for each in partitions for broker in each.replica_nodes)
    leaders = Counter(leader for each in partitions if (leader := leader_of(each)) is not None)
    skewed = _above_share(replicas, replicas.total(), len(replicas))
    leader_skewed = _above_share(leaders, count, len(replicas))
    under_replicated = sum(len(each.isr_nodes) < len(each.replica_nodes) for each in partitions)
    preferred = sum(len(each.replica_nodes) > 0 and leader_of(each) == each.replica_nodes[0] for each in partitions)
    return Shape(
        partitions=count,
        replication_factor=max((len(each.replica_nodes) for each in partitions), default=0),
        under_replicated=under_replicated,
        under_replicated_percent=_percent(under_replicated, count),
        without_leader=count - leaders.total(),
        brokers=len(replicas),
        # Brokers that are away hold replicas, and may not be counted in the cluster.
        spread_percent=min(100, _percent(len(replicas), cluster_brokers)),
        skewed=skewed,
        skew_percent=_percent(len(skewed), len(replicas)),
        leader_skewed=leader_skewed,
        leader_skew_percent=_percent(len(leader_skewed), len(replicas)),
        preferred_leader_percent=_percent(preferred, count),
        replicas_away=sum(len(each.offline_replicas) for each in partitions),
    )


def _above_share(held: Mapping[int, int], all_of_them: int, brokers: int) -> list[int]:
    share = -(-all_of_them // brokers) if brokers else 0
    return sorted(broker for broker, count in held.items() if count > share)


def _percent(part: int, whole: int) -> int:
    return 100 * part // whole if whole else 0


# --- records and bytes -----------------------------------------------------------------------------------------------


def offsets_of(admin: Admin, places: Iterable[TopicPartition]) -> dict[TopicPartition, Offsets]:
    """Return first and next offsets; what the leader of a partition does not say is said of that partition."""
    asked = list(places)
    if not asked:
        return {}
    starts = admin.list_offsets(dict.fromkeys(asked, EARLIEST_TIMESTAMP), timeout_ms=CLIENT_MS // 2)
    # A leader that is silent is waited for once.
    known = [each for each in asked if not isinstance(starts[each], KraftError)]
    ends = admin.list_offsets(dict.fromkeys(known, LATEST_TIMESTAMP), timeout_ms=CLIENT_MS // 2) if known else {}
    return {each: _offsets(starts[each], ends.get(each, starts[each])) for each in asked}


def _offsets(start: OffsetAndTimestamp | KraftError, end: OffsetAndTimestamp | KraftError) -> Offsets:
    problem = next((str(each) for each in (start, end) if isinstance(each, KraftError)), "")
    return Offsets(
        start=None if isinstance(start, KraftError) else start.offset,
        end=None if isinstance(end, KraftError) else end.offset,
        problem=problem,
    )


def records_by_topic(
    offsets: Mapping[TopicPartition, Offsets], growth: Growth, cluster: str, now_ms: int
) -> dict[str, TopicRecords]:
    """Return what is in the topics whose partitions are all among these."""
    by_topic: dict[str, list[Offsets]] = {}
    for place, each in offsets.items():
        by_topic.setdefault(place.topic, []).append(each)
    return {topic: _records(each, growth, (cluster, topic), now_ms) for topic, each in by_topic.items()}


def _records(offsets: Sequence[Offsets], growth: Growth, where: tuple[str, str], now_ms: int) -> TopicRecords:
    known = [(each.start, each.end) for each in offsets if each.start is not None and each.end is not None]
    end_sum = sum(end for _, end in known)
    is_whole = len(known) == len(offsets)
    return TopicRecords(
        records=sum(max(0, end - start) for start, end in known),
        end_sum=end_sum,
        unknown=len(offsets) - len(known),
        rate=growth.seen((*where, len(known)), end_sum, now_ms) if is_whole else None,
    )


class Sizes(Struct, frozen=True, kw_only=True):
    """Bytes of the logs of partitions, of all replicas on the brokers that answered."""

    by_partition: dict[TopicPartition, int]
    silent: list[int]
    """Brokers that did not answer."""

    @property
    def by_topic(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for place, size in self.by_partition.items():
            found[place.topic] += size
        return dict(found)


def sizes_of(outcomes: Mapping[int, Sequence[DescribeLogDirsResult] | KraftError]) -> Sizes:
    """Return what brokers say of their log directories. Raises the error if one refuses, or none answers."""
    found: Counter[TopicPartition] = Counter()
    silent = []
    for broker_id, outcome in sorted(outcomes.items()):
        if isinstance(outcome, KraftError):
            silent.append(broker_id)
            if len(silent) == len(outcomes) or isinstance(outcome, Refusal):
                raise outcome
            continue
        for topic in (each for directory in outcome for each in directory.topics):
            for each in topic.partitions:
                found[TopicPartition(topic.name, each.partition_index)] += each.partition_size
    return Sizes(by_partition=found, silent=silent)


def without_replicas_on(shape: Shape, partitions: Sequence[Partition], silent: Sequence[int]) -> Shape:
    """Return the shape of a topic with the replicas on these brokers counted among those that are away."""
    more = sum(broker in silent for each in partitions for broker in {*each.replica_nodes} - {*each.offline_replicas})
    return replace(shape, replicas_away=shape.replicas_away + more)
