"""`kraft groups reset-offsets`: plans new offsets of groups without members, and commits them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kraft.cli.groups.choice import AllGroupsOption, GroupArguments, GroupOption, chosen_groups
from kraft.cli.groups.offset_files import offset_lines
from kraft.cli.groups.partition_choice import Choice, TopicsOption, parse_choice, partitions_of
from kraft.cli.groups.reset_options import (
    AllTopicsOption,
    ByDurationOption,
    DryRunOption,
    ExportOption,
    FromFileOption,
    ShiftByOption,
    TargetOf,
    ToCurrentOption,
    ToDatetimeOption,
    ToEarliestOption,
    ToLatestOption,
    ToOffsetOption,
    chosen_target,
)
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import print_columns, print_json, say
from kraft.client.model.offset_reset import NewOffset, OffsetsBeforeReset, ResetFailed, Target, ToListed, ToTime, plan
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin

Plans = Mapping[str, Sequence[NewOffset]]
"""New offsets by group."""

WITHOUT_MEMBERS = ("Empty", "Dead")
"""States of groups whose offsets may be reset."""

STOP_FIRST = (
    "stop its consumers first, because they commit their own offsets; one that died stays until its session ends, see "
    "'kraft groups members'"
)


def reset_offsets(
    positional: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroupsOption = False,
    topic: TopicsOption = None,
    all_topics: AllTopicsOption = False,
    to_earliest: ToEarliestOption = False,
    to_latest: ToLatestOption = False,
    to_current: ToCurrentOption = False,
    to_offset: ToOffsetOption = None,
    to_datetime: ToDatetimeOption = None,
    by_duration: ByDurationOption = None,
    shift_by: ShiftByOption = None,
    from_file: FromFileOption = None,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the new offsets.")] = False,
    dry_run: DryRunOption = False,
    export: ExportOption = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Reset the committed offsets of groups without members.

    Only shows the new offsets, unless --execute is given. An offset outside of the log becomes the nearest one inside.
    """
    if execute and dry_run:
        raise typer.BadParameter("cannot be used with --dry-run: choose one", param_hint="--execute")
    if export and output is Output.JSON:
        raise typer.BadParameter("cannot be used with --output json: choose one", param_hint="--export")
    group_ids = chosen_groups(positional, group, all_groups)
    options = {
        "--to-earliest": to_earliest,
        "--to-latest": to_latest,
        "--to-current": to_current,
        "--to-offset": to_offset,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--shift-by": shift_by,
        "--from-file": from_file,
    }
    target_of = chosen_target(options, group_ids, now_ms=int(time.time() * 1_000))
    choice = _choice(topic, all_topics, from_file is not None)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        found, new = _without_members(admin, group_ids)
        plans = _plans(admin, found, choice, target_of, all_groups=all_groups)
        for group_id in new:
            say(f"Group {group_id!r} does not exist; committing offsets creates it.")
        plans, failed = _commit(admin, plans) if execute else (plans, [])
    _print(plans, output, executed=execute, export=export)
    if failed:
        raise ResetFailed("; ".join(failed))


def _choice(topics: Sequence[str] | None, all_topics: bool, is_from_file: bool) -> Choice | None:
    """Return the partitions that the options choose; None for those of the committed offsets or of the file."""
    if is_from_file:
        if topics or all_topics:
            raise typer.BadParameter(
                "cannot be used with --topic or --all-topics: the file names the partitions", param_hint="--from-file"
            )
        return None
    if bool(topics) == all_topics:
        raise typer.BadParameter("exactly one is required", param_hint="--topic, --all-topics")
    return parse_choice(topics) if topics else None


def _without_members(admin: Admin, group_ids: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the ids of the groups, checked that none has members, and of those the ones that do not exist.

    Raises ResetFailed, which names the groups that have.
    """
    live, found, new = [], [], []
    for group_id in [each.group_id for each in admin.list_groups()] if group_ids is None else group_ids:
        found.append(group_id)
        try:
            (described,) = admin.describe_consumer_groups([group_id])
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            new.append(group_id)
            continue
        if described.state not in WITHOUT_MEMBERS:
            members = counted(len(described.members), "member")
            live.append(f"group {group_id!r} has {members} (state {described.state})")
    if live:
        raise ResetFailed(f"{'; '.join(live)}: {STOP_FIRST}")
    return found, new


def _plans(
    admin: Admin, group_ids: Iterable[str], choice: Choice | None, target_of: TargetOf, *, all_groups: bool
) -> Plans:
    """Return the plan of each group; with `all_groups`, of each that has committed offsets.

    Raises ResetFailed if there is nothing to reset in a group, or in all of them, and Refusal.
    """
    chosen: list[TopicPartition] | None = None
    if choice is not None:
        topics = admin.describe_topics(choice)
        chosen = partitions_of(choice, {each.topic: len(each.metadata.partitions) for each in topics})
    plans = {}
    for group_id in group_ids:
        target = target_of(group_id)
        committed = {partition: each.offset for partition, each in admin.list_consumer_group_offsets(group_id).items()}
        partitions = list(target.offsets) if isinstance(target, ToListed) else committed if chosen is None else chosen
        if partitions:
            plans[group_id] = plan(target, _offsets_before(admin, partitions, committed, target))
        elif not all_groups:
            raise ResetFailed(f"group {group_id!r} has no committed offset: name the topics with --topic")
    if not plans:
        raise ResetFailed("no group has a committed offset: name the topics with --topic")
    return plans


def _offsets_before(
    admin: Admin, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], target: Target
) -> list[OffsetsBeforeReset]:
    asked = list(partitions)
    starts = _offsets(admin, asked, EARLIEST_TIMESTAMP)
    ends = _offsets(admin, asked, LATEST_TIMESTAMP)
    at_time = _offsets(admin, asked, target.timestamp_ms) if isinstance(target, ToTime) else {}
    return [
        OffsetsBeforeReset(
            partition=each,
            committed=committed.get(each),
            log_start=starts[each],
            log_end=ends[each],
            at_time=at_time[each] if at_time.get(each, -1) >= 0 else None,
        )
        for each in asked
    ]


def _offsets(admin: Admin, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
    """Return the offset at the time in each partition; -1 if all records are older. Raises the first error."""
    found = {}
    for partition, outcome in admin.list_offsets(dict.fromkeys(partitions, timestamp_ms)).items():
        if isinstance(outcome, Exception):
            raise outcome
        found[partition] = outcome.offset
    return found


def _commit(admin: Admin, plans: Plans) -> tuple[Plans, list[str]]:
    """Commit the offsets. Return those that were committed, and why others were refused."""
    committed: dict[str, list[NewOffset]] = {}
    failed = []
    for group_id, planned in plans.items():
        try:
            outcomes = admin.alter_consumer_group_offsets(group_id, {each.partition: each.offset for each in planned})
        except Refusal as refusal:
            failed.append(f"group {group_id!r}: {_reason(refusal)}")
            continue
        committed[group_id] = [each for each in planned if outcomes[each.partition] is None]
        failed += [f"group {group_id!r}: {each}" for each in outcomes.values() if each is not None]
    return committed, failed


def _reason(refusal: Refusal) -> str:
    if refusal.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
        return f"it has members by now: {STOP_FIRST}"
    return str(refusal)


def _print(plans: Plans, output: Output, *, executed: bool, export: bool) -> None:
    rows = [(group_id, each) for group_id, planned in plans.items() for each in planned]
    for _, each in rows:
        if each.note:
            say(f"{each.partition}: {each.note} {each.offset}")
    if output is Output.JSON:
        print_json({"executed": executed, "offsets": [_as_json(group_id, each) for group_id, each in rows]})
    elif export:
        offsets = {group_id: {each.partition: each.offset for each in planned} for group_id, planned in plans.items()}
        print(offset_lines(offsets), end="")
    else:
        titles = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "CURRENT-OFFSET")
        print_columns(
            titles,
            [
                (
                    group_id,
                    each.partition.topic,
                    each.partition.partition,
                    each.offset,
                    "-" if each.committed is None else each.committed,
                )
                for group_id, each in rows
            ],
        )
    if not executed:
        say("Dry run: nothing was changed. Add --execute to commit these offsets.")


def _as_json(group_id: str, planned: NewOffset) -> dict[str, object]:
    return {
        "group": group_id,
        "topic": planned.partition.topic,
        "partition": planned.partition.partition,
        "new_offset": planned.offset,
        "current_offset": planned.committed,
        "note": planned.note or None,
    }
