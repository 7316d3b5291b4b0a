"""Files of `kraft topics reassign` that name log directories, against a fake cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartitionReplica
from kraft.moves.directory_moves import DirectoryMove, in_words
from kraft.moves.throttles import DIRECTORIES_RATE
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.shell import Shell

ON_1 = TopicPartitionReplica("orders", 0, 1)
ON_2 = TopicPartitionReplica("orders", 0, 2)


def on_file(directory: Path, log_dirs: list[str], replicas: tuple[int, ...] = (1, 2)) -> tuple[str, ...]:
    path = directory / "file.json"
    entry = {"topic": "orders", "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}), encoding="utf-8")
    return ("topics", "reassign", "--reassignment-json-file", str(path))


@pytest.fixture
def reassign(cluster: FakeCluster, tmp_path: Path) -> tuple[str, ...]:
    """The command with a file that moves the replica on broker 1 to `/b`, and leaves the one on broker 2."""
    cluster.place("orders", [1, 2])
    cluster.places = {ON_1: "/a", ON_2: "/a"}
    return on_file(tmp_path, ["/b", "any"])


def test_a_replica_moves_throttled_and_is_verified_in_kafkas_words(
    kraft: Shell, cluster: FakeCluster, reassign: tuple[str, ...]
) -> None:
    executed = kraft.succeed(*reassign, "--execute", "--replica-alter-log-dirs-throttle", "2000").splitlines()
    assert executed[-3:] == [
        "The replica-alter-dir throttle limit was set to 2000 B/s",
        "Successfully started partition reassignment for orders-0",
        "Successfully started moving log directory to /b for replica orders-0 with broker 1",
    ]
    assert cluster.broker_configs == {"1": {DIRECTORIES_RATE: "2000"}}
    verified = kraft.succeed(*reassign, "--verify").splitlines()
    assert verified[-1] == "Reassignment of replica orders-0-1 is still in progress."
    assert kraft.err == ""
    (status,) = json.loads(kraft.succeed(*reassign, "--verify", "--output", "json"))
    assert status["log_dirs"] == [
        {
            "broker": 1,
            "status": "in progress",
            "log_dir": "/a",
            "future_log_dir": "/b",
            "target_log_dir": "/b",
        }
    ]
    assert cluster.broker_configs == {"1": {DIRECTORIES_RATE: "2000"}}
    cluster.places[ON_1] = cluster.copies.pop(ON_1)
    assert kraft.succeed(*reassign, "--verify").splitlines()[2:] == [
        "Reassignment of replica orders-0-1 completed successfully.",
        "Clearing broker-level throttles on broker 1",
        f"Removed {DIRECTORIES_RATE}=2000 of broker 1.",
    ]
    assert cluster.broker_configs == {"1": {}}


def test_the_rate_stays_while_the_broker_moves_another_replica_or_the_file_moves_none(
    kraft: Shell, cluster: FakeCluster, reassign: tuple[str, ...], tmp_path: Path
) -> None:
    cluster.broker_configs = {"1": {DIRECTORIES_RATE: "2000"}}
    cluster.places[ON_1] = "/b"
    payments = TopicPartitionReplica("payments", 0, 1)
    cluster.places[payments], cluster.copies[payments] = "/a", "/b"
    kraft.succeed(*reassign, "--verify")
    assert kraft.err == (
        f"kraft: {DIRECTORIES_RATE} stays on broker 1, where replicas move between log "
        "directories: verify again later\n"
    )
    cluster.copies.clear()
    kraft.succeed(*on_file(tmp_path, ["any", "any"]), "--verify")
    assert cluster.broker_configs == {"1": {DIRECTORIES_RATE: "2000"}}
    kraft.succeed(*on_file(tmp_path, ["/b", "any"]), "--verify")
    assert cluster.broker_configs == {"1": {}}


def test_a_move_is_cancelled_by_staying(kraft: Shell, cluster: FakeCluster, reassign: tuple[str, ...]) -> None:
    kraft.succeed(*reassign, "--execute", "--replica-alter-log-dirs-throttle", "2000", "--output", "json")
    assert cluster.copies == {ON_1: "/b"}
    assert kraft.succeed(*reassign, "--cancel").splitlines()[:2] == [
        "None of the specified partition reassignments are active.",
        "Successfully started moving log directory to /a for replica orders-0 with broker 1",
    ]
    assert (cluster.copies, cluster.broker_configs) == ({}, {"1": {}})
    assert "None of the specified partition moves are active." in kraft.succeed(*reassign, "--cancel")


def test_a_replica_that_is_new_on_its_broker_is_waited_for(
    kraft: Shell, cluster: FakeCluster, reassign: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_3 = TopicPartitionReplica("orders", 0, 3)
    reassign = on_file(tmp_path, ["any", "/b"], (1, 3))
    # It cannot be there in time.
    assert kraft.run(*reassign, "--execute", "--timeout-ms", "100", "--bootstrap-server", "broker-1:9094") == 1
    assert kraft.err.startswith("kraft: Timed out before log directory moves could be started for orders-0-3: their")

    monkeypatch.setattr("kraft.moves.directory_moves.time.sleep", lambda _: cluster.places.update({on_3: "/b"}))
    assert "log directory to /b for replica orders-0 with broker 3" in kraft.succeed(
        *reassign, "--execute", "--additional"
    )


@pytest.mark.parametrize(
    ("log_dirs", "options", "words"),
    [
        (["/c", "any"], (), "broker 1 has no log directory /c: it has /a, /b"),
        (["any", "any"], ("--replica-alter-log-dirs-throttle", "1"), "the file names no log_dirs: remove --replica"),
        (["any", "/b"], (), "broker 2 is not in service: start it, or remove its log_dirs"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_moved(
    kraft: Shell,
    cluster: FakeCluster,
    reassign: tuple[str, ...],
    tmp_path: Path,
    log_dirs: list[str],
    options: tuple[str, ...],
    words: str,
) -> None:
    cluster.brokers[2].is_up = False
    assert words in kraft.fail(*on_file(tmp_path, log_dirs), "--execute", *options)
    assert cluster.copies == {}
    assert "broker-1:9094 alter_partition_reassignments" not in cluster.calls


def test_a_broker_that_refuses_is_one_line(kraft: Shell, cluster: FakeCluster, reassign: tuple[str, ...]) -> None:
    refusal = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "log directory /b is offline")
    cluster.brokers[1].refusals["alter_replica_log_dirs"] = refusal
    kraft.run(*reassign, "--execute", "--bootstrap-server", "broker-1:9094")
    assert kraft.err == f"kraft: Error moving replica orders-0-1 to /b: {refusal}\n"


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (
            DirectoryMove(target="/b", current="/a", future="/c"),
            "Partition orders-0 on broker 1 is being moved to log dir /c instead of /b.",
        ),
        (
            DirectoryMove(target="/b", current="/a"),
            "Partition orders-0 on broker 1 is not being moved from log dir /a to /b.",
        ),
        (
            DirectoryMove(target="/b"),
            "Partition orders-0 cannot be found in any live log directory on broker 1.",
        ),
    ],
)
def test_other_states_are_kafkas_words(move: DirectoryMove, words: str) -> None:
    assert in_words(ON_1, move) == words
