from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.model.throttled_replicas import ReplicaNames
from kraft.server.config.components import ReplicationConfig
from kraft.server.replica.partition import Partition
from kraft.server.replica.replication_throttles import ReplicationThrottles
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.replicas import DEFAULTS, Broker, append_to, batch, fetched, follow, lead

RATES = ReplicationConfig(
    leader_throttled_rate=1_000, follower_throttled_rate=2_000, directory_move_rate=3_000, fetch_bytes_max=1_500
)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def throttles(config: ReplicationConfig = RATES) -> ReplicationThrottles:
    return ReplicationThrottles(config, BrokerId(1), lambda: 0)


def led(broker: Broker, named: str = "0:1", isr: tuple[int, ...] = (1,)) -> Partition:
    partition = broker.open(leader_replication_throttled_replicas=ReplicaNames().read(named))
    lead(partition, isr=isr)
    return partition


def followed(broker: Broker, named: str = "0:1") -> Partition:
    partition = broker.open(follower_replication_throttled_replicas=ReplicaNames().read(named))
    follow(partition, isr=(2,))
    return partition


def hears(partition: Partition, high_watermark: int) -> None:
    """Answer a fetch without records."""
    assert partition.follower is not None
    position = partition.follower.next_fetch()
    assert position is not None
    leader: dict[str, Any] = {"topic_id": partition.topic_id, "partition": 0, "leader_epoch": 0}
    answer = ReplicaFetchResult(**leader, error_code=ErrorCode.NONE, high_watermark=high_watermark)
    partition.follower.answered(position, answer)


@pytest.mark.parametrize(
    ("named", "is_limited"),
    [("0:1", True), ("*", True), ("3:9,0:1", True), ("", False), ("0:2", False), ("1:1", False)],
)
def test_a_throttle_is_for_the_replicas_that_the_topic_names(broker: Broker, named: str, is_limited: bool) -> None:
    partition = led(broker, named)
    assert throttles().leader.limits(partition, BrokerId(2)) is is_limited
    assert not throttles(ReplicationConfig()).leader.limits(partition, BrokerId(2)), "there is no rate"
    partition = followed(Broker(broker.directory / "2"), named)
    assert partition.follower is not None
    assert throttles().follower.limits(partition, partition.follower) is is_limited
    assert not throttles(ReplicationConfig()).follower.limits(partition, partition.follower), "there is no rate"


def test_no_follower_is_limited_that_is_in_the_isr_or_proposed_for_it(broker: Broker) -> None:
    partition = led(broker, isr=(1,))
    append_to(partition, batch("a"), 1)
    broker.sync()
    leader = throttles().leader
    assert leader.limits(partition, BrokerId(2))
    fetched(partition, 1)
    assert [proposal.isr for proposal in broker.proposals], "what is committed waits for it from now on"
    assert not leader.limits(partition, BrokerId(2))
    lead(partition, isr=(1, 2), partition_epoch=1)
    assert not leader.limits(partition, BrokerId(2))
    lead(partition, isr=(1,), partition_epoch=2)
    assert leader.limits(partition, BrokerId(2))


def test_nothing_is_limited_that_is_no_longer_led(broker: Broker) -> None:
    partition = led(broker)
    partition.retire()
    assert not throttles().leader.limits(partition, BrokerId(2))


def test_a_follower_does_not_limit_itself_while_the_metadata_has_it_in_the_isr(broker: Broker) -> None:
    partition, own = followed(broker), throttles().follower
    assert partition.follower is not None
    for isr, is_limited in (((2, 1), False), ((2,), True)):
        own.image = with_topic(cluster(1, 2), (2, 1), isr=isr)
        assert own.limits(partition, partition.follower) is is_limited


def test_a_follower_that_has_all_committed_may_tell_its_leader_so(broker: Broker) -> None:
    """Otherwise the last bytes would wait once more before it can join."""
    partition, own = followed(broker), throttles().follower
    assert partition.follower is not None
    assert own.limits(partition, partition.follower), "before the first answer nobody knows"
    hears(partition, high_watermark=5)
    assert own.limits(partition, partition.follower)
    hears(partition, high_watermark=0)
    assert not own.limits(partition, partition.follower)


def test_a_fetch_counts_when_it_is_sent_and_then_what_it_brings() -> None:
    own = throttles().follower
    assert own.reserve() == 1_500
    assert own.wait_ms() == 0
    assert own.reserve() == 1_500
    assert own.wait_ms() == 500
    own.received(1_500, 0)
    assert own.wait_ms() == 0
    own.received(1_500, 6_000)
    assert own.wait_ms() == 2_000
    assert (own.limited_bytes, own.rate) == (6_000, 2_000)


def test_a_fetch_asks_for_no_more_than_passes_in_a_second() -> None:
    own = throttles(ReplicationConfig(follower_throttled_rate=10)).follower
    assert own.reserve() == 10


def test_rates_are_changed_while_something_waits() -> None:
    all_of_them = throttles()
    all_of_them.leader.sent(2_000)
    all_of_them.follower.received(0, 4_000)
    all_of_them.directory_moves.take(6_000, 0)
    assert (all_of_them.leader.wait_ms(), all_of_them.follower.wait_ms()) == (1_000, 1_000)
    assert all_of_them.directory_moves.wait_ms(0) == 1_000
    all_of_them.reconfigure(
        ReplicationConfig(leader_throttled_rate=10_000, follower_throttled_rate=20_000, directory_move_rate=30_000)
    )
    assert (all_of_them.leader.wait_ms(), all_of_them.follower.wait_ms()) == (100, 100)
    assert all_of_them.directory_moves.wait_ms(0) == 100
    all_of_them.reconfigure(ReplicationConfig())
    assert (all_of_them.leader.wait_ms(), all_of_them.follower.wait_ms()) == (0, 0)


def test_a_partition_takes_the_names_of_changed_configs(broker: Broker) -> None:
    partition = led(broker, "")
    assert not throttles().leader.limits(partition, BrokerId(2))
    partition.reconfigure(replace(DEFAULTS, leader_replication_throttled_replicas=ReplicaNames().read("*")))
    assert throttles().leader.limits(partition, BrokerId(2))
