"""`kraft groups delete` and `delete-offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from kraft.cli.groups.choice import (
    AllGroupsOption,
    GroupArguments,
    GroupOption,
    OneGroupArgument,
    OneGroupOption,
    chosen_groups,
    one_group,
)
from kraft.cli.groups.partition_choice import Choice, TopicsOption, parse_choice
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import fail, print_columns, print_json
from kraft.model.ids import TopicPartition
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin, Refusal


def delete(
    positional: GroupArguments = None,
    group: GroupOption = None,
    all_groups: AllGroupsOption = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete groups without members, and their offsets."""
    named = chosen_groups(positional, group, all_groups)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        group_ids = [each.group_id for each in admin.list_groups()] if named is None else named
        outcome = admin.delete_consumer_groups(group_ids) if group_ids else {}
    if output is Output.JSON:
        print_json([{"group": group_id, **_result(refusal)} for group_id, refusal in outcome.items()])
    else:
        print_columns(("GROUP", "STATUS"), [(group_id, _status(refusal)) for group_id, refusal in outcome.items()])
    _check(outcome, "group")


def delete_offsets(
    positional: OneGroupArgument = None,
    group: OneGroupOption = None,
    topic: TopicsOption = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete committed offsets of topics that no member reads."""
    group_id = one_group(positional, group)
    if not topic:
        raise typer.BadParameter("no topic is given: name one", param_hint="--topic")
    choice = parse_choice(topic)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        outcome = admin.delete_consumer_group_offsets(group_id, _chosen(admin, group_id, choice))
    if output is Output.JSON:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, **_result(refusal)}
                for each, refusal in outcome.items()
            ]
        )
    else:
        rows = [(each.topic, each.partition, _status(refusal)) for each, refusal in outcome.items()]
        print_columns(("TOPIC", "PARTITION", "STATUS"), rows)
    _check(outcome, "offset")


def _chosen(admin: Admin, group_id: str, choice: Choice) -> list[TopicPartition]:
    """Return the partitions; of a whole topic, those with a committed offset.

    Raises Refusal for a group that does not exist, and for a topic without committed offsets.
    """
    from kraft.model.errors import ErrorCode, Refusal

    admin.describe_consumer_groups([group_id])
    committed = admin.list_consumer_group_offsets(group_id)
    found = []
    for topic, numbers in choice.items():
        if numbers is None:
            numbers = frozenset(each.partition for each in committed if each.topic == topic)
        if not numbers:
            raise Refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"group {group_id!r} has no committed offset of topic {topic!r}"
            )
        found += [TopicPartition(topic, number) for number in numbers]
    return sorted(found)


def _status(refusal: Refusal | None) -> str:
    return "Successful" if refusal is None else f"Error: {refusal}"


def _result(refusal: Refusal | None) -> dict[str, Any]:
    return {"deleted": refusal is None, "error": None if refusal is None else refusal.error_code.name}


def _check(outcome: Mapping[Any, Refusal | None], what: str) -> None:
    failed = [refusal for refusal in outcome.values() if refusal is not None]
    if failed:
        fail(f"{counted(len(failed), what)} could not be deleted")
