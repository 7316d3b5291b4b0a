"""`kraft groups`: consumer groups, their members and their committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.cli.groups.choice import (
    AllGroupsOption,
    GroupArguments,
    GroupOption,
    check_all_found,
    chosen_groups,
    described,
)
from kraft.cli.groups.deletion import delete, delete_offsets
from kraft.cli.groups.lag import lag
from kraft.cli.groups.reset import reset_offsets
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    listed_words,
    open_admin,
)
from kraft.cli.printing import print_columns, print_json, say

if TYPE_CHECKING:
    from kraft.cli.groups.progress import PartitionProgress
    from kraft.client import GroupDescription, GroupMember, ListedGroup, TopicPartition

app = typer.Typer(help="List, describe and delete groups, and reset their offsets.", no_args_is_help=True)

NONE: Final = "-"
"""In a table: there is no such value, or it is not known."""

STATES: Final = (
    "Empty",
    "Assigning",
    "Reconciling",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
)
TYPES: Final = ("classic", "consumer")


@app.command("list")
def list_groups(
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE[,...]", help="Only groups in these states, such as Stable.")
    ] = None,
    group_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE[,...]", help="Only groups of these types: classic, consumer.")
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="Print only the names, one per line.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the groups."""
    states = listed_words(state, STATES, "--state")
    types = listed_words(group_type, TYPES, "--type")
    # Imported late, because commands that only print their help are fast without it.
    from kraft.client.cluster.any_broker import as_far_as_known

    with open_admin(bootstrap_server, timeout_ms) as admin:
        groups, missing = as_far_as_known(lambda: admin.list_groups(states=states, types=types))
    _print_listed(groups, output, names=names)
    if missing is not None:
        raise missing


def _print_listed(groups: Sequence[ListedGroup], output: Output, *, names: bool) -> None:
    if output is Output.JSON:
        print_json(
            [
                {"group": each.group_id, "type": each.type, "protocol": each.protocol_type, "state": each.state}
                for each in groups
            ]
        )
    elif names:
        for each in groups:
            print(each.group_id)
    else:
        _print_table(groups)


def _print_table(groups: Sequence[ListedGroup]) -> None:
    rows = [(each.group_id, each.type, each.protocol_type or NONE, each.state) for each in groups]
    print_columns(("GROUP", "TYPE", "PROTOCOL", "STATE"), rows)


@app.command("describe")
def describe(
    positional: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroupsOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show leader epochs of committed offsets.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show committed offsets, lag and readers of partitions.

    LAG-SECONDS is the age of the first record that the group has not read.
    """
    from kraft.cli.groups.progress import read_progress

    chosen = chosen_groups(positional, group, all_groups)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        groups, missing = described(admin, chosen)
        progress = read_progress(admin, bootstrap_server, groups, timeout_ms)
    now_ms = int(time.time() * 1_000)
    if output is Output.JSON:
        print_json([_offsets_as_json(each, progress[each.group_id], now_ms) for each in groups])
    else:
        _say_states(groups)
        _print_progress([each for partitions in progress.values() for each in partitions], now_ms, verbose)
    check_all_found(missing)


@app.command("members")
def members(
    positional: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroupsOption = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Show assigned partitions, member epochs and, in a group of both protocols, who is upgraded.",
        ),
    ] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show the members of groups."""
    group_ids = chosen_groups(positional, group, all_groups)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        groups, missing = described(admin, group_ids)
    if output is Output.JSON:
        print_json([{**_names(each), "members": list(map(_member_as_json, each.members))} for each in groups])
    else:
        _say_states(groups)
        _print_members(groups, verbose)
    check_all_found(missing)


@app.command("state")
def state(
    positional: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroupsOption = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show the epochs of groups.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show coordinator, assignor and state of groups."""
    with open_admin(bootstrap_server, timeout_ms) as admin:
        groups, missing = described(admin, chosen_groups(positional, group, all_groups))
    if output is Output.JSON:
        print_json([_state_as_json(each) for each in groups])
    else:
        _print_states(groups, verbose)
    check_all_found(missing)


app.command("lag")(lag)
app.command("reset-offsets")(reset_offsets)
app.command("delete")(delete)
app.command("delete-offsets")(delete_offsets)


def _say_states(groups: Iterable[GroupDescription]) -> None:
    """Print what a reader of the table has to know about groups that are not stable, in Kafka's words."""
    for group in groups:
        if group.state == "Empty":
            say(f"Consumer group '{group.group_id}' has no active members.")
        elif group.state == "Dead":
            say(f"Consumer group '{group.group_id}' does not exist.")
        elif group.state != "Stable":
            say(f"Warning: Consumer group '{group.group_id}' is rebalancing.")


def _or_none(value: object) -> object:
    return NONE if value is None or value == "" else value


# --- tables ----------------------------------------------------------------------------------------------------


def _print_progress(partitions: Sequence[PartitionProgress], now_ms: int, verbose: bool) -> None:
    titles = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if verbose else []), "CURRENT-OFFSET"]
    titles += ["LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID", "LAG-SECONDS"]
    if partitions:
        print_columns(titles, [_offset_row(each, now_ms, verbose) for each in partitions])


def _print_members(groups: Sequence[GroupDescription], verbose: bool) -> None:
    has_static = any(member.group_instance_id is not None for each in groups for member in each.members)
    # As in Kafka: the column says nothing in a group whose members all use the same protocol.
    is_mixed = any({True, False} <= {member.upgraded for member in each.members} for each in groups)
    titles = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if has_static else []), "HOST", "CLIENT-ID"]
    titles += ["#PARTITIONS"]
    if verbose:
        titles += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        titles += ["UPGRADED"] if is_mixed else []
    rows = [_member_row(each, member, has_static, is_mixed, verbose) for each in groups for member in each.members]
    if rows:
        print_columns(titles, rows)


def _print_states(groups: Sequence[GroupDescription], verbose: bool) -> None:
    titles = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    titles += [*(["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] if verbose else []), "#MEMBERS"]
    rows = [
        (
            each.group_id,
            f"{each.coordinator.host}:{each.coordinator.port} ({each.coordinator.node_id})",
            each.assignor or NONE,
            each.state,
            *((_or_none(each.group_epoch), _or_none(each.target_assignment_epoch)) if verbose else ()),
            len(each.members),
        )
        for each in groups
    ]
    if rows:
        print_columns(titles, rows)


def _offset_row(progress: PartitionProgress, now_ms: int, verbose: bool) -> list[object]:
    committed, member, seconds = progress.committed, progress.member, progress.lag_seconds(now_ms)
    epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
    cells = [
        progress.group_id,
        progress.partition.topic,
        progress.partition.partition,
        *([epoch] if verbose else []),
        None if committed is None else committed.offset,
        progress.log_end,
        progress.lag,
        *((None, None, None) if member is None else (member.member_id, member.host, member.client_id)),
        None if seconds is None else round(seconds),
    ]
    return list(map(_or_none, cells))


def _member_row(
    group: GroupDescription, member: GroupMember, has_static: bool, is_mixed: bool, verbose: bool
) -> list[object]:
    cells: list[object] = [
        group.group_id,
        member.member_id,
        *([member.group_instance_id] if has_static else []),
        member.host,
        member.client_id,
        len(member.assignment),
    ]
    if verbose:
        target = _assigned(member.target or ())
        cells += [member.member_epoch, _assigned(member.assignment), group.target_assignment_epoch, target]
        cells += [None if member.upgraded is None else str(member.upgraded).lower()] if is_mixed else []
    return list(map(_or_none, cells))


def _assigned(partitions: Iterable[TopicPartition]) -> str:
    """Return `orders:0,1;users:2` for sorted partitions."""
    return ";".join(
        f"{topic}:{','.join(str(each.partition) for each in of_topic)}"
        for topic, of_topic in groupby(partitions, key=lambda each: each.topic)
    )


# --- JSON ------------------------------------------------------------------------------------------------------


def _names(group: GroupDescription) -> dict[str, Any]:
    return {"group": group.group_id, "type": group.type, "state": group.state}


def _offsets_as_json(group: GroupDescription, progress: Iterable[PartitionProgress], now_ms: int) -> dict[str, Any]:
    return {**_names(group), "partitions": [_progress_as_json(each, now_ms) for each in progress]}


def _progress_as_json(progress: PartitionProgress, now_ms: int) -> dict[str, Any]:
    committed, member = progress.committed, progress.member
    return {
        "topic": progress.partition.topic,
        "partition": progress.partition.partition,
        "current_offset": None if committed is None else committed.offset,
        "leader_epoch": None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "log_end_offset": progress.log_end,
        "lag": progress.lag,
        "lag_seconds": progress.lag_seconds(now_ms),
        "consumer_id": None if member is None else member.member_id,
        "host": None if member is None else member.host,
        "client_id": None if member is None else member.client_id,
        "upgraded": None if member is None else member.upgraded,
    }


def _member_as_json(member: GroupMember) -> dict[str, Any]:
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "member_epoch": member.member_epoch,
        "upgraded": member.upgraded,
        "assignment": _partitions_as_json(member.assignment),
        "target_assignment": None if member.target is None else _partitions_as_json(member.target),
    }


def _partitions_as_json(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]


def _state_as_json(group: GroupDescription) -> dict[str, Any]:
    return {
        **_names(group),
        "protocol": group.protocol_type or None,
        "coordinator": {
            "broker_id": group.coordinator.node_id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "assignor": group.assignor or None,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.target_assignment_epoch,
        "members": len(group.members),
    }
