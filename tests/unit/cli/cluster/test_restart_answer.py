from __future__ import annotations

import json
from typing import Any

import pytest

from kraft.cli.cluster import facts as gathering
from kraft.cli.cluster import restart_answer
from kraft.cli.cluster.restart_answer import answer
from kraft.cli.options import Output
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.health.findings import ClusterFacts
from tests.support.cluster_facts import broker, facts, log_directory, partition
from tests.unit.cli.shell import Shell

FULL = [log_directory("/data", reason="the disk of /data is full")]


@pytest.fixture(name="found")
def _found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Facts that differ from those of a healthy cluster; with `error`, they cannot be found out."""
    changes: dict[str, Any] = {"partitions": [partition()]}

    def gather(bootstrap_server: str, timeout_ms: int, **_: bool) -> ClusterFacts:
        if "error" in changes:
            raise changes["error"]
        return facts(**changes)

    monkeypatch.setattr(gathering, "gather", gather)
    monkeypatch.setattr(restart_answer, "gather", gather)
    return changes


def answered(capsys: pytest.CaptureFixture[str], *node_ids: int) -> tuple[int, list[str], str]:
    """Return the exit code, the lines on standard output, and what is on standard error."""
    code = answer(node_ids, "b:9094", 1_000, Output.TABLE)
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def test_a_safe_restart_is_one_line_and_notes(capsys: pytest.CaptureFixture[str], found: dict[str, Any]) -> None:
    assert answered(capsys, 3) == (
        0,
        ["Node 3 may be restarted: 1 replica here: each partition keeps a leader and its minimum in sync."],
        "",
    )
    found["brokers"] = [broker(1, replicas=0)]
    assert answered(capsys, 1) == (
        0,
        [
            "Node 1 may be restarted: no replica is here.",
            "Note: node 1 is the active controller: another one takes over.",
        ],
        "",
    )


@pytest.mark.parametrize(
    ("node_id", "changes", "many"),
    [
        (3, {"brokers": [broker(1), broker(2, fenced=True), broker(3, fenced=True)]}, "1 partition"),
        (3, {"partitions": [partition(0, isr=(1, 2))], "directories": {2: FULL}}, "1 partition"),
        (3, {"partitions": [partition(each, isr=(1,), elr=(3,)) for each in (0, 1)]}, "2 partitions"),
    ],
    ids=["it is fenced, and so is another", "it is not in sync, and another's disk is full", "it is eligible"],
)
def test_who_is_missed_by_nobody_is_not_said_to_leave_a_minimum_in_sync(
    capsys: pytest.CaptureFixture[str], found: dict[str, Any], node_id: int, changes: dict[str, Any], many: str
) -> None:
    found |= changes
    code, lines, _ = answered(capsys, node_id)
    here = "1 replica here: nothing gets worse"
    assert (code, lines[0]) == (
        0,
        f"Node {node_id} may be restarted: {here}, but {many} below min.insync.replicas already.",
    )


def test_what_is_not_safe_is_a_summary_and_a_row_for_each_partition(
    capsys: pytest.CaptureFixture[str], found: dict[str, Any]
) -> None:
    found["partitions"] = [partition(0, isr=(1, 2)), partition(1, isr=(2,))]
    found["brokers"] = [broker(1, replicas=2), broker(2, replicas=2)]
    code, lines, _ = answered(capsys, 2, 1)
    assert code == 1
    why = "2 partitions would have no leader, and the controllers would have no majority"
    assert lines == [
        f"Nodes 1 and 2 should not be restarted together now: {why}.",
        "Controllers: 1 of 3 controllers would be left that count, and 2 are needed: no metadata could change.",
        "Partition  WithoutThem",
        "orders-0   would have no leader: no other is in sync",
        "orders-1   would have no leader: no other is in sync",
        "Note: 1 replica here not in sync yet: a restart delays that.",
    ]


def test_a_table_of_many_partitions_ends_and_the_json_has_all(
    capsys: pytest.CaptureFixture[str], found: dict[str, Any]
) -> None:
    found["partitions"] = [partition(number, isr=(1, 2)) for number in range(50)]
    code, lines, _ = answered(capsys, 2)
    assert (code, lines[-1]) == (1, "and 30 partitions more: see --output json")
    assert answer([2], "b:9094", 1_000, Output.JSON) == 1
    report = json.loads(capsys.readouterr().out)
    assert len(report["partitions"]) == 50
    assert report["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "loss": "min-isr",
        "what": "would have 1 in sync, below min.insync.replicas=2",
    }


def test_what_could_not_be_found_out_has_an_exit_code_of_its_own(
    capsys: pytest.CaptureFixture[str], found: dict[str, Any]
) -> None:
    found["error"] = NoBrokerReachable({"b:9094": "connection refused"}, 1_000)
    code, lines, error = answered(capsys, 3)
    assert (code, lines) == (2, [])
    assert error.startswith("kraft: it could not be found out whether a restart is safe: no broker answered within 1 s")
    assert answer([3], "b:9094", 1_000, Output.JSON) == 2
    assert json.loads(capsys.readouterr().out)["safe"] is None


def test_the_state_of_the_cluster_is_one_line(kraft: Shell, found: dict[str, Any]) -> None:
    assert kraft.run("health") == 0
    assert kraft.out == (
        "healthy: controller 1 active, 3 of 3 voters up, 3 of 3 brokers in service, 1 partition in 1 topic\n"
    )
    found["brokers"] = [broker(1), broker(2, fenced_by_operator=True), broker(3)]
    assert kraft.run("health") == 3
    assert kraft.out == "degraded: broker 2 is fenced by an operator (what to do: kraft cluster health)\n"
    found["partitions"] = [partition(leader=-1)]
    assert kraft.run("health") == 4
    assert kraft.out == (
        "critical: 1 partition without a leader: orders-0, and 1 more (what to do: kraft cluster health)\n"
    )
