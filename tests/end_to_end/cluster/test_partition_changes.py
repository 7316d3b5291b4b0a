"""Partitions added, leaders elected and replicas moved on a running cluster, under load: nothing is lost."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kraft.client import Admin, Consumer, ElectionType, ErrorCode, KraftError, Producer, Refusal, TopicPartition
from kraft.testing import Cluster
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
from tests.support.command_line import kraft
from tests.support.waiting import until

DEADLINE_S = 60.0
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4, overrides=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


def partitions(admin: Admin, topic: str) -> dict[int, DescribeTopicPartitionsResponsePartition]:
    (described,) = admin.describe_topics([topic])
    return {each.partition_index: each for each in described.metadata.partitions}


def all_partitions(admin: Admin) -> list[DescribeTopicPartitionsResponsePartition]:
    return [each for described in admin.describe_topics() for each in described.metadata.partitions]


def until_known(cluster: Cluster, topic: str) -> None:
    """Wait until every broker knows the topic: those that stay may be behind the one that is killed."""
    for node in cluster.nodes:
        assert node.address is not None
        with Admin(node.address) as admin:
            until(lambda: topic in admin.list_topics(), f"node {node.node_id} knows {topic}")


def until_moved(admin: Admin, topic: str, wanted: Mapping[int, list[int]]) -> None:
    def there() -> bool:
        found = partitions(admin, topic)
        return all(
            found[number].replica_nodes == tuple(replicas) and sorted(found[number].isr_nodes) == sorted(replicas)
            for number, replicas in wanted.items()
        )

    until(there, lambda: partitions(admin, topic))


def directories(cluster: Cluster, topic: str) -> dict[int, set[str]]:
    """Return the names of the partitions' directories, by node."""
    return {
        node.node_id: {
            each.name
            for each in cluster.directory.glob(f"node-{node.node_id}/**/{topic}-*")
            if each.is_dir() and not each.name.endswith("-delete")
        }
        for node in cluster.nodes
    }


def consume(cluster: Cluster, topic: str, count: int) -> Counter[bytes | None]:
    with Consumer(cluster.bootstrap_servers) as consumer, Admin(cluster.bootstrap_servers) as admin:
        consumer.assign([TopicPartition(topic, number) for number in partitions(admin, topic)])
        consumer.seek_to_beginning()
        values: Counter[bytes | None] = Counter()
        deadline = time.monotonic() + DEADLINE_S
        while sum(values.values()) < count and time.monotonic() < deadline:
            values.update(record.value for record in consumer.poll(timeout_ms=500))
        return values


class Load:
    """A producer in a thread that sends numbers, one after the other, until it is stopped."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[bytes] = []
        self.failures: list[KraftError] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def wait_for(self, count: int) -> None:
        until(lambda: len(self.acknowledged) >= count, lambda: self.failures)

    def _run(self) -> None:
        with Producer(self._cluster.bootstrap_servers, acks="all") as producer:
            number = 0
            while not self._stop.is_set():
                sent = []
                for _ in range(20):
                    value = b"%08d" % number
                    number += 1
                    sent.append((value, producer.send(self._topic, value + b"x" * 500, key=value)))
                for value, receipt in sent:
                    try:
                        receipt.result(timeout=DEADLINE_S)
                    except KraftError as error:
                        self.failures.append(error)
                    else:
                        self.acknowledged.append(value + b"x" * 500)


@pytest.mark.slow
def test_replicas_move_under_load_and_nothing_is_lost(cluster: Cluster, admin: Admin) -> None:
    topic = "moving"
    admin.create_topic(topic, partitions=4, replication_factor=2, configs={"min.insync.replicas": "2"})
    with Load(cluster, topic) as load:
        load.wait_for(500)
        wanted = {number: [number % 4 + 1, (number + 2) % 4 + 1] for number in range(4)}
        for targets in (
            wanted,
            {number: list(reversed(replicas)) for number, replicas in wanted.items()},
            {number: [4, 1, 2] for number in range(4)},
            {number: [3, 4] for number in range(4)},
        ):
            outcome = admin.alter_partition_reassignments(
                {TopicPartition(topic, number): replicas for number, replicas in targets.items()}
            )
            assert set(outcome.values()) == {None}
            until_moved(admin, topic, targets)
            assert admin.list_partition_reassignments() == {}
            load.wait_for(len(load.acknowledged) + 200)
    assert load.failures == []
    found = consume(cluster, topic, len(load.acknowledged))
    assert [value for value in load.acknowledged if found[value] != 1] == []
    assert len(found) == len(load.acknowledged)
    names = {f"{topic}-{number}" for number in range(4)}
    until(
        lambda: directories(cluster, topic) == {1: set(), 2: set(), 3: names, 4: names},
        lambda: directories(cluster, topic),
    )


def test_a_move_to_a_broker_that_is_down_waits_for_it_or_is_cancelled(cluster: Cluster, admin: Admin) -> None:
    topic = "waiting"
    admin.create_topic(topic, partitions=1, replication_factor=2, configs={"min.insync.replicas": "1"})

    name = TopicPartition(topic, 0)
    admin.alter_partition_reassignments({name: [1, 2]})
    until_moved(admin, topic, {0: [1, 2]})
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"before", partition=0).result(timeout=DEADLINE_S)
    cluster.node(4).kill()
    assert admin.alter_partition_reassignments({name: [1, 4]}) == {name: None}
    under_way = admin.list_partition_reassignments([name])[name]
    assert (under_way.replicas, under_way.adding_replicas, under_way.removing_replicas) == ((1, 4, 2), (4,), (2,))
    assert admin.alter_partition_reassignments({name: None}) == {name: None}
    assert partitions(admin, topic)[0].replica_nodes == (1, 2)
    refusal = admin.alter_partition_reassignments({name: None})[name]
    assert refusal is not None
    assert refusal.error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    admin.alter_partition_reassignments({name: [1, 4]})
    cluster.start()
    cluster.wait_ready()
    until_moved(admin, topic, {0: [1, 4]})
    assert consume(cluster, topic, 1) == Counter([b"before"])


def test_partitions_are_added_and_used(cluster: Cluster, admin: Admin) -> None:
    topic = "growing"
    admin.create_topic(topic, partitions=2, replication_factor=3)
    admin.create_partitions(topic, 6)
    found = partitions(admin, topic)
    assert len(found) == 6
    assert max(Counter(each.replica_nodes[0] for each in found.values()).values()) == 2
    with Producer(cluster.bootstrap_servers, acks="all") as producer:
        receipts = [producer.send(topic, b"%d" % number, partition=number) for number in range(6)]
        assert [receipt.result(timeout=DEADLINE_S).partition for receipt in receipts] == list(range(6))
    assert sum(consume(cluster, topic, 6).values()) == 6
    admin.create_partitions(topic, 7, [[4, 2, 1]])
    assert partitions(admin, topic)[6].replica_nodes == (4, 2, 1)
    with pytest.raises(Refusal, match="already has 7 partitions"):
        admin.create_partitions(topic, 7)


def test_leaders_go_back_to_the_preferred_ones_on_demand(cluster: Cluster, admin: Admin) -> None:
    topic = "led"
    admin.create_topic(topic, partitions=4, replication_factor=3)
    preferred = {number: each.replica_nodes[0] for number, each in partitions(admin, topic).items()}
    cluster.node(2).terminate()
    cluster.start()
    cluster.wait_ready()
    # Those of other tests, too: the election is one of all partitions.
    until(
        lambda: all(set(each.isr_nodes) == set(each.replica_nodes) for each in all_partitions(admin)),
        admin.describe_topics,
    )
    assert any(each.leader_id != preferred[number] for number, each in partitions(admin, topic).items())
    outcome = admin.elect_leaders(ElectionType.PREFERRED)
    assert set(outcome.values()) == {None}
    assert {number: each.leader_id for number, each in partitions(admin, topic).items()} == preferred
    again = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)])
    refusal = again[TopicPartition(topic, 0)]
    assert refusal is not None
    assert refusal.error_code is ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_gives_a_partition_back_that_lost_its_last_replica(cluster: Cluster, admin: Admin) -> None:
    topic = "unclean"
    name = TopicPartition(topic, 0)
    admin.create_topic(topic, partitions=1, replication_factor=1, configs={"min.insync.replicas": "1"})
    admin.alter_partition_reassignments({name: [4, 1]})
    until_moved(admin, topic, {0: [4, 1]})
    cluster.node(1).kill()
    until(lambda: partitions(admin, topic)[0].isr_nodes == (4,), lambda: partitions(admin, topic))
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"only here", partition=0).result(timeout=DEADLINE_S)
    cluster.node(4).kill()
    until(lambda: partitions(admin, topic)[0].leader_id == -1, lambda: partitions(admin, topic))
    cluster.node(1).start()
    until(lambda: 1 not in partitions(admin, topic)[0].offline_replicas, lambda: partitions(admin, topic))
    assert partitions(admin, topic)[0].leader_id == -1
    assert admin.elect_leaders(ElectionType.UNCLEAN, [name]) == {name: None}
    state = partitions(admin, topic)[0]
    assert (state.leader_id, state.isr_nodes) == (1, (1,))
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send(topic, b"after", partition=0).result(timeout=DEADLINE_S)
    cluster.start()
    cluster.wait_ready()
    until(lambda: sorted(partitions(admin, topic)[0].isr_nodes) == [1, 4], lambda: partitions(admin, topic))
    assert consume(cluster, topic, 1) == Counter([b"after"])


@pytest.mark.slow
def test_brokers_killed_while_replicas_move_lose_nothing(cluster: Cluster, admin: Admin) -> None:
    topic = "shaken"
    admin.create_topic(topic, partitions=3, replication_factor=3)
    layouts = ([1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2])
    with Load(cluster, topic) as load:
        load.wait_for(200)
        for turn in range(len(layouts)):
            targets = {number: layouts[(turn + number) % 4] for number in range(3)}
            wanted = {TopicPartition(topic, number): replicas for number, replicas in targets.items()}
            admin.alter_partition_reassignments(wanted)
            victim = cluster.node(turn % 4 + 1)
            victim.kill()
            cluster.start()
            cluster.wait_ready()
            until_moved(admin, topic, targets)
            load.wait_for(len(load.acknowledged) + 50)
    assert load.failures == []
    found = consume(cluster, topic, len(load.acknowledged))
    assert [value for value in load.acknowledged if found[value] != 1] == []


def test_a_replica_begins_where_the_leaders_log_does(cluster: Cluster, admin: Admin) -> None:
    topic = "trimmed"
    name = TopicPartition(topic, 0)
    admin.create_topic(topic, partitions=1, replication_factor=1, configs={"min.insync.replicas": "1"})
    with Producer(cluster.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0).result(timeout=DEADLINE_S)
    assert admin.delete_records({name: 7}) == {name: 7}
    (leader,) = partitions(admin, topic)[0].replica_nodes
    target = [leader % 4 + 1]
    admin.alter_partition_reassignments({name: target})
    until_moved(admin, topic, {0: target})
    with Consumer(cluster.bootstrap_servers) as consumer:
        assert consumer.beginning_offsets([name]) == {name: 7}
    assert consume(cluster, topic, 3) == Counter([b"7", b"8", b"9"])


# --- from the command line -----------------------------------------------------------------------------------


def test_a_topic_is_planned_moved_and_verified_from_the_command_line(
    cluster: Cluster, admin: Admin, tmp_path: Path
) -> None:
    kraft(cluster, "topics", "create", "planned", "--partitions", "2", "--replication-factor", "2")
    assert kraft(cluster, "topics", "alter", "planned", "--partitions", "3") == "Topic planned now has 3 partitions.\n"
    topics = tmp_path / "topics.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "planned"}]}')
    reassign = ("topics", "reassign")
    generated = kraft(
        cluster, *reassign, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "3,4"
    )
    plan, rollback = tmp_path / "plan.json", tmp_path / "rollback.json"
    plan.write_text(generated.splitlines()[-1])
    executed = kraft(cluster, *reassign, "--execute", "--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignments for planned-0,planned-1,planned-2\n" in executed
    rollback.write_text(executed.splitlines()[2])

    def verified(file: Path) -> list[str]:
        return kraft(cluster, *reassign, "--verify", "--reassignment-json-file", str(file)).splitlines()

    done = [f"Reassignment of partition planned-{number} is completed." for number in range(3)]
    until(lambda: verified(plan)[1:] == done, lambda: verified(plan))
    moved = [entry["replicas"] for entry in json.loads(plan.read_text())["partitions"]]
    assert all(sorted(replicas) == [3, 4] for replicas in moved)
    assert kraft(cluster, *reassign, "--list") == "No partition reassignments found.\n"
    assert any(" rather than " in line for line in verified(rollback)[1:])
    elected = kraft(cluster, "topics", "elect-leaders", "--election-type", "preferred", "--all-topic-partitions")
    assert "Error" not in elected
    for option in ("under-replicated", "unavailable", "under-min-isr"):
        assert "planned" not in kraft(cluster, "topics", "describe", f"--{option}-partitions")
    lines = kraft(cluster, "topics", "describe", "planned", "--at-min-isr-partitions").splitlines()
    assert [line.split("\tIsr: ")[0] for line in lines] == [
        f"\tTopic: planned\tPartition: {number}\tLeader: {replicas[0]}\tReplicas: {replicas[0]},{replicas[1]}"
        for number, replicas in enumerate(moved)
    ]

    # One partition alone gets a replica more; the others stay as they are.
    layout = {number: tuple(replicas) for number, replicas in enumerate(moved)} | {1: (4, 3, 1)}
    raised = tmp_path / "raised.json"
    entry = {"topic": "planned", "partition": 1, "replicas": layout[1]}
    raised.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    kraft(cluster, *reassign, "--execute", "--reassignment-json-file", str(raised))
    until(lambda: verified(raised)[1:] == done[1:2], lambda: verified(raised))
    found = partitions(admin, "planned")
    assert {number: each.replica_nodes for number, each in found.items()} == layout
    assert {number: {*each.isr_nodes} for number, each in found.items()} == {
        number: {*replicas} for number, replicas in layout.items()
    }
    assert directories(cluster, "planned")[1] == {"planned-1"}


# --- unasked -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_leaders_go_back_unasked_and_a_topic_that_may_lose_records_is_led_again() -> None:
    settings = {
        **SETTINGS,
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "1",
        "unclean.leader.election.interval.ms": "500",
    }
    with Cluster(nodes=3, overrides=settings) as cluster, Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("led", partitions=3, replication_factor=3)
        until_known(cluster, "led")
        preferred = {number: each.replica_nodes[0] for number, each in partitions(admin, "led").items()}
        assert sorted(preferred.values()) == [1, 2, 3]
        cluster.node(1).kill()
        until(lambda: all(each.leader_id > 1 for each in partitions(admin, "led").values()), lambda: "leaders stay")
        cluster.start()
        cluster.wait_ready()
        until(
            lambda: {number: each.leader_id for number, each in partitions(admin, "led").items()} == preferred,
            lambda: partitions(admin, "led"),
        )

        topic = "risky"
        admin.create_topic(topic, partitions=1, replication_factor=1, configs={"min.insync.replicas": "1"})
        admin.alter_partition_reassignments({TopicPartition(topic, 0): [3, 1]})
        until_moved(admin, topic, {0: [3, 1]})
        cluster.node(1).kill()
        until(lambda: partitions(admin, topic)[0].isr_nodes == (3,), lambda: partitions(admin, topic))
        cluster.node(3).kill()
        cluster.node(1).start()
        until(lambda: partitions(admin, topic)[0].leader_id == -1, lambda: partitions(admin, topic))
        admin.alter_topic_configs(topic, {"unclean.leader.election.enable": "true"})
        until(lambda: partitions(admin, topic)[0].leader_id == 1, lambda: partitions(admin, topic))
