"""`kraft groups` from arguments to what it prints, against a fake cluster."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.scripted_groups import ScriptedGroup
from tests.unit.cli.shell import Shell

O0, O1, O2 = (tp("orders", number) for number in range(3))


@pytest.fixture(autouse=True)
def topics(cluster: FakeCluster) -> None:
    """Partitions of `orders` with the offsets 0 to 4, each record a minute old or older."""
    cluster.create("orders", partitions=3)
    cluster.create("users")
    for number in range(3):
        fill(cluster, "orders", number, *(now_ms() - 60_000 * (5 - offset) for offset in range(5)))


def now_ms() -> int:
    return int(time.time() * 1_000)


def fill(cluster: FakeCluster, topic: str, partition: int, *timestamps_ms: int) -> None:
    records = [Record(-1, timestamp_ms, None, b"value") for timestamp_ms in timestamps_ms]
    cluster.partition(topic, partition).append(build_batch(records))


def cells(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


# --- list ------------------------------------------------------------------------------------------------------


def test_groups_of_all_coordinators_are_listed(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups = {
        "c": ScriptedGroup(state="Stable"),
        "bb": ScriptedGroup(type="classic", protocol_type="connect", state="Stable"),
        "aaa": ScriptedGroup(type="classic", protocol_type=""),
    }
    assert kraft.succeed("groups", "list") == (
        "GROUP  TYPE      PROTOCOL  STATE\n"
        "aaa    classic   -         Empty\n"
        "bb     classic   connect   Stable\n"
        "c      consumer  consumer  Stable\n"
    )
    listed = kraft.succeed("groups", "list", "--state", "stable,EMPTY", "--type", "classic", "--output", "json")
    assert [each["group"] for each in json.loads(listed)] == ["aaa", "bb"]
    assert cells(kraft.succeed("groups", "list", "--state", "Empty"))[1:] == [["aaa", "classic", "-", "Empty"]]


# --- describe --------------------------------------------------------------------------------------------------


def test_offsets_lag_and_readers_are_described_in_kafkas_columns(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups["billing"] = ScriptedGroup(
        state="Stable",
        readers={"m-1": [O1, O0], "m-2": [O2], "idle": []},
        offsets={O0: 3, O1: 5, tp("users"): 0},
    )
    titles, *rows = cells(kraft.succeed("groups", "describe", "billing"))
    assert titles == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"),
        "LAG-SECONDS",
    ]
    assert [row[:9] for row in rows] == [
        ["billing", "orders", "0", "3", "5", "2", "m-1", "/10.0.0.1", "a"],
        ["billing", "orders", "1", "5", "5", "0", "m-1", "/10.0.0.1", "a"],
        ["billing", "orders", "2", "-", "5", "-", "m-2", "/10.0.0.1", "a"],
        ["billing", "users", "0", "0", "0", "0", "-", "-", "-"],
    ]
    assert int(rows[0][-1]) >= 120
    assert [row[-1] for row in rows[1:]] == ["0", "-", "0"]
    assert kraft.err == ""


def test_a_description_as_json_says_what_is_known(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups["billing"] = ScriptedGroup(
        type="classic", state="Stable", readers={"m": [O0]}, offsets={O0: 4}
    )
    before_ms = now_ms()
    (described,) = json.loads(kraft.succeed("groups", "describe", "--group", "billing", "--output", "json"))
    (partition,) = described.pop("partitions")
    assert described == {"group": "billing", "type": "classic", "state": "Stable"}
    assert partition.pop("lag_seconds") >= (before_ms - now_ms()) / 1_000 + 60
    assert partition == {
        "topic": "orders",
        "partition": 0,
        "current_offset": 4,
        "leader_epoch": None,
        "metadata": "note",
        "log_end_offset": 5,
        "lag": 1,
        "consumer_id": "m",
        "host": "/10.0.0.1",
        "client_id": "a client",
        "upgraded": None,
    }


def test_a_partition_without_a_leader_or_of_a_deleted_topic_does_not_delay_the_others(
    kraft: Shell, cluster: FakeCluster
) -> None:
    cluster.scripted_groups["billing"] = ScriptedGroup(offsets={O0: 4, O1: 4, tp("gone"): 7})
    cluster.move_leader("orders", 1, -1)
    rows = cells(kraft.succeed("groups", "describe", "billing", "--timeout-ms", "600000"))[1:]
    assert [row[1:6] for row in rows] == [
        ["gone", "0", "7", "-", "-"],
        ["orders", "0", "4", "5", "1"],
        ["orders", "1", "4", "-", "-"],
    ]


def test_an_offset_above_the_log_end_is_a_negative_lag_as_in_kafka(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups["billing"] = ScriptedGroup(offsets={O0: 9})
    (row,) = cells(kraft.succeed("groups", "describe", "billing"))[1:]
    assert (row[3:6], row[-1]) == (["9", "5", "-4"], "0")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("Empty", "Consumer group 'billing' has no active members.\n"),
        ("Reconciling", "Warning: Consumer group 'billing' is rebalancing.\n"),
        ("PreparingRebalance", "Warning: Consumer group 'billing' is rebalancing.\n"),
        ("Stable", ""),
    ],
)
def test_what_kafka_says_about_a_state_is_said_beside_the_table(
    kraft: Shell, cluster: FakeCluster, state: str, message: str
) -> None:
    cluster.scripted_groups["billing"] = ScriptedGroup(state=state)
    assert kraft.succeed("groups", "describe", "billing") == ""
    assert kraft.err == message


def test_all_groups_are_described(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups = {
        "b": ScriptedGroup(offsets={O0: 1}),
        "aa": ScriptedGroup(type="classic", offsets={O1: 2}),
    }
    rows = cells(kraft.succeed("groups", "describe", "--all-groups", "--verbose"))
    assert rows[0][3] == "LEADER-EPOCH"
    assert [row[:5] for row in rows[1:]] == [["aa", "orders", "1", "-", "2"], ["b", "orders", "0", "-", "1"]]
    assert [each[0] for each in cells(kraft.succeed("groups", "describe", "aa", "b", "--group", "aa"))[1:]] == [
        "aa",
        "b",
    ]


def test_a_group_that_does_not_exist_is_one_line(kraft: Shell, cluster: FakeCluster) -> None:
    for command in ("describe", "members", "state"):
        assert kraft.fail("groups", command, "biling") == "kraft: GROUP_ID_NOT_FOUND: there is no group 'biling'\n"


def test_groups_that_do_not_exist_do_not_hide_the_others(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups["billing"] = ScriptedGroup(state="Stable", readers={"m": [O0]}, offsets={O0: 4})
    for command in ("describe", "members", "state"):
        for options in ([], ["--output", "json"]):
            arguments = ("groups", command, "biling", "billing", "bills", *options)
            assert kraft.run(*arguments, "--bootstrap-server", "broker-1:9094") == 1
            assert kraft.err == "kraft: GROUP_ID_NOT_FOUND: there are no groups 'biling', 'bills'\n"
            if options:
                assert [each["group"] for each in json.loads(kraft.out)] == ["billing"]
            else:
                assert [row[0] for row in cells(kraft.out)] == ["GROUP", "billing"]


# --- members and state -----------------------------------------------------------------------------------------


def test_members_are_described_in_kafkas_columns(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups["g"] = ScriptedGroup(state="Stable", readers={"m-1": [O1, O0, tp("users")], "m-2": []})
    assert kraft.succeed("groups", "members", "g") == (
        "GROUP  CONSUMER-ID  HOST       CLIENT-ID  #PARTITIONS\n"
        "g      m-1          /10.0.0.1  a client   3\n"
        "g      m-2          /10.0.0.1  a client   0\n"
    )
    cluster.scripted_groups["g"].instance_ids["m-2"] = "static"
    titles, first, second = kraft.succeed("groups", "members", "g", "--verbose").splitlines()
    assert titles.split()[2] == "GROUP-INSTANCE-ID"
    assert titles.split()[-4:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert first.split()[-4:] == ["6", "orders:0,1;users:0", "7", "orders:1"]
    assert second.split() == ["g", "m-2", "static", "/10.0.0.1", "a", "client", "0", "6", "-", "7", "-"]


def test_members_of_a_classic_group_have_no_epochs(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups["g"] = ScriptedGroup(type="classic", state="Stable", readers={"m": [O0, O2]})
    row = cells(kraft.succeed("groups", "members", "g", "--verbose"))[1]
    assert row[-5:] == ["2", "-", "orders:0,2", "-", "-"]
    (described,) = json.loads(kraft.succeed("groups", "members", "g", "--output", "json"))
    assert described["members"] == [
        {
            "consumer_id": "m",
            "group_instance_id": None,
            "host": "/10.0.0.1",
            "client_id": "a client",
            "member_epoch": None,
            "upgraded": None,
            "assignment": [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 2}],
            "target_assignment": None,
        }
    ]


def test_a_group_of_both_protocols_shows_which_members_are_upgraded(kraft: Shell, cluster: FakeCluster) -> None:
    readers = {"new": [O0], "old": [O1]}
    cluster.scripted_groups = {
        "g": ScriptedGroup(state="Stable", readers=readers, classic_members={"old"}),
        "hh": ScriptedGroup(type="classic", state="Stable", readers={"m": [O2]}),
        "iii": ScriptedGroup(state="Stable", readers={"old": [O2]}, classic_members={"old"}),
    }
    titles, *rows = cells(kraft.succeed("groups", "members", "g", "hh", "--verbose"))
    assert titles[-1] == "UPGRADED"
    assert [(row[1], row[-1]) for row in rows] == [("new", "true"), ("old", "false"), ("m", "-")]
    assert "UPGRADED" not in kraft.succeed("groups", "members", "g")
    assert "UPGRADED" not in kraft.succeed("groups", "members", "hh", "iii", "--verbose")
    members = json.loads(kraft.succeed("groups", "members", "g", "iii", "--output", "json"))
    assert [[each["upgraded"] for each in group["members"]] for group in members] == [[True, False], [False]]
    (described,) = json.loads(kraft.succeed("groups", "describe", "g", "--output", "json"))
    assert [(each["consumer_id"], each["upgraded"]) for each in described["partitions"]] == [
        ("new", True),
        ("old", False),
    ]


def test_the_state_of_groups_is_described_in_kafkas_columns(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups = {
        "g": ScriptedGroup(state="Stable", readers={"m": []}),
        "hh": ScriptedGroup(type="classic", assignor=""),
    }
    assert kraft.succeed("groups", "state", "g", "hh") == (
        "GROUP  COORDINATOR (ID)   ASSIGNMENT-STRATEGY  STATE   #MEMBERS\n"
        "g      broker-2:9094 (2)  uniform              Stable  1\n"
        "hh     broker-3:9094 (3)  -                    Empty   0\n"
    )
    rows = cells(kraft.succeed("groups", "state", "--all-groups", "--verbose"))
    assert rows[0][5:] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert [row[-3:] for row in rows[1:]] == [["8", "7", "1"], ["-", "-", "0"]]
    (described,) = json.loads(kraft.succeed("groups", "state", "g", "--output", "json"))
    assert described == {
        "group": "g",
        "type": "consumer",
        "state": "Stable",
        "protocol": "consumer",
        "coordinator": {"broker_id": 2, "host": "broker-2", "port": 9094},
        "assignor": "uniform",
        "group_epoch": 8,
        "target_assignment_epoch": 7,
        "members": 1,
    }


# --- delete ----------------------------------------------------------------------------------------------------


def test_groups_without_members_are_deleted(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups = {"a": ScriptedGroup(), "bb": ScriptedGroup(type="classic"), "ccc": ScriptedGroup()}
    assert cells(kraft.succeed("groups", "delete", "a")) == [["GROUP", "STATUS"], ["a", "Successful"]]
    deleted = json.loads(kraft.succeed("groups", "delete", "--all-groups", "--output", "json"))
    assert [(each["group"], each["deleted"], each["error"]) for each in deleted] == [
        ("bb", True, None),
        ("ccc", True, None),
    ]
    assert cluster.scripted_groups == {}
    assert kraft.succeed("groups", "delete", "--all-groups") == "GROUP  STATUS\n"


def test_a_group_that_cannot_be_deleted_is_reported_and_fails_the_command(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups = {"live": ScriptedGroup(readers={"m": []}), "empty": ScriptedGroup()}
    arguments = ("groups", "delete", "live", "empty", "none", "--bootstrap-server", "broker-1:9094")
    assert kraft.run(*arguments) == 1
    assert kraft.out.splitlines()[1:] == [
        "live   Error: NON_EMPTY_GROUP: group 'live' has members: stop them first",
        "empty  Successful",
        "none   Error: GROUP_ID_NOT_FOUND: there is no group 'none'",
    ]
    assert kraft.err == "kraft: 2 groups could not be deleted\n"
    assert list(cluster.scripted_groups) == ["live"]


def test_committed_offsets_are_deleted_by_topic_and_partition(kraft: Shell, cluster: FakeCluster) -> None:
    group = ScriptedGroup(offsets={O0: 1, O1: 2, O2: 3, tp("users"): 4, tp("gone"): 5})
    cluster.scripted_groups["g"] = group
    out = kraft.succeed("groups", "delete-offsets", "g", "--topic", "orders:0,2", "--topic", "gone")
    assert cells(out) == [
        ["TOPIC", "PARTITION", "STATUS"],
        ["gone", "0", "Successful"],
        ["orders", "0", "Successful"],
        ["orders", "2", "Successful"],
    ]
    assert group.offsets == {O1: 2, tp("users"): 4}
    kraft.succeed("groups", "delete-offsets", "--group", "g", "--topic", "orders")
    assert group.offsets == {tp("users"): 4}
    refused = kraft.fail("groups", "delete-offsets", "g", "--topic", "orders")
    assert "group 'g' has no committed offset of topic 'orders'" in refused
    assert "GROUP_ID_NOT_FOUND" in kraft.fail("groups", "delete-offsets", "h", "--topic", "orders")


def test_offsets_of_topics_that_are_read_are_kept(kraft: Shell, cluster: FakeCluster) -> None:
    cluster.scripted_groups["g"] = ScriptedGroup(
        offsets={O0: 1, O1: 2}, refused={O0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    )
    arguments = ("groups", "delete-offsets", "g", "--topic", "orders", "--output", "json")
    assert kraft.run(*arguments, "--bootstrap-server", "broker-1:9094") == 1
    assert json.loads(kraft.out) == [
        {"topic": "orders", "partition": 0, "deleted": False, "error": "GROUP_SUBSCRIBED_TO_TOPIC"},
        {"topic": "orders", "partition": 1, "deleted": True, "error": None},
    ]
    assert kraft.err == "kraft: 1 offset could not be deleted\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["groups", "describe"], "no group is given: name one, or use --all-groups"),
        (["groups", "members"], "no group is given"),
        (["groups", "state", "g", "--all-groups"], "cannot be used with the id of a group"),
        (["groups", "list", "--state", "stable,alive"], "'alive' is not one of Empty, Assigning"),
        (["groups", "list", "--state", ""], "a name is empty: expected one of Empty, Assigning"),
        (["groups", "list", "--type", "share"], "'share' is not one of classic, consumer"),
        (["groups", "delete-offsets", "g"], "no topic is given: name one"),
        (["groups", "delete-offsets", "--topic", "orders"], "no group is given: name one"),
        (["groups", "delete-offsets", "g", "--group", "h", "--topic", "orders"], "two groups are given, g and h"),
        (["groups", "delete-offsets", "g", "--topic", "orders:x"], "expected TOPIC or TOPIC:0,1,2"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(kraft: Shell, arguments: list[str], words: str) -> None:
    assert kraft.run(*arguments) == 2
    assert words in " ".join(kraft.err.replace("│", " ").split())
    assert "Traceback" not in kraft.err


def test_the_option_of_old_tools_is_refused_with_its_replacement(kraft: Shell, tmp_path: Path) -> None:
    assert kraft.run("groups", "list", "--zookeeper", "localhost:2181") == 1
    assert "use --bootstrap-server" in kraft.err


# --- many --------------------------------------------------------------------------------------------------------


def test_many_groups_are_asked_about_together(kraft: Shell, cluster: FakeCluster) -> None:
    groups = {f"group-{number:03}": ScriptedGroup(offsets={O0: number % 5}) for number in range(150)}
    cluster.scripted_groups = groups
    for command in ("state", "describe"):
        cluster.calls.clear()
        lines = cells(kraft.succeed("groups", command, "--all-groups"))
        assert [each[0] for each in lines[1:]] == sorted(groups)
        assert len(cluster.calls) < 50
