"""`kraft topics reassign --throttle`, and the removal of throttles, against a fake cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Admin
from kraft.metadata.records import PartitionChanged, TopicDeleted
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from kraft.model.throttled_replicas import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kraft.moves.throttled_replicas import FOLLOWER_RATE, LEADER_RATE
from tests.support.client.fake_cluster import FakeCluster
from tests.support.cluster_images import ids
from tests.unit.cli.shell import Shell

RATES = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}


class Reassignment:
    """`kraft topics reassign` with one file."""

    def __init__(self, kraft: Shell, directory: Path, *wanted: tuple[str, int, list[int]]) -> None:
        self._kraft = kraft
        file = directory / f"{wanted[0][0]}-{wanted[0][1]}.json"
        entries = [{"topic": topic, "partition": partition, "replicas": to} for topic, partition, to in wanted]
        file.write_text(json.dumps({"version": 1, "partitions": entries}), encoding="utf-8")
        self._arguments = ("topics", "reassign", "--reassignment-json-file", str(file))

    def run(self, *arguments: str) -> list[str]:
        return self._kraft.succeed(*self._arguments, *arguments).splitlines()

    def fail(self, *arguments: str) -> str:
        self._kraft.run(*self._arguments, *arguments, "--bootstrap-server", "broker-1:9094")
        return self._kraft.err


def throttles(cluster: FakeCluster) -> dict[str, dict[str, str]]:
    """Return the configs of topics and brokers, without resources that have none."""
    found = {name: dict(of) for name, of in {**cluster.configs, **cluster.broker_configs}.items() if of}
    return dict(sorted(found.items()))


def changes(cluster: FakeCluster) -> list[str]:
    """Return the calls that changed something."""
    calls = [call.split()[1] for call in cluster.calls]
    return [call for call in calls if call.startswith(("incremental", "alter"))]


def complete(cluster: FakeCluster, topic: str, partition: int = 0) -> None:
    """Let all replicas be in sync, as a leader does, so that the move ends."""
    placed = cluster.image.topic(topic)
    assert placed is not None
    state = placed.partitions[partition]
    staying = [each for each in state.replicas if each not in state.removing_replicas]
    cluster.image = cluster.image.replay(
        [
            PartitionChanged(
                topic_id=placed.topic_id,
                partition=partition,
                isr=ids(*staying),
                leader=BrokerId(staying[0]),
                leader_epoch=LeaderEpoch(state.leader_epoch + 1),
                partition_epoch=PartitionEpoch(state.partition_epoch + 1),
                replicas=ids(*staying),
                adding_replicas=[],
                removing_replicas=[],
            )
        ]
    )


@pytest.fixture
def reassignment(kraft: Shell, cluster: FakeCluster, tmp_path: Path) -> Reassignment:
    cluster.place("orders", [1, 2], [1, 2])
    return Reassignment(kraft, tmp_path, ("orders", 0, [1, 3]))


def test_a_throttle_is_set_before_the_moves_and_removed_when_they_are_over(
    reassignment: Reassignment, cluster: FakeCluster
) -> None:
    executed = reassignment.run("--execute", "--throttle", "1000")
    assert executed[-3].startswith("Warning: You must run --verify periodically, until the reassignment completes")
    assert executed[-2:] == [
        "The inter-broker throttle limit was set to 1000 B/s",
        "Successfully started partition reassignment for orders-0",
    ]
    assert changes(cluster) == ["incremental_alter_configs"] * 4 + ["alter_partition_reassignments"]
    throttled = {
        "1": RATES,
        "2": RATES,
        "3": RATES,
        "orders": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
    }
    assert throttles(cluster) == throttled
    assert reassignment.run("--verify")[1:] == ["Reassignment of partition orders-0 is still in progress."]
    assert throttles(cluster) == throttled
    complete(cluster, "orders")
    assert len(reassignment.run("--verify", "--preserve-throttles")) == 2
    assert throttles(cluster) == throttled
    assert reassignment.run("--verify")[1:] == [
        "Reassignment of partition orders-0 is completed.",
        "Clearing broker-level throttles on brokers 1,2,3",
        "Removed follower.replication.throttled.rate=1000 of brokers 1,2,3.",
        "Removed leader.replication.throttled.rate=1000 of brokers 1,2,3.",
        "Clearing topic-level throttles on topic orders",
        f"Removed {LEADER_REPLICAS}=0:1,0:2 and {FOLLOWER_REPLICAS}=0:3 of topic orders.",
    ]
    assert throttles(cluster) == {}
    assert reassignment.run("--verify")[1:] == ["Reassignment of partition orders-0 is completed."]


def test_programs_see_whether_a_partition_is_throttled(
    reassignment: Reassignment, cluster: FakeCluster, kraft: Shell
) -> None:
    executed = json.loads("".join(reassignment.run("--execute", "--throttle", "1000", "--output", "json")))
    assert executed["throttle"] == 1000
    (status,) = json.loads("".join(reassignment.run("--verify", "--output", "json")))
    assert (status["status"], status["throttled"]) == ("in progress", True)
    complete(cluster, "orders")
    (status,) = json.loads("".join(reassignment.run("--verify", "--output", "json")))
    assert (status["status"], status["throttled"]) == ("completed", False)
    assert "Removed leader.replication.throttled.rate=1000 of brokers 1,2,3." in kraft.err


def test_the_throttle_of_moves_under_way_is_changed_with_additional(
    reassignment: Reassignment, cluster: FakeCluster, kraft: Shell
) -> None:
    reassignment.run("--execute", "--throttle", "1000")
    assert "--additional flag can also be used to change the throttle" in reassignment.fail(
        "--execute", "--throttle", "5000"
    )
    assert throttles(cluster)["1"] == RATES
    reassignment.run("--execute", "--throttle", "5000", "--additional")
    assert throttles(cluster) == {
        **{str(broker): {LEADER_RATE: "5000", FOLLOWER_RATE: "5000"} for broker in (1, 2, 3)},
        "orders": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
    }
    assert "kraft: leader.replication.throttled.rate of brokers 1,2,3 was 1000 and is 5000 now\n" in kraft.err


def test_cancelling_removes_throttles_unless_they_are_preserved(
    reassignment: Reassignment, cluster: FakeCluster
) -> None:
    for arguments in ((), ("--preserve-throttles",)):
        reassignment.run("--execute", "--throttle", "1000")
        lines = reassignment.run("--cancel", *arguments)
        assert lines[0] == "Successfully cancelled partition reassignment for: orders-0"
        assert (throttles(cluster) == {}) is not bool(arguments)
        assert ("Clearing topic-level throttles on topic orders" in lines) is not bool(arguments)
    # Once more, by a program.
    cancelled = json.loads("".join(reassignment.run("--cancel", "--output", "json")))
    assert cancelled["cancelled"] == []
    assert cancelled["throttles"]["removed_from_brokers"]["1"] == RATES
    assert throttles(cluster) == {}


def test_two_reassignments_at_once_do_not_end_each_others_throttle(
    reassignment: Reassignment, cluster: FakeCluster, kraft: Shell, tmp_path: Path
) -> None:
    other = Reassignment(kraft, tmp_path, ("orders", 1, [3, 2]))
    reassignment.run("--execute", "--throttle", "1000")
    other.run("--execute", "--throttle", "1000", "--additional")
    complete(cluster, "orders", 0)
    assert reassignment.run("--verify")[2:] == [
        "Clearing topic-level throttles on topic orders",
        f"Removed {LEADER_REPLICAS}=0:1,0:2 and {FOLLOWER_REPLICAS}=0:3 of topic orders.",
    ]
    assert f"kraft: other replicas are throttled still (orders: {LEADER_REPLICAS}=1:1,1:2 and" in kraft.err
    assert throttles(cluster)["orders"] == {LEADER_REPLICAS: "1:1,1:2", FOLLOWER_REPLICAS: "1:3"}
    assert throttles(cluster)["1"] == RATES
    complete(cluster, "orders", 1)
    other.run("--verify")
    assert throttles(cluster) == {}


def test_moves_that_are_throttled_while_a_throttle_is_removed_get_its_rates_back(
    reassignment: Reassignment, cluster: FakeCluster, kraft: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    reassignment.run("--execute", "--throttle", "1000")
    complete(cluster, "orders")
    remove = Admin.alter_broker_configs

    def remove_beside_another(admin: Admin, broker: int, *arguments: Any, **options: Any) -> None:
        cluster.configs["orders"][LEADER_REPLICAS] = "1:1"
        cluster.broker_configs["3"] = {LEADER_RATE: "5", FOLLOWER_RATE: "5"}
        remove(admin, broker, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("kraft.client.Admin.alter_broker_configs", remove_beside_another)
        lines = reassignment.run("--verify")
    assert not [line for line in lines if "broker-level" in line]
    assert "and so the rates of brokers stay" in kraft.err
    assert throttles(cluster)["1"] == throttles(cluster)["2"] == RATES
    assert throttles(cluster)["3"] != {}


def test_the_rate_that_another_command_has_set_meanwhile_is_not_replaced(
    reassignment: Reassignment, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reassignment.run("--execute", "--throttle", "1000")
    complete(cluster, "orders")
    remove, others = Admin.alter_broker_configs, {LEADER_RATE: "5", FOLLOWER_RATE: "5"}

    def remove_before_another(admin: Admin, broker: int, *arguments: Any, **options: Any) -> None:
        remove(admin, broker, *arguments, **options)
        if "delete" in options:
            cluster.configs["orders"][LEADER_REPLICAS] = "1:1"
            cluster.broker_configs[str(broker)] = dict(others)

    with monkeypatch.context() as patch:
        patch.setattr("kraft.client.Admin.alter_broker_configs", remove_before_another)
        reassignment.run("--verify")
    assert [throttles(cluster)[broker] for broker in ("1", "2", "3")] == [others] * 3


def test_a_move_that_cannot_be_cancelled_stays_throttled(
    reassignment: Reassignment, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reassignment.run("--execute", "--throttle", "1000")
    before = throttles(cluster)
    refusal = Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replica would stay")
    monkeypatch.setattr(
        "kraft.client.Admin.alter_partition_reassignments", lambda *_: {TopicPartition("orders", 0): refusal}
    )
    assert "no replica would stay" in reassignment.fail("--cancel")
    assert throttles(cluster) == before


def test_what_an_operator_has_set_is_not_lost_without_a_word(
    reassignment: Reassignment, cluster: FakeCluster, kraft: Shell
) -> None:
    cluster.create("slow")
    cluster.configs["slow"] = {FOLLOWER_REPLICAS: "*"}
    cluster.configs["orders"] = {LEADER_REPLICAS: "*", "retention.ms": "5"}
    cluster.broker_configs["2"] = {FOLLOWER_RATE: "7", "log.cleaner.threads": "2"}
    reassignment.run("--execute", "--throttle", "1000")
    assert kraft.err == "kraft: follower.replication.throttled.rate of broker 2 was 7 and is 1000 now\n"
    assert cluster.configs["orders"] == {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "0:3", "retention.ms": "5"}
    complete(cluster, "orders")
    reassignment.run("--verify")
    assert f"(orders: {LEADER_REPLICAS}=*; slow: {FOLLOWER_REPLICAS}=*), and so the rates of brokers stay" in kraft.err
    assert cluster.configs["orders"] == {LEADER_REPLICAS: "*", "retention.ms": "5"}
    assert throttles(cluster)["2"] == {**RATES, "log.cleaner.threads": "2"}
    del cluster.configs["slow"], cluster.configs["orders"]
    assert "Removed follower.replication.throttled.rate=1000 of brokers 1,2,3." in reassignment.run("--verify")
    assert throttles(cluster) == {"2": {"log.cleaner.threads": "2"}}


@pytest.mark.parametrize("call", ["incremental_alter_configs", "alter_partition_reassignments"])
def test_a_command_that_dies_midway_is_repaired_by_verifying(
    reassignment: Reassignment, cluster: FakeCluster, call: str
) -> None:
    cluster.brokers[1].refusals[call] = Refusal(ErrorCode.INVALID_REQUEST, "it is no request")
    failed = reassignment.fail("--execute", "--throttle", "1000")
    if call == "incremental_alter_configs":
        assert "kraft: The moves were not started, but a throttle may be set: remove it with kraft topics" in failed
        cluster.configs["orders"] = {LEADER_REPLICAS: "0:1,0:2"}
    assert throttles(cluster) != {}
    assert reassignment.run("--verify")[1].startswith("There is no active reassignment of partition orders-0")
    assert throttles(cluster) == {}


def test_a_broker_that_is_away_gets_its_rate_and_is_named_when_it_cannot_be_removed(
    reassignment: Reassignment, cluster: FakeCluster, kraft: Shell
) -> None:
    cluster.brokers[2].is_up = False
    reassignment.run("--execute", "--throttle", "1000")
    assert throttles(cluster)["2"] == RATES
    complete(cluster, "orders")
    reassignment.run("--verify")
    assert kraft.err == ("kraft: broker 2 did not answer, so its rate may be left: verify again later\n")
    assert throttles(cluster) == {"2": RATES}
    cluster.brokers[2].is_up = True
    assert "Removed leader.replication.throttled.rate=1000 of broker 2." in reassignment.run("--verify")
    assert throttles(cluster) == {}


def test_the_throttle_of_a_topic_that_is_gone_does_not_keep_the_others(
    kraft: Shell, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.place("orders", [1, 2])
    cluster.place("payments", [1, 2])
    both = Reassignment(kraft, tmp_path, ("orders", 0, [1, 3]), ("payments", 0, [1, 3]))
    both.run("--execute", "--throttle", "1000")
    complete(cluster, "orders")
    del cluster.topics["payments"], cluster.configs["payments"]
    cluster.image = cluster.image.replay([TopicDeleted(topic_id=cluster.topic_id("payments"))])
    assert both.fail("--verify") == "kraft: partition payments-0 does not exist: correct the file\n"
    assert throttles(cluster) == {}


def test_a_decommission_throttles_its_moves_and_removes_the_throttle_before_the_fence(
    kraft: Shell, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.place("orders", [1], [3])
    cluster.replicas_held = {1: 1}
    seen: list[dict[str, dict[str, str]]] = []

    def sleep(_: float) -> None:
        if not seen:
            complete(cluster, "orders", 0)
            cluster.replicas_held = {1: 0}
        seen.append(throttles(cluster))

    monkeypatch.setattr("kraft.cli.decommission.time.sleep", sleep)
    assert "(1 partition moved)" in kraft.succeed("brokers", "decommission", "1", "--throttle", "1000")
    assert changes(cluster)[:4] == ["incremental_alter_configs"] * 3 + ["alter_partition_reassignments"]
    assert seen == [{"1": RATES, "2": RATES, "orders": {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:2"}}]
    assert "Removed leader.replication.throttled.rate=1000 of brokers 1,2." in kraft.err
    assert throttles(cluster) == {}


def test_moves_that_do_not_fit_a_list_are_refused_before_anything_is_set(
    kraft: Shell, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.place("wide", *[[1, 2, 3]] * 2_000)
    wide = Reassignment(kraft, tmp_path, *(("wide", number, [3, 2, 1]) for number in range(2_000)))
    assert "too many replicas of topic wide to list: move fewer partitions at a time" in wide.fail(
        "--execute", "--throttle", "1000"
    )
    assert throttles(cluster) == {}


@pytest.mark.parametrize("rate", ["0", "-1", "9223372036854775808", "fast", "1.5"])
def test_a_throttle_that_is_no_rate_is_refused(reassignment: Reassignment, cluster: FakeCluster, rate: str) -> None:
    assert f"'{rate}' is no rate: give whole bytes" in reassignment.fail("--execute", "--throttle", rate)
    assert cluster.calls == []


def test_options_of_other_actions_are_refused(reassignment: Reassignment) -> None:
    assert "requires --execute" in reassignment.fail("--verify", "--throttle", "1000")
    assert "requires --verify or --cancel" in reassignment.fail("--execute", "--preserve-throttles")
