"""Transactions: InitProducerId with transactional ids, partitions and offsets, ends, markers, and what readers see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.model.errors import ErrorCode
from kraft.wire.schema.add_offsets_to_txn import AddOffsetsToTxnRequest
from kraft.wire.schema.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.wire.schema.describe_producers import DescribeProducersRequest, TopicRequest
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest
from kraft.wire.schema.end_txn import EndTxnRequest
from kraft.wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.wire.schema.list_transactions import ListTransactionsRequest
from kraft.wire.schema.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kraft.wire.schema.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.end_to_end.kafka.differences.group_requests import wait_coordinated
from tests.end_to_end.kafka.differences.peer import Peer
from tests.end_to_end.kafka.differences.produce_scenarios import produce
from tests.support.log.transactional_log import transactional

_NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_TIMEOUT_MS: Final = 60_000
COMMITTED: Final = 1


class Producer(NamedTuple):
    producer_id: int
    epoch: int


NOBODY: Final = Producer(-1, -1)


def _init(
    transactional_id: str, timeout_ms: int = _TIMEOUT_MS, producer: Producer = NOBODY, **fields: bool
) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        **fields,
    )


def ready(peer: Peer, transactional_id: str, version: int = 3, timeout_ms: int = _TIMEOUT_MS) -> Producer:
    """Return the identity of a new producer, once there is a coordinator and no transaction."""
    found = FindCoordinatorRequest(key_type=1, coordinator_keys=(transactional_id,))
    peer.until(found, 4, lambda reply: reply.coordinators[0].error_code not in _NOT_READY)
    given = peer.until(_init(transactional_id, timeout_ms), version, lambda reply: reply.error_code not in _NOT_READY)
    return Producer(given.producer_id, given.producer_epoch)


def add_partitions(transactional_id: str, producer: Producer, **topics: Iterable[int]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=tuple(
            AddPartitionsToTxnTopic(name=name.replace("_", "-"), partitions=tuple(numbers))
            for name, numbers in topics.items()
        ),
    )


def _end(transactional_id: str, producer: Producer, committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=committed,
    )


def _wait_ended(peer: Peer, transactional_id: str) -> None:
    described = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    peer.until(described, 0, lambda reply: not reply.transaction_states[0].transaction_state.startswith("Prepare"))


def _bumped(producer: Producer, by: int = 1) -> Producer:
    return producer._replace(epoch=producer.epoch + by)


def _sorted_partitions(answer: Any) -> Any:
    for topic in answer["topics"]:
        topic["partitions"].sort(key=lambda each: each["partition_index"])
    return answer


def _sorted_states(answer: Any) -> Any:
    for state in answer["transaction_states"]:
        for topic in state["topics"]:
            topic["partitions"].sort()
    return answer


def _sorted_results(answer: Any) -> Any:
    """Topics and partitions in their order: a broker's maps have another one."""
    for topic in answer.get("results_by_topic_v3_and_below", []):
        topic["results_by_partition"].sort(key=lambda each: each["partition_index"])
    answer.get("results_by_topic_v3_and_below", []).sort(key=lambda each: each["name"])
    return answer


def init_transactional_producers(peer: Peer) -> None:
    for version in range(6):
        ready(peer, f"init-{version}")
        peer.ask(f"v{version} next epoch", _init(f"init-{version}"), version)
        for what, timeout_ms in (("0", 0), ("-1", -1), ("too long", 900_001)):
            peer.ask(f"v{version} timeout {what}", _init(f"init-{version}", timeout_ms), version)
        peer.ask(f"v{version} empty id", _init(""), version)
    for version in range(3, 6):
        name = f"init-{version}"
        current = ready(peer, name)
        for what, producer in (
            ("same", current),
            ("retry", current),
            ("late", _bumped(current, -1)),
            ("future", _bumped(current, 5)),
            ("other id", Producer(1 << 40, 0)),
            ("id alone", current._replace(epoch=-1)),
            ("epoch alone", current._replace(producer_id=-1)),
        ):
            peer.ask(f"v{version} {what}", _init(name, producer=producer), version)
        peer.ask(f"v{version} of an unknown id", _init(f"new-{version}", producer=Producer(77, 3)), version)


def _partitions(peer: Peer, version: int) -> None:
    name = f"adds-{version}"
    producer = ready(peer, name)

    def ask(what: str, transactional_id: str, producer: Producer, **topics: Iterable[int]) -> None:
        request = add_partitions(transactional_id, producer, **topics)
        peer.ask(f"v{version} {what}", request, version, keep=_sorted_results)

    ask("none", name, producer)
    ask("one", name, producer, part_of=(0,))
    ask("again and another", name, producer, part_of=(0, 2))
    ask("twice", name, producer, part_of=(1, 1))
    ask("unknown beside a known one", name, producer, part_of=(0, 9), nowhere=(0,))
    ask("old epoch", name, _bumped(producer, -1), part_of=(0,))
    ask("future epoch", name, _bumped(producer), part_of=(0,))
    ask("other producer id", name, producer._replace(producer_id=1 << 40), part_of=(0,))
    ask("unknown id", "nobody", producer, part_of=(0,))
    ask("empty id", "", producer, part_of=(0,))
    peer.call(_end(name, producer), 3)
    _wait_ended(peer, name)


def partitions_of_transactions(peer: Peer) -> None:
    peer.create_topic("part-of", 3)
    for version in range(4):
        _partitions(peer, version)


def _offsets(peer: Peer, version: int) -> None:
    name = f"offsets-{version}"
    producer = ready(peer, name)

    def ask(what: str, transactional_id: str, producer: Producer, group: str = "reader") -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        peer.ask(f"v{version} {what}", request, version)

    ask("first", name, producer)
    ask("again", name, producer)
    ask("old epoch", name, _bumped(producer, -1))
    ask("other producer id", name, producer._replace(producer_id=1 << 40))
    ask("unknown id", "nobody", producer)
    ask("empty id", "", producer)
    ask("empty group", name, producer, "")
    peer.call(_end(name, producer), 3)
    _wait_ended(peer, name)


def _commits(peer: Peer, version: int) -> None:
    name = f"commits-{version}"
    producer = ready(peer, name)

    def commit(what: str, producer: Producer, *numbers: int, topic: str = "transformed", **fields: Any) -> None:
        partitions = tuple(
            TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=5, committed_metadata="")
            for each in numbers or (0,)
        )
        request = TxnOffsetCommitRequest(
            **{
                "transactional_id": name,
                "group_id": "reader",
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "topics": (TxnOffsetCommitRequestTopic(name=topic, partitions=partitions),),
                **fields,
            }
        )
        peer.ask(f"v{version} commit {what}", request, version, keep=_sorted_partitions)

    if version < 5:
        commit("without the group", producer)
        added = AddOffsetsToTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="reader",
        )
        peer.call(added, 3)
    commit("first", producer)
    commit("two", producer, 0, 1)
    commit("unknown partition", producer, 0, 9)
    commit("unknown topic", producer, topic="nowhere")
    commit("old epoch", _bumped(producer, -1))
    commit("no producer", Producer(-1, -1))
    commit("empty group", producer, group_id="")
    if version >= 3:
        commit("unknown member", producer, member_id="m", generation_id=1)
    peer.call(_end(name, producer), 3)
    _wait_ended(peer, name)


def offsets_of_transactions(peer: Peer) -> None:
    peer.create_topic("transformed", 2)
    wait_coordinated(peer, "reader")
    for version in range(5):
        _offsets(peer, version)
    for version in range(6):
        _commits(peer, version)


def _ends(peer: Peer, version: int) -> None:
    name = f"ends-{version}"
    producer = ready(peer, name)

    def ask(what: str, producer: Producer, committed: bool = True, transactional_id: str = name) -> None:
        peer.ask(f"v{version} {what}", _end(transactional_id, producer, committed), version)
        if transactional_id == name:
            _wait_ended(peer, name)

    ask("commit of nothing", producer)
    if version < 5:
        ask("abort of nothing", producer, committed=False)
    for committed in (True, False):
        what = "commit" if committed else "abort"
        peer.call(add_partitions(name, producer, ended=(0,)), 3)
        ask(f"{what} by an old epoch", _bumped(producer, -1), committed)
        ask(f"{what} by a future epoch", _bumped(producer), committed)
        ask(f"{what} by another producer id", producer._replace(producer_id=1 << 40), committed)
        ask(what, producer, committed)
        ask(f"{what}, again", producer, committed)
        ask(f"{what}, then the other", producer, not committed)
        producer = _bumped(producer) if version >= 5 else producer
    ask("unknown id", producer, transactional_id="nobody")
    ask("empty id", producer, transactional_id="")


def ends_of_transactions(peer: Peer) -> None:
    peer.create_topic("ended")
    for version in range(6):
        _ends(peer, version)


def _records(peer: Peer, version: int) -> None:
    topic = f"written-{version}"
    topic_id = peer.create_topic(topic)
    name = f"writes-{version}"
    producer = ready(peer, name)
    bumps = version >= 12
    sequence = 0

    def send(what: str, value: str, at: int, by: Producer, transactional_id: str | None = name) -> None:
        records = transactional(by.producer_id, at, value, epoch=by.epoch)
        request = produce(version, topic, topic_id, records, transactional_id=transactional_id)
        peer.ask(f"v{version} {what}", request, version)

    def look(what: str) -> None:
        _look(peer, f"v{version} {what}", topic, topic_id)

    if not bumps:
        send("not added", "x", 0, producer)
        producer = ready(peer, name)
        peer.call(add_partitions(name, producer, **{topic: (0,)}), 3)
    send("first", "a", 0, producer)
    send("second", "b", 1, producer)
    send("gap", "x", 9, producer)
    send("duplicate", "b", 1, producer)
    send("other transactional id", "x", 0, Producer(producer.producer_id + 500, 0))
    look("open")
    peer.call(_end(name, producer), 5 if bumps else 3)
    _wait_ended(peer, name)
    look("committed")
    sequence = 2
    if bumps:
        producer, sequence = _bumped(producer), 0
    else:
        peer.call(add_partitions(name, producer, **{topic: (0,)}), 3)
    send("of the next", "c", sequence, producer)
    peer.call(_end(name, producer, committed=False), 5 if bumps else 3)
    _wait_ended(peer, name)
    look("aborted")
    send("after the end", "x", sequence + 1, producer)
    send("fenced", "x", sequence + 1, _bumped(producer, -1))
    send("no transactional id", "x", 0, Producer(producer.producer_id + 600, 0), None)


def records_of_transactions(peer: Peer) -> None:
    for version in (9, 11, 12):
        _records(peer, version)


def _look(peer: Peer, label: str, topic: str, topic_id: UUID) -> None:
    """Ask what consumers, and operators, see."""
    for isolation in (0, 1):
        fetch = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=isolation,
            topics=(
                FetchTopic(
                    topic=topic,
                    partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),),
                ),
            ),
        )
        peer.ask(f"{label}: fetched at isolation {isolation}", fetch, 11)
        for at in (-1, -2, 1_000):
            wanted = (ListOffsetsPartition(partition_index=0, timestamp=at),)
            offsets = ListOffsetsRequest(
                replica_id=-1, isolation_level=isolation, topics=(ListOffsetsTopic(name=topic, partitions=wanted),)
            )
            peer.ask(f"{label}: offset of {at} at isolation {isolation}", offsets, 7)
    described = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(0,)),))
    peer.ask(f"{label}: producers", described, 0)


def _markers(peer: Peer, version: int, topic_id: UUID, producer: Producer) -> None:
    def ask(what: str, by: Producer, *numbers: int, coordinator_epoch: int = 0, topic: str = "marked") -> None:
        markers = (
            WritableTxnMarker(
                producer_id=by.producer_id,
                producer_epoch=by.epoch,
                transaction_result=False,
                topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=numbers),),
                coordinator_epoch=coordinator_epoch,
            ),
        )
        peer.ask(f"v{version} {what}", WriteTxnMarkersRequest(markers=markers), version)

    peer.call(add_partitions("marks", producer, marked=(0,)), 3)
    records = transactional(producer.producer_id, version - 1, "a", epoch=producer.epoch)
    peer.call(produce(9, "marked", topic_id, records, transactional_id="marks"), 9)
    ask("old epoch", _bumped(producer, -1), 0)
    ask("negative epoch", producer._replace(epoch=-1), 0)
    ask("negative producer id", producer._replace(producer_id=-1), 0)
    ask("abort", producer, 0, coordinator_epoch=version + 2)
    ask("again", producer, 0, coordinator_epoch=version + 2)
    ask("old coordinator", producer, 0, coordinator_epoch=version)
    ask("without records", producer, 1, coordinator_epoch=version + 2)
    ask("unknown partition", producer, 9)
    ask("unknown topic", producer, 0, topic="nowhere")
    ask("none", producer)
    _look(peer, f"v{version}", "marked", topic_id)


def markers_of_others(peer: Peer) -> None:
    topic_id = peer.create_topic("marked", 2)
    ready(peer, "marks")
    producer = ready(peer, "marks")
    for version in (1, 2):
        _markers(peer, version, topic_id, producer)


def lists_of_transactions(peer: Peer) -> None:
    peer.create_topic("listed", 2)
    producers = {name: ready(peer, name) for name in ("listed-a", "listed-b", "listed-c")}
    peer.call(add_partitions("listed-a", producers["listed-a"], listed=(0, 1)), 3)
    peer.call(add_partitions("listed-b", producers["listed-b"], listed=(0,)), 3)
    peer.call(_end("listed-b", producers["listed-b"]), 3)
    _wait_ended(peer, "listed-b")

    def listed(answer: Any) -> Any:
        answer["transaction_states"] = sorted(
            (each for each in answer["transaction_states"] if each["transactional_id"].startswith("listed")),
            key=lambda each: each["transactional_id"],
        )
        answer["unknown_state_filters"].sort()
        return answer

    def ask(what: str, version: int, *states: str, producer_ids: tuple[int, ...] = (), **fields: Any) -> None:
        request = ListTransactionsRequest(state_filters=states, producer_id_filters=producer_ids, **fields)
        peer.ask(f"v{version} {what}", request, version, keep=listed)

    for version in range(3):
        ask("all", version)
        ask("ongoing", version, "Ongoing")
        ask("two states", version, "Empty", "CompleteCommit")
        ask("unknown states", version, "ongoing", "Asleep", "Ongoing")
        ask("dead", version, "Dead", "PrepareEpochFence")
        ask("producer", version, producer_ids=(producers["listed-b"].producer_id, 1 << 40))
    for version in (1, 2):
        ask("long", version, duration_filter=3_600_000)
        ask("any duration", version, duration_filter=0)
        ask("negative", version, duration_filter=-7)
    for what, pattern in (("all", ".*"), ("part", "listed"), ("one", "listed-[a]"), ("empty", ""), ("wrong", "(")):
        ask(f"pattern {what}", 2, transactional_id_pattern=pattern)
    for what, ids in (
        ("known", ("listed-a", "listed-b", "listed-c")),
        ("unknown", ("nobody",)),
        ("empty", ("",)),
        ("none", ()),
    ):
        request = DescribeTransactionsRequest(transactional_ids=ids)
        peer.ask(f"described {what}", request, 0, keep=_sorted_states)


SCENARIOS: Final = (
    init_transactional_producers,
    partitions_of_transactions,
    offsets_of_transactions,
    ends_of_transactions,
    records_of_transactions,
    markers_of_others,
    lists_of_transactions,
)
