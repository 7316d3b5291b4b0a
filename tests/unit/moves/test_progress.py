from __future__ import annotations

from uuid import UUID

from kraft.metadata.described_topics import TopicDescription
from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.throttled_replicas import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kraft.moves.progress import Move, Outcomes, progress_of, throttled
from kraft.wire.schema.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic
from kraft.wire.schema.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kraft.wire.schema.list_partition_reassignments import OngoingPartitionReassignment
from tests.support.cluster_facts import broker

ORDERS_0 = TopicPartition("orders", 0)


def topic(isr: tuple[int, ...], leader: int = 1, configs: dict[str, str] | None = None) -> TopicDescription:
    state = DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=1,
        replica_nodes=(1, 2, 3),
        isr_nodes=isr,
        offline_replicas=(),
    )
    metadata = DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name="orders",
        topic_id=UUID(int=1),
        is_internal=False,
        partitions=(state,),
        topic_authorized_operations=0,
    )
    return TopicDescription(topic="orders", metadata=metadata, configs=configs or {})


def directory(size_bytes: int, behind: int = 0) -> list[DescribeLogDirsResult]:
    replica = DescribeLogDirsPartition(
        partition_index=0, partition_size=size_bytes, offset_lag=behind, is_future_key=False
    )
    topics = (DescribeLogDirsTopic(name="orders", partitions=(replica,)),)
    return [DescribeLogDirsResult(error_code=0, log_dir="/a", topics=topics)]


def move(described: TopicDescription, outcomes: Outcomes, *, away: tuple[int, ...] = ()) -> Move:
    ongoing = OngoingPartitionReassignment(
        partition_index=0, replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(2,)
    )
    brokers = [broker(each, fenced=each in away) for each in (1, 2, 3)]
    (found,) = progress_of({ORDERS_0: ongoing}, [described], outcomes, brokers).moves
    return found


def test_a_copy_is_measured_by_size_and_complete_only_in_sync() -> None:
    outcomes = {1: directory(1_000), 2: directory(990), 3: directory(250, behind=7)}
    found = move(topic((1, 2)), outcomes)
    assert (found.replicas, found.removing, found.size_bytes) == ([3, 1], [2], 1_000)
    assert [(each.broker, each.percent, each.behind) for each in found.copies] == [(3, 25, 7)]
    assert (found.copied_bytes, found.to_copy_bytes) == (250, 1_000)
    assert move(topic((1, 2)), {1: directory(1_000), 3: directory(1_200)}).copies[0].percent == 99
    assert move(topic((1, 2, 3)), {1: directory(1_000)}).copies[0].percent == 100


def test_an_empty_partition_and_a_broker_that_says_nothing_are_no_error() -> None:
    assert move(topic((1, 2)), {1: directory(0), 3: directory(0)}).copies[0].percent == 99
    silent = progress_of({}, [], {1: directory(0), 3: KraftError("silent")}, [])
    assert silent.silent == [3]
    assert move(topic((1, 2)), {3: KraftError("silent")}).copies[0].percent is None


def test_what_a_move_waits_for_is_said() -> None:
    outcomes = {1: directory(1_000)}
    assert move(topic((1, 2)), outcomes).waits_for == ""
    assert move(topic((1, 2)), outcomes, away=(3,)).waits_for.startswith("broker 3 is not in service")
    assert "no leader to copy from" in move(topic((1, 2), leader=-1), outcomes).waits_for


def test_a_move_is_throttled_if_its_topic_lists_it() -> None:
    assert move(topic((1, 2), configs={LEADER_REPLICAS: "0:1"}), {}).is_throttled
    assert not move(topic((1, 2), configs={LEADER_REPLICAS: "1:1"}), {}).is_throttled


def test_a_throttle_is_left_where_nothing_moves() -> None:
    configs = {"orders": {LEADER_REPLICAS: "0:1,1:1", FOLLOWER_REPLICAS: "0:2"}, "all": {LEADER_REPLICAS: "*"}}
    found = throttled(configs, [TopicPartition("orders", 1)])
    assert (found.over, found.whole_topics) == ([ORDERS_0], ["all"])
