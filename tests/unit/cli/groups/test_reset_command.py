"""`kraft groups reset-offsets` from arguments to committed offsets, against a fake cluster."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kraft.cli.groups.reset import STOP_FIRST
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.scripted_groups import ScriptedGroup
from tests.unit.cli.shell import Shell

O0, O1 = tp("orders", 0), tp("orders", 1)
DRY_RUN = "Dry run: nothing was changed. Add --execute to commit these offsets.\n"
AT_NOON_MS = 1_795_348_800_000
"""2026-11-22, 12:00 in UTC."""


@pytest.fixture(autouse=True)
def group(cluster: FakeCluster) -> ScriptedGroup:
    """A group without members that has read a part of `orders`, whose records are from noon on, a minute apart."""
    cluster.create("orders", partitions=2)
    cluster.create("users")
    for partition in cluster.topics["orders"]:
        records = [Record(-1, AT_NOON_MS + 60_000 * minute, None, b"value") for minute in range(10)]
        partition.append(build_batch(records))
        partition.log_start_offset = 2
    cluster.scripted_groups["g"] = ScriptedGroup(offsets={O0: 5, O1: 6})
    return cluster.scripted_groups["g"]


def reset(kraft: Shell, *arguments: str) -> str:
    return kraft.succeed("groups", "reset-offsets", "g", *arguments)


def test_without_execute_only_the_plan_is_shown(kraft: Shell, group: ScriptedGroup) -> None:
    assert reset(kraft, "--all-topics", "--to-earliest") == (
        "GROUP  TOPIC   PARTITION  NEW-OFFSET  CURRENT-OFFSET\n"
        "g      orders  0          2           5\n"
        "g      orders  1          2           6\n"
    )
    assert kraft.err == DRY_RUN
    assert reset(kraft, "--all-topics", "--to-earliest", "--dry-run") == kraft.out
    assert group.offsets == {O0: 5, O1: 6}


def test_with_execute_the_offsets_are_committed(kraft: Shell, group: ScriptedGroup) -> None:
    assert "g      orders  0          10          5" in reset(kraft, "--all-topics", "--to-latest", "--execute")
    assert kraft.err == ""
    assert group.offsets == {O0: 10, O1: 10}


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (("--to-earliest",), {O0: 2, O1: 2}),
        (("--to-latest",), {O0: 10, O1: 10}),
        (("--to-current",), {O0: 5, O1: 6}),
        (("--to-offset", "7"), {O0: 7, O1: 7}),
        (("--shift-by", "-2"), {O0: 3, O1: 4}),
        (("--shift-by", "2"), {O0: 7, O1: 8}),
        (("--to-datetime", "2026-11-22T12:03:30.000"), {O0: 4, O1: 4}),
        (("--to-datetime", "2026-11-22T14:03:00.000+02:00"), {O0: 3, O1: 3}),
    ],
)
def test_each_target_is_committed(
    kraft: Shell, group: ScriptedGroup, target: tuple[str, ...], offsets: dict[object, int]
) -> None:
    reset(kraft, "--all-topics", *target, "--execute")
    assert group.offsets == offsets


def test_a_duration_counts_back_from_now(kraft: Shell, cluster: FakeCluster, group: ScriptedGroup) -> None:
    now_ms = int(time.time() * 1_000)
    records = [Record(-1, now_ms - 3_600_000 * hours, None, b"value") for hours in (5, 4, 2, 1)]
    cluster.partition("users").append(build_batch(records))
    reset(kraft, "--topic", "users", "--by-duration", "PT3H", "--execute")
    assert group.offsets[tp("users")] == 2
    reset(kraft, "--topic", "users", "--by-duration", "P9999999D", "--execute")
    assert group.offsets[tp("users")] == 0


def test_offsets_outside_of_the_log_become_the_nearest_and_are_named(kraft: Shell, group: ScriptedGroup) -> None:
    reset(kraft, "--topic", "orders:1", "--to-offset", "11", "--execute")
    assert kraft.err == "orders-1: 11 is above the log; using the log end offset 10\n"
    reset(kraft, "--topic", "orders:0", "--shift-by", "-5", "--execute")
    assert kraft.err == "orders-0: 0 is below the log; using the log start offset 2\n"
    reset(kraft, "--topic", "users", "--to-datetime", "2026-11-22T12:00", "--execute")
    assert kraft.err == "users-0: no record at or after that time; using the log end offset 0\n"
    assert group.offsets == {O0: 2, O1: 10, tp("users"): 0}


def test_a_plan_as_json_says_whether_it_was_executed(kraft: Shell, group: ScriptedGroup) -> None:
    planned = json.loads(
        reset(kraft, "--topic", "orders:1", "--topic", "users", "--to-offset", "7", "--output", "json")
    )
    assert planned == {
        "executed": False,
        "offsets": [
            {
                "group": "g",
                "topic": "orders",
                "partition": 1,
                "new_offset": 7,
                "current_offset": 6,
                "note": None,
            },
            {
                "group": "g",
                "topic": "users",
                "partition": 0,
                "new_offset": 0,
                "current_offset": None,
                "note": "7 is above the log; using the log end offset",
            },
        ],
    }
    executed = json.loads(reset(kraft, "--topic", "users", "--to-latest", "--output", "json", "--execute"))
    assert executed["executed"] is True


def test_exported_offsets_can_be_committed_from_the_file(
    kraft: Shell, cluster: FakeCluster, group: ScriptedGroup, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.csv"
    exported = reset(kraft, "--all-topics", "--to-current", "--export")
    assert exported == "orders,0,5\norders,1,6\n"
    path.write_text(exported)
    group.offsets = {O0: 9}
    reset(kraft, "--from-file", str(path), "--execute")
    assert group.offsets == {O0: 5, O1: 6}

    cluster.scripted_groups["h"] = ScriptedGroup(offsets={tp("users"): 0})
    both = ("groups", "reset-offsets", "--group", "g", "--group", "h")
    exported = kraft.succeed(*both, "--all-topics", "--to-current", "--export")
    assert exported == "g,orders,0,5\ng,orders,1,6\nh,users,0,0\n"
    path.write_text(exported.replace("g,orders,1,6", "g,orders,1,600"))
    kraft.succeed(*both, "--from-file", str(path), "--execute")
    assert (group.offsets, cluster.scripted_groups["h"].offsets) == ({O0: 5, O1: 10}, {tp("users"): 0})


def test_all_groups_are_reset(kraft: Shell, cluster: FakeCluster, group: ScriptedGroup) -> None:
    cluster.scripted_groups["hh"] = ScriptedGroup(type="classic", offsets={O0: 4})
    cluster.scripted_groups["without offsets"] = ScriptedGroup()
    kraft.succeed("groups", "reset-offsets", "--all-groups", "--all-topics", "--to-offset", "3", "--execute")
    assert (group.offsets, cluster.scripted_groups["hh"].offsets) == ({O0: 3, O1: 3}, {O0: 3})


# --- what is refused -------------------------------------------------------------------------------------------


def test_a_group_with_members_is_refused_and_nothing_is_changed(
    kraft: Shell, cluster: FakeCluster, group: ScriptedGroup
) -> None:
    cluster.scripted_groups["live"] = ScriptedGroup(state="Stable", readers={"m-1": [O0], "m-2": []}, offsets={O0: 1})
    refused = kraft.fail("groups", "reset-offsets", "g", "live", "--all-topics", "--to-latest", "--execute")
    assert refused == (f"kraft: group 'live' has 2 members (state Stable): {STOP_FIRST}\n")
    assert refused == kraft.fail("groups", "reset-offsets", "live", "--all-topics", "--to-latest")
    assert (group.offsets, cluster.scripted_groups["live"].offsets) == ({O0: 5, O1: 6}, {O0: 1})


def test_a_group_that_a_member_joins_meanwhile_is_refused(kraft: Shell, group: ScriptedGroup) -> None:
    group.joins_before_commits = True
    kraft.run(
        *("groups", "reset-offsets", "g", "--all-topics", "--to-latest", "--execute"),
        *("--bootstrap-server", "broker-1:9094"),
    )
    assert kraft.err == (f"kraft: group 'g': it has members by now: {STOP_FIRST}\n")
    assert group.offsets == {O0: 5, O1: 6}


def test_offsets_that_are_refused_are_named_and_not_shown_as_committed(kraft: Shell, group: ScriptedGroup) -> None:
    group.refused = {O1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    arguments = ("groups", "reset-offsets", "g", "--all-topics", "--to-latest", "--execute")
    assert kraft.run(*arguments, "--bootstrap-server", "broker-1:9094") == 1
    assert [line.split()[2] for line in kraft.out.splitlines()[1:]] == ["0"]
    assert kraft.err.startswith(
        "kraft: group 'g': UNKNOWN_TOPIC_OR_PARTITION: the offset of orders-1 was not committed"
    )
    assert group.offsets == {O0: 10, O1: 6}


def test_offsets_of_a_group_that_does_not_exist_create_it(kraft: Shell, cluster: FakeCluster) -> None:
    new = ("groups", "reset-offsets", "new", "--topic", "orders", "--to-earliest")
    assert kraft.succeed(*new).splitlines()[1].split() == ["new", "orders", "0", "2", "-"]
    assert kraft.err == f"Group 'new' does not exist; committing offsets creates it.\n{DRY_RUN}"
    assert "new" not in cluster.scripted_groups
    kraft.succeed(*new, "--execute")
    assert cluster.scripted_groups["new"].offsets == {O0: 2, O1: 2}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--topic", "ordres", "--to-latest"], "UNKNOWN_TOPIC_OR_PARTITION: topic 'ordres'"),
        (["--topic", "orders:2", "--to-latest"], "topic 'orders' has partitions 0 to 1, not 2"),
        (["--topic", "users", "--shift-by", "1"], "users-0: no offset is committed that could be shifted"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    kraft: Shell, group: ScriptedGroup, arguments: list[str], words: str
) -> None:
    refused = kraft.fail("groups", "reset-offsets", "g", *arguments, "--execute")
    assert words in refused
    assert refused.count("\n") == 1
    assert group.offsets == {O0: 5, O1: 6}


def test_a_group_without_committed_offsets_needs_topics(kraft: Shell, group: ScriptedGroup) -> None:
    group.offsets = {}
    refused = kraft.fail("groups", "reset-offsets", "g", "--all-topics", "--to-latest", "--execute")
    assert refused == "kraft: group 'g' has no committed offset: name the topics with --topic\n"
    refused = kraft.fail("groups", "reset-offsets", "--all-groups", "--all-topics", "--to-latest", "--execute")
    assert refused == "kraft: no group has a committed offset: name the topics with --topic\n"


def test_a_group_without_committed_offsets_is_named_and_the_others_are_not_reset(
    kraft: Shell, group: ScriptedGroup
) -> None:
    refused = kraft.fail("groups", "reset-offsets", "g", "other", "--all-topics", "--to-latest", "--execute")
    assert refused == "kraft: group 'other' has no committed offset: name the topics with --topic\n"
    assert group.offsets == {O0: 5, O1: 6}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--all-topics", "--to-latest"], "no group is given"),
        (["g", "--all-topics"], "exactly one is required"),
        (["g", "--all-topics", "--to-latest", "--to-offset", "0"], "exactly one is required"),
        (["g", "--to-latest"], "exactly one is required"),
        (["g", "--to-latest", "--topic", "a", "--all-topics"], "exactly one is required"),
        (["g", "--to-latest", "--topic", ":1"], "expected TOPIC or TOPIC:0,1,2"),
        (["g", "--to-latest", "--all-topics", "--execute", "--dry-run"], "cannot be used with --dry-run"),
        (["g", "--to-latest", "--all-topics", "--export", "--output", "json"], "cannot be used with --output json"),
        (["g", "--all-topics", "--to-offset", "-1"], "greater than or equal to 0"),
        (["g", "--all-topics", "--to-datetime", "yesterday"], "is not a date and time"),
        (["g", "--all-topics", "--by-duration", "1h"], "is not a duration: expected"),
        (["g", "--from-file", "/nowhere"], "cannot be read"),
        (["g", "--from-file", "/nowhere", "--all-topics"], "cannot be"),
        (["--all-groups", "--from-file", "/nowhere"], "cannot be used with --all-groups: name the groups"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(kraft: Shell, arguments: list[str], words: str) -> None:
    assert kraft.run("groups", "reset-offsets", *arguments) == 2
    assert words in " ".join(kraft.err.replace("│", " ").split())
    assert "Traceback" not in kraft.err
