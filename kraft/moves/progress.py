"""How far moves are, and throttles whose moves are over. No I/O but `gather`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.throttled_replicas import REPLICA_LISTS
from kraft.moves.throttled_replicas import EVERY_REPLICA, is_throttled, removal

if TYPE_CHECKING:
    from kraft.client import Admin, OngoingPartitionReassignment
    from kraft.metadata.described_topics import TopicDescription
    from kraft.model.brokers import BrokerDescription
    from kraft.wire.schema.describe_log_dirs import DescribeLogDirsResult
    from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition

Outcomes = Mapping[int, "Sequence[DescribeLogDirsResult] | KraftError"]
"""Log directories of each broker, or why it did not answer."""


class Held(Struct, frozen=True, kw_only=True):
    """A replica in a log directory. `behind` is in records, after what the broker knows as committed."""

    log_dir: str
    size_bytes: int
    behind: int
    is_future: bool


class Copy(Struct, frozen=True, kw_only=True):
    """A replica that a move adds. `percent` is by size; None if the broker does not say."""

    broker: int
    size_bytes: int | None
    behind: int | None
    in_sync: bool
    percent: int | None


class Move(Struct, frozen=True, kw_only=True):
    """A move under way. `size_bytes` is that of the largest replica that is not being added."""

    topic: str
    partition: int
    replicas: list[int]
    """After the move, preferred leader first."""

    removing: list[int]
    copies: list[Copy]
    size_bytes: int | None
    is_throttled: bool
    waits_for: str
    """Why it cannot go on now; empty if it can."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def to_copy_bytes(self) -> int:
        return (self.size_bytes or 0) * len(self.copies)

    @property
    def copied_bytes(self) -> int:
        return sum(
            (self.size_bytes or 0) if each.in_sync else min(each.size_bytes or 0, self.size_bytes or 0)
            for each in self.copies
        )


class Progress(Struct, frozen=True, kw_only=True):
    """Moves under way, and brokers that did not say how much they hold."""

    moves: list[Move]
    silent: list[int]


def gather(admin: Admin, timeout_ms: int) -> Progress:
    """Ask the cluster."""
    under_way = admin.list_partition_reassignments(timeout_ms=timeout_ms)
    if not under_way:
        return Progress(moves=[], silent=[])
    brokers = admin.describe_brokers(timeout_ms=timeout_ms)
    names = admin.find_topics(sorted({each.topic for each in under_way}))
    topics = admin.describe_topics(names, config_names=REPLICA_LISTS, timeout_ms=timeout_ms) if names else []
    outcomes = admin.describe_log_directories(partitions=sorted(under_way), timeout_ms=timeout_ms)
    return progress_of(under_way, topics, outcomes, brokers)


def progress_of(
    under_way: Mapping[TopicPartition, OngoingPartitionReassignment],
    topics: Iterable[TopicDescription],
    outcomes: Outcomes,
    brokers: Iterable[BrokerDescription],
) -> Progress:
    """Return the moves that are not complete in the descriptions either."""
    held = held_by(outcomes)
    in_service = {each.broker_id for each in brokers if not each.fenced}
    configs = {each.topic: each.configs for each in topics}
    lists = removal(configs, set()).kept
    states = {
        TopicPartition(each.topic, state.partition_index): state
        for each in topics
        for state in each.metadata.partitions
    }
    return Progress(
        moves=[
            _move(each, ongoing, states[each], held, in_service, is_throttled=is_throttled(each, lists))
            for each, ongoing in sorted(under_way.items())
            if each in states
        ],
        silent=sorted(broker for broker, outcome in outcomes.items() if isinstance(outcome, KraftError)),
    )


def _move(
    partition: TopicPartition,
    ongoing: OngoingPartitionReassignment,
    state: DescribeTopicPartitionsResponsePartition,
    held: Mapping[TopicPartition, Mapping[int, Held]],
    in_service: set[int],
    *,
    is_throttled: bool,
) -> Move:
    places = held.get(partition, {})
    adding, removing = ongoing.adding_replicas, ongoing.removing_replicas
    old = [each.size_bytes for broker, each in places.items() if broker not in adding]
    size_bytes = max(old, default=None)
    return Move(
        topic=partition.topic,
        partition=partition.partition,
        replicas=[each for each in ongoing.replicas if each not in removing],
        removing=list(removing),
        copies=[_copy(each, places.get(each), size_bytes, in_sync=each in state.isr_nodes) for each in adding],
        size_bytes=size_bytes,
        is_throttled=is_throttled,
        waits_for=_waits_for(state, adding, in_service),
    )


def _copy(broker: int, held: Held | None, of_bytes: int | None, *, in_sync: bool) -> Copy:
    size_bytes = None if held is None else held.size_bytes
    if in_sync:
        percent = 100
    elif size_bytes is None or of_bytes is None:
        percent = None
    else:
        # Only what is in sync is complete: sizes may be equal before.
        percent = min(99, size_bytes * 100 // of_bytes) if of_bytes else 99
    behind = None if held is None else held.behind
    return Copy(broker=broker, size_bytes=size_bytes, behind=behind, in_sync=in_sync, percent=percent)


def _waits_for(state: DescribeTopicPartitionsResponsePartition, adding: Iterable[int], in_service: set[int]) -> str:
    if state.leader_id < 0 or state.leader_id not in in_service:
        return "the partition has no leader to copy from: start its brokers"
    if away := sorted(set(adding) - in_service - set(state.isr_nodes)):
        brokers = ", ".join(map(str, away))
        are = f"broker {brokers} is" if len(away) == 1 else f"brokers {brokers} are"
        return f"{are} not in service: the copy waits; start it, or cancel the move"
    return ""


def held_by(outcomes: Outcomes) -> dict[TopicPartition, dict[int, Held]]:
    """Return the replicas of each partition by broker, without copies between directories of a broker."""
    found: dict[TopicPartition, dict[int, Held]] = {}
    for broker, partition, held in replicas_in(outcomes):
        if not held.is_future:
            found.setdefault(partition, {})[broker] = held
    return found


def replicas_in(outcomes: Outcomes) -> Iterator[tuple[int, TopicPartition, Held]]:
    """Yield each replica with its broker and partition."""
    for broker, outcome in outcomes.items():
        for directory in () if isinstance(outcome, KraftError) else outcome:
            for topic in directory.topics:
                for each in topic.partitions:
                    yield (
                        broker,
                        TopicPartition(topic.name, each.partition_index),
                        Held(
                            log_dir=directory.log_dir,
                            size_bytes=each.partition_size,
                            behind=each.offset_lag,
                            is_future=each.is_future_key,
                        ),
                    )


class Throttled(Struct, frozen=True, kw_only=True):
    """Partitions whose replicas are listed for throttling, although they do not move; and lists for all replicas."""

    over: list[TopicPartition]
    whole_topics: list[str]


def throttled(configs: Mapping[str, Mapping[str, str]], moving: Iterable[TopicPartition]) -> Throttled:
    """Return what is throttled although nothing of it moves, by the configs of topics."""
    over: set[TopicPartition] = set()
    whole = []
    for topic, lists in removal(configs, set()).kept.items():
        entries = [entry for each in lists.values() for entry in each]
        numbers = {entry.partition(":")[0] for entry in entries}
        over.update(TopicPartition(topic, int(each)) for each in numbers if each.isascii() and each.isdigit())
        if EVERY_REPLICA in entries:
            whole.append(topic)
    return Throttled(over=sorted(over.difference(moving)), whole_topics=sorted(whole))
