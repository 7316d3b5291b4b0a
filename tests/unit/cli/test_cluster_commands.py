"""`kraft quorum`, `brokers` and `features` from their arguments to what they print, against a fake cluster."""

from __future__ import annotations

import json

from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell


def test_the_quorum_is_described_as_kafkas_own_command_does(kraft: Shell) -> None:
    assert kraft.succeed("quorum", "describe", "--status").splitlines() == [
        "ClusterId:              kJ2Yk0mVT0ma0wV2Yk0mVQ",
        "LeaderId:               2",
        "LeaderEpoch:            5",
        "HighWatermark:          41",
        "MaxFollowerLag:         41",
        "MaxFollowerLagTimeMs:   -1",
        "CurrentVoters:          [1,2,3]",
        "CurrentObservers:       [7]",
    ]
    lines = kraft.succeed("quorum", "describe", "--replication").splitlines()
    assert [line.split() for line in lines] == [
        ["NodeId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"],
        ["2", "41", "0", "1000", "1000", "Leader"],
        ["1", "40", "1", "995", "900", "Follower"],
        ["3", "-1", "-1", "995", "-1", "Follower"],
        ["7", "41", "0", "990", "990", "Observer"],
    ]
    assert kraft.succeed("quorum", "describe").splitlines() == [
        *kraft.succeed("quorum", "describe", "--status").splitlines(),
        "",
        *lines,
    ]
    human = kraft.succeed("quorum", "describe", "--replication", "--human-readable").splitlines()
    assert human[2].split() == ["1", "40", "1", "5", "ms", "ago", "100", "ms", "ago", "Follower"]


def test_the_quorum_as_json_keeps_its_names(kraft: Shell) -> None:
    described = json.loads(kraft.succeed("quorum", "describe", "--output", "json"))
    assert {"leader_id", "leader_epoch", "high_watermark", "voters", "observers"} <= set(described)
    assert described["voters"][0]["lag"] == 1


def test_a_voter_that_the_leader_does_not_hear_is_unreachable_and_a_line_says_what_that_means(
    kraft: Shell, cluster: FakeCluster
) -> None:
    cluster.unreachable_voters = {3}
    rows = [line.split()[-1] for line in kraft.succeed("quorum", "describe", "--replication").splitlines()]
    assert rows == ["Status", "Leader", "Follower", "Unreachable", "Observer"]
    warning = "voter 3 unreachable since 00:00:00 UTC; losing one more stops all changes"
    assert kraft.err == f"kraft: {warning}\n"
    described = json.loads(kraft.succeed("quorum", "describe", "--output", "json"))
    assert described["warnings"] == [warning]
    assert [voter["unreachable"] for voter in described["voters"]] == [False, False, True]


# --- brokers, features -------------------------------------------------------------------------------------------


def test_brokers_are_listed_with_their_state(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.fenced.add(2)
    rows = [line.split() for line in kraft.succeed("brokers", "list").splitlines()]
    assert rows == [
        ["BrokerId", "State", "Addresses", "Rack", "Epoch", "Leaders", "Replicas", "InSync", "LogDirs"],
        ["1", "in-service", "GRPC://broker-1:9094", "a", "11", "2", "6", "5", "1"],
        ["2", "fenced", "GRPC://broker-2:9094", "-", "12", "2", "6", "5", "1"],
        ["3", "shutting-down", "GRPC://broker-3:9094", "-", "13", "2", "6", "5", "1"],
    ]
    listed = json.loads(kraft.succeed("brokers", "list", "--output", "json"))
    assert [(each["broker_id"], each["state"], each["fenced_by_operator"]) for each in listed] == [
        (1, "in-service", False),
        (2, "fenced", True),
        (3, "shutting-down", False),
    ]


def test_log_directories_of_a_broker_that_is_not_in_service_are_said_to_be_left_out(
    kraft: Shell, cluster: FakeCluster
) -> None:
    kraft.succeed("brokers", "log-dirs")
    assert kraft.err == ""
    cluster.brokers[2].is_up = False
    shown = kraft.succeed("brokers", "log-dirs")
    assert {line.split()[0] for line in shown.splitlines()} == {"BrokerId", "1", "3"}
    assert kraft.err == "kraft: left out, because not in service: 2\n"
    assert kraft.fail("brokers", "log-dirs", "2") == "kraft: broker 2 is not in service\n"


def test_one_broker_is_described(kraft: Shell) -> None:
    lines = dict(line.split(":", 1) for line in kraft.succeed("brokers", "describe", "1").splitlines())
    assert lines["State"].strip() == "in-service"
    assert lines["Features"].strip() == "metadata.version 1 to 2"
    assert json.loads(kraft.succeed("brokers", "describe", "1", "--output", "json"))["epoch"] == 11
    assert kraft.fail("brokers", "describe", "9") == "kraft: BROKER_ID_NOT_REGISTERED: there is no broker 9\n"


def test_a_broker_is_fenced_unfenced_and_unregistered(kraft: Shell, cluster: FakeCluster) -> None:
    assert kraft.succeed("brokers", "fence", "1") == "Broker 1 is fenced.\n"
    assert cluster.fenced == {1}
    assert kraft.succeed("brokers", "fence", "1") == "Broker 1 is already fenced.\n"
    assert kraft.succeed("brokers", "unfence", "1") == "Operator fence of broker 1 removed.\n"
    assert cluster.fenced == set()
    assert kraft.succeed("brokers", "unfence", "1") == "Broker 1 has no operator fence.\n"
    assert kraft.succeed("brokers", "unregister", "1") == "Broker 1 unregistered.\n"
    assert cluster.unregistered == {1}
    assert kraft.err == (
        "kraft: node 1 is one of 3 controllers and stays one: keep its process running, or none of the others may fail;"
        " to remove a controller is not supported yet\n"
    )
    assert "there is no broker 1" in kraft.fail("brokers", "describe", "1")


def test_fencing_that_costs_a_leader_requires_force(kraft: Shell, cluster: FakeCluster) -> None:
    assert "without a leader" in kraft.fail("brokers", "fence", "2")
    assert cluster.fenced == set()
    forced = json.loads(kraft.succeed("brokers", "fence", "2", "--force", "--output", "json"))
    assert forced == {"broker_id": 2, "fenced": True, "leaderless": ["orders-0"]}
    assert cluster.fenced == {2}


def test_feature_levels_are_described_and_raised(kraft: Shell) -> None:
    assert kraft.succeed("features", "describe") == (
        "Feature: metadata.version\tSupportedMinVersion: 1\tSupportedMaxVersion: 2\tFinalizedVersionLevel: 1\t"
        "Epoch: 41\n"
    )
    upgrade = ("features", "upgrade", "--feature", "metadata.version=2")
    assert kraft.succeed(*upgrade, "--dry-run") == "metadata.version can be upgraded to 2.\n"
    assert kraft.succeed(*upgrade) == "metadata.version was upgraded to 2.\n"
    assert kraft.succeed(*upgrade) == "metadata.version is already at 2.\n"
    described = json.loads(kraft.succeed("features", "describe", "--output", "json"))
    assert described["features"][0]["finalized_level"] == 2
    assert kraft.run("features", "upgrade", "--feature", "metadata.version") == 2
    assert "is not NAME=LEVEL" in kraft.err
