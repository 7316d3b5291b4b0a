"""`kraft topics alter --partitions`, `elect-leaders`, `reassign` and `describe`'s filters, against a fake cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.records import PartitionChanged
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch
from tests.support.client.fake_cluster import FakeCluster
from tests.support.cluster_images import epoch_of, ids
from tests.unit.cli.shell import Shell


def replicas(cluster: FakeCluster, topic: str) -> list[list[int]]:
    placed = cluster.image.topic(topic)
    assert placed is not None
    return [list(each.replicas) for each in placed.partitions.values()]


def leaders(cluster: FakeCluster, topic: str) -> list[int]:
    placed = cluster.image.topic(topic)
    assert placed is not None
    return [each.leader for each in placed.partitions.values()]


def fence(cluster: FakeCluster, broker_id: int) -> None:
    decision = fence_broker(cluster.image, BrokerId(broker_id), epoch_of(cluster.image, broker_id))
    cluster.image = cluster.image.replay(decision.records)


def in_sync(
    cluster: FakeCluster,
    topic: str,
    partition: int,
    *isr: int,
    elr: tuple[int, ...] = (),
    last_known_elr: tuple[int, ...] = (),
) -> None:
    placed = cluster.image.topic(topic)
    assert placed is not None
    state = placed.partitions[partition]
    change = PartitionChanged(
        topic_id=placed.topic_id,
        partition=partition,
        isr=ids(*isr),
        leader=BrokerId(isr[0]),
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        elr=ids(*elr),
        last_known_elr=ids(*last_known_elr),
    )
    cluster.image = cluster.image.replay([change])


def file(directory: Path, content: Any) -> str:
    path = directory / "file.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def moves(directory: Path, *wanted: tuple[str, int, list[int]]) -> str:
    entries = [{"topic": topic, "partition": partition, "replicas": to} for topic, partition, to in wanted]
    return file(directory, {"version": 1, "partitions": entries})


# --- alter ---------------------------------------------------------------------------------------------------


def test_partitions_are_added_with_kafkas_warning(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.place("orders", [1, 2], [2, 3])
    assert kraft.succeed("topics", "alter", "orders", "--partitions", "4") == "Topic orders now has 4 partitions.\n"
    assert kraft.err == (
        "WARNING: If partitions are increased for a topic that has a key, "
        "the partition logic or ordering of the messages will be affected\n"
    )
    assert replicas(cluster, "orders")[2:] == [[3, 1], [1, 3]]
    placed = ("--replica-assignment", "1:2,2:3,3:1,1:2,3:2")
    out = kraft.succeed("topics", "alter", "--topic", "orders", "--partitions", "5", *placed, "--output", "json")
    assert json.loads(out) == {"topic": "orders", "partition_count": 5}
    assert replicas(cluster, "orders")[4] == [3, 2]


def test_partitions_are_never_taken_away(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.place("orders", [1], [2])
    for count, words in (("1", "cannot go down to 1"), ("2", "already has 2 partitions")):
        assert words in kraft.fail("topics", "alter", "orders", "--partitions", count)
    assert "INVALID_REPLICA_ASSIGNMENT" in kraft.fail(
        "topics", "alter", "orders", "--partitions", "3", "--replica-assignment", "1,2,2:3"
    )


# --- describe ------------------------------------------------------------------------------------------------


def test_only_partitions_in_a_condition_are_described(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.place("healthy", [1, 2], [2, 3])
    cluster.place("lagging", [1, 2, 3], [2, 3, 1])
    in_sync(cluster, "lagging", 1, 2)
    cluster.configs["lagging"] = {"min.insync.replicas": "2"}
    cluster.configs["healthy"] = {"min.insync.replicas": "2"}
    first = "\tTopic: healthy\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}\tElr: \tLastKnownElr: \n"
    lagging = "\tTopic: lagging\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2\tElr: \tLastKnownElr: \n"
    assert kraft.succeed("topics", "describe", "--under-replicated-partitions") == lagging
    assert kraft.succeed("topics", "describe", "--under-min-isr-partitions") == lagging
    assert kraft.succeed("topics", "describe", "--at-min-isr-partitions") == (
        first.format(0, 1, "1,2", "1,2") + first.format(1, 2, "2,3", "2,3")
    )
    assert kraft.succeed("topics", "describe", "--unavailable-partitions") == ""
    assert kraft.succeed("topics", "describe", "healthy", "--under-replicated-partitions") == ""
    (output,) = json.loads(kraft.succeed("topics", "describe", "--under-min-isr-partitions", "--output", "json"))
    assert (output["topic"], output["partition_count"], output["replication_factor"]) == ("lagging", 2, 3)
    assert [each["partition"] for each in output["partitions"]] == [1]


def test_partitions_that_nobody_leads_are_unavailable(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.place("orders", [1], [2])
    fence(cluster, 1)
    line = "\tTopic: orders\tPartition: 0\tLeader: none\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"
    assert kraft.succeed("topics", "describe", "--unavailable-partitions") == line


def test_replicas_that_are_eligible_and_those_that_were_are_described(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.place("orders", [1, 2, 3])
    in_sync(cluster, "orders", 0, 2, elr=(1,), last_known_elr=(3,))
    line = kraft.succeed("topics", "describe", "orders").splitlines()[1]
    assert line.endswith("\tLeader: 2\tReplicas: 1,2,3\tIsr: 2\tElr: 1\tLastKnownElr: 3")
    (output,) = json.loads(kraft.succeed("topics", "describe", "orders", "--output", "json"))
    assert (output["partitions"][0]["elr"], output["partitions"][0]["last_known_elr"]) == ([1], [3])


def test_replicas_that_come_and_go_are_described(kraft: Shell, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.place("orders", [1, 2])
    kraft.succeed("topics", "reassign", "--execute", "--reassignment-json-file", moves(tmp_path, ("orders", 0, [1, 3])))
    title, line = kraft.succeed("topics", "describe", "orders").splitlines()
    assert "\tReplicationFactor: 2\t" in title
    assert line.endswith("\tReplicas: 1,3,2\tIsr: 1,2\tAdding Replicas: 3\tRemoving Replicas: 2\tElr: \tLastKnownElr: ")
    # What is only being added is not missing.
    assert kraft.succeed("topics", "describe", "--under-replicated-partitions") == ""


# --- elections -----------------------------------------------------------------------------------------------


def test_leaders_are_elected_in_kafkas_words(kraft: Shell, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.place("orders", [1, 2], [2, 1], [1, 2], isr=[2, 1])
    one = ("topics", "elect-leaders", "--election-type", "PREFERRED")
    succeeded = "Successfully completed leader election (PREFERRED) for partitions"
    assert kraft.succeed(*one, "--topic", "orders", "--partition", "0") == f"{succeeded} orders-0\n"
    partitions = [{"topic": "orders", "partition": number} for number in (0, 1, 2)]
    names = file(tmp_path, {"partitions": partitions})
    assert kraft.succeed(*one, "--path-to-json-file", names) == (
        f"{succeeded} orders-2\nValid replica already elected for partitions orders-0, orders-1\n"
    )
    assert kraft.succeed(*one, "--all-topic-partitions") == "No partition needs an election.\n"
    assert leaders(cluster, "orders") == [1, 2, 1]


def test_an_election_that_fails_is_reported_and_fails_the_command(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.place("orders", [1], [2])
    fence(cluster, 1)
    arguments = ("topics", "elect-leaders", "orders", "--partition", "0", "--election-type", "unclean")
    assert kraft.run(*arguments, "--bootstrap-server", "broker-1:9094") == 1
    assert kraft.out.startswith("Error completing leader election (UNCLEAN) for partition: orders-0: ELIGIBLE_LEADERS")
    assert kraft.err == "kraft: 1 replica(s) could not be elected\n"
    preferred = ("topics", "elect-leaders", "--all-topic-partitions", "--election-type", "preferred")
    kraft.run(*preferred, "--bootstrap-server", "broker-1:9094", "--output", "json")
    (output,) = json.loads(kraft.out)
    assert (output["partition"], output["elected"], output["error"]) == (0, False, "PREFERRED_LEADER_NOT_AVAILABLE")


# --- reassign ------------------------------------------------------------------------------------------------


def test_a_plan_is_proposed_that_moves_as_little_as_it_can(kraft: Shell, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.place("orders", [1, 2], [2, 1])
    topics = file(tmp_path, {"version": 1, "topics": [{"topic": "orders"}]})
    arguments = ("topics", "reassign", "--generate", "--topics-to-move-json-file", topics)
    lines = kraft.succeed(*arguments, "--broker-list", "2,3").splitlines()
    assert lines[0] == "Current partition replica assignment"
    assert lines[1] == (
        '{"version":1,"partitions":['
        '{"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"orders","partition":1,"replicas":[2,1],"log_dirs":["any","any"]}]}'
    )
    assert lines[2:4] == ["", "Proposed partition reassignment configuration"]
    proposed = [entry["replicas"] for entry in json.loads(lines[4])["partitions"]]
    assert sorted(proposed) == [[2, 3], [3, 2]]
    assert replicas(cluster, "orders") == [[1, 2], [2, 1]]
    unmoved = json.loads(kraft.succeed(*arguments, "--broker-list", "1,2", "--output", "json"))
    assert unmoved["current"] == unmoved["proposed"]


def test_moves_are_executed_verified_and_listed_in_kafkas_words(
    kraft: Shell, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.place("orders", [1, 2], [2, 1], [1])
    plan = moves(tmp_path, ("orders", 1, [2, 3]), ("orders", 0, [2]), ("orders", 2, [1]))
    on_plan = ("--reassignment-json-file", plan)
    assert kraft.succeed("topics", "reassign", "--verify", *on_plan).splitlines() == [
        "Status of partition reassignment:",
        "There is no active reassignment of partition orders-0, but replica set is 1,2 rather than 2.",
        "There is no active reassignment of partition orders-1, but replica set is 2,1 rather than 2,3.",
        "Reassignment of partition orders-2 is completed.",
    ]
    lines = kraft.succeed("topics", "reassign", "--execute", *on_plan).splitlines()
    assert [lines[0], lines[1], lines[3]] == ["Current partition replica assignment", "", ""]
    assert [entry["replicas"] for entry in json.loads(lines[2])["partitions"]] == [[1, 2], [2, 1], [1]]
    assert lines[4:] == [
        "Save this to use as the --reassignment-json-file option during rollback",
        "Successfully started partition reassignments for orders-0,orders-1,orders-2",
    ]
    assert kraft.succeed("topics", "reassign", "--verify", *on_plan).splitlines()[1:] == [
        "Reassignment of partition orders-0 is completed.",
        "Reassignment of partition orders-1 is still in progress.",
        "Reassignment of partition orders-2 is completed.",
    ]
    statuses = json.loads(kraft.succeed("topics", "reassign", "--verify", *on_plan, "--output", "json"))
    assert [each["status"] for each in statuses] == ["completed", "in progress", "completed"]
    assert kraft.succeed("topics", "reassign", "--list") == (
        "Current partition reassignments:\norders-1: replicas: 2,3,1. adding: 3. removing: 1.\n"
    )
    refused = kraft.fail("topics", "reassign", "--execute", *on_plan)
    assert "Cannot execute because there is an existing partition assignment.  Use --additional" in refused
    assert "Successfully started" in kraft.succeed("topics", "reassign", "--execute", *on_plan, "--additional")


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [
        (NoBrokerReachable({"broker-1:9094": "no answer within the time allowed"}, 10_000), True),
        (Refusal(ErrorCode.REQUEST_TIMED_OUT, "the quorum has not decided in time"), True),
        (Refusal(ErrorCode.INVALID_REQUEST, "it is no request"), False),
    ],
)
def test_moves_without_an_answer_may_have_begun(
    kraft: Shell,
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    is_unknown: bool,
) -> None:
    def fail(*_: object) -> None:
        raise error

    cluster.place("orders", [1])
    plan = moves(tmp_path, ("orders", 0, [2]))
    monkeypatch.setattr("kraft.client.Admin.alter_partition_reassignments", fail)
    execute = ("topics", "reassign", "--execute", "--reassignment-json-file", plan)
    assert kraft.run(*execute, "--bootstrap-server", "broker-1:9094") == 1
    first, *rest = kraft.err.splitlines()
    assert str(error) in first
    look = f"look with kraft topics reassign --reassignment-json-file {plan} --verify"
    assert rest == ([f"kraft: It is unknown whether the moves were started: {look}"] if is_unknown else [])


def test_moves_are_cancelled_in_kafkas_words(kraft: Shell, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.place("orders", [1], [1])
    plan = ("--reassignment-json-file", moves(tmp_path, ("orders", 0, [2]), ("orders", 1, [1])))
    cancel = ("topics", "reassign", "--cancel", *plan)
    assert kraft.succeed(*cancel) == "None of the specified partition reassignments are active.\n"
    kraft.succeed("topics", "reassign", "--execute", *plan, "--output", "json")
    assert kraft.succeed(*cancel) == "Successfully cancelled partition reassignment for: orders-0\n"
    assert replicas(cluster, "orders") == [[1], [1]]
    assert kraft.succeed("topics", "reassign", "--list") == "No partition reassignments found.\n"


def test_what_cannot_be_moved_is_one_line(kraft: Shell, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.place("orders", [1, 2])
    for wanted, words in (
        (("orders", 0, [1, 7]), "Unknown broker id 7"),
        (("orders", 4, [1, 2]), "partition orders-4 does not exist"),
        (("ordres", 0, [1, 2]), "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        refused = kraft.fail("topics", "reassign", "--execute", "--reassignment-json-file", moves(tmp_path, wanted))
        assert words in refused
        assert refused.count("\n") == 1


def test_a_plan_for_brokers_that_are_too_few_or_not_there_is_one_line(
    kraft: Shell, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.place("orders", [1, 2])
    topics = file(tmp_path, {"topics": [{"topic": "orders"}]})
    arguments = ("topics", "reassign", "--generate", "--topics-to-move-json-file", topics, "--broker-list")
    assert "Unknown broker id 9" in kraft.fail(*arguments, "9")
    assert "INVALID_REPLICATION_FACTOR" in kraft.fail(*arguments, "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topics", "alter", "a", "--partitions", "0"], "greater than or equal to 1"),
        (["topics", "alter", "a", "--partitions", "2", "--config", "a=b"], "alter partitions and configs separately"),
        (["topics", "alter", "a", "--replica-assignment", "1:2"], "requires --partitions"),
        (
            ["topics", "alter", "a", "--partitions", "2", "--replica-assignment", "1;2"],
            "is not an assignment: expected ID:ID,ID:ID",
        ),
        (
            ["topics", "alter", "a", "--partitions", "3", "--replica-assignment", "1,2"],
            "of 2 partitions, but --partitions is 3",
        ),
        (
            ["topics", "describe", "--unavailable-partitions", "--under-min-isr-partitions"],
            "cannot be combined: choose one",
        ),
        (["topics", "elect-leaders", "a", "--partition", "0"], "Missing option '--election-type'"),
        (["topics", "elect-leaders", "--election-type", "clean", "--all-topic-partitions"], "'clean' is not one of"),
        (["topics", "elect-leaders", "--election-type", "unclean"], "choose one: a topic with --partition"),
        (["topics", "elect-leaders", "a", "--election-type", "unclean"], "require each other: give both"),
        (
            ["topics", "elect-leaders", "a", "--all-topic-partitions", "--election-type", "unclean"],
            "choose one: a topic with --partition",
        ),
        (["topics", "reassign"], "exactly one is required"),
        (["topics", "reassign", "--list", "--verify"], "exactly one is required"),
        (["topics", "reassign", "--verify"], "requires --reassignment-json-file"),
        (["topics", "reassign", "--generate", "--broker-list", "1"], "requires --topics-to-move-json-file"),
        (["topics", "reassign", "--execute", "--reassignment-json-file", "/nowhere"], "cannot be read"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    kraft: Shell, cluster: FakeCluster, arguments: list[str], words: str
) -> None:
    cluster.place("a", [1])
    assert kraft.run(*arguments) == 2
    assert words in " ".join(kraft.err.replace("│", " ").split())
    assert "Traceback" not in kraft.err


def test_configs_are_those_of_the_topic_and_of_brokers_without_defaults(kraft: Shell, cluster: FakeCluster) -> None:
    for name in ("orders", "payments"):
        cluster.create(name)
    cluster.configs["orders"] = {"retention.ms": "5"}
    cluster.topic_configs_of_files = {"min.insync.replicas": "2"}
    lines = kraft.succeed("topics", "describe").splitlines()
    assert [line.partition("\tConfigs: ")[2] for line in lines if "Configs: " in line] == [
        "min.insync.replicas=2,retention.ms=5",
        "min.insync.replicas=2",
    ]
    described = json.loads(kraft.succeed("topics", "describe", "--output", "json"))
    assert [each["configs"] for each in described] == [
        {"min.insync.replicas": "2", "retention.ms": "5"},
        {"min.insync.replicas": "2"},
    ]
