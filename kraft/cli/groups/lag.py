"""`kraft groups lag`: how far groups are behind, and whether they make progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from kraft.cli.groups.choice import GroupArguments, GroupOption
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
from kraft.model.errors import ErrorCode, KraftError, Refusal, error_code
from kraft.model.group_lags import UNKNOWN, GroupLag, PartitionLag

NOT_KNOWN: Final = "-"

CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def lag(
    positional: GroupArguments = None,
    group: GroupOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    interval_ms: Annotated[
        int, typer.Option("--interval-ms", min=100, help="With --watch: time between two looks.")
    ] = 5_000,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Show how far groups are behind, and how they do.

    Named groups are shown by partition, and all groups otherwise.

    OK: it reads, and catches up. WARN: it reads, and its lag grows or stays. STALL: it commits the same offset again
    and again. STOP: it commits no more. REWIND: it went back to an earlier offset. ERR: one of the last three, in some
    partition.

    SEEN is how much of the last ten commits the coordinator has seen: it looks every ten seconds, and begins anew when
    it has moved to another broker. BEHIND is the age of the first record that waits.
    """
    named = list(dict.fromkeys([*(positional or ()), *(group or ())]))
    # Imported late, because commands that only print their help are fast without it.
    from kraft.client.cluster.any_broker import PartMissing

    with open_admin(bootstrap_server, timeout_ms) as admin:
        try:
            found = admin.describe_group_lags(named)
        except PartMissing as error:
            _show(error.found, by_partition=False, clears=watch, output=output)
            raise
        failed = _show(found, by_partition=bool(named), clears=watch, output=output)
        while watch:
            for each in failed:
                say(each.error_message)
            sys.stdout.flush()
            # Between two looks, as the user has asked for.
            time.sleep(interval_ms / 1_000)
            try:
                found = admin.describe_group_lags(named)
            except KraftError as error:
                # It is watched for what goes wrong: a broker that is down may be back at the next look.
                failed = []
                if isinstance(error, PartMissing):
                    _show(error.found, by_partition=False, clears=True, output=output)
                say(str(error))
            else:
                failed = _show(found, by_partition=bool(named), clears=True, output=output)
    for each in failed:
        if each.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise Refusal(error_code(each.error_code), each.error_message)
    if failed:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "; ".join(each.error_message for each in failed))


def _show(found: Sequence[GroupLag], *, by_partition: bool, clears: bool, output: Output) -> list[GroupLag]:
    """Print the groups; return those of which nothing is known."""
    seen = [each for each in found if each.error_code == ErrorCode.NONE]
    if clears and sys.stdout.isatty():
        print(CLEAR_SCREEN, end="")
    if output is Output.JSON:
        print_json([_as_json(each) for each in seen])
    elif by_partition:
        _print_partitions(seen)
    else:
        _print_groups(seen)
    return [each for each in found if each.error_code != ErrorCode.NONE]


def total_lag(group: GroupLag) -> int | None:
    """Return the records that wait in all partitions; None if it is not known of any."""
    lags = [each.lag for each in group.partitions if each.lag != UNKNOWN]
    return sum(lags) if lags else None


def _seen(partitions: Sequence[PartitionLag]) -> str:
    return f"{sum(each.completeness for each in partitions) / max(1, len(partitions)):.0%}"


def in_words(duration_ms: int) -> str:
    """Return a duration in the largest unit of which it is at least one, with one decimal place."""
    for unit_ms, unit in _UNITS:
        if duration_ms >= unit_ms:
            return f"{duration_ms / unit_ms:.1f} {unit}"
    return f"{duration_ms} ms"


def _behind(partition: PartitionLag) -> str:
    if partition.behind_ms == UNKNOWN:
        return NOT_KNOWN
    return f"{'> ' if partition.is_at_least else ''}{in_words(partition.behind_ms)}"


def _print_groups(groups: Sequence[GroupLag]) -> None:
    rows = []
    for each in groups:
        # A user who may not describe the topics is told of the group, and of no partition.
        last = max(each.partitions, key=lambda partition: partition.behind_ms, default=None)
        total = total_lag(each)
        rows.append(
            (
                each.group_id,
                each.state,
                NOT_KNOWN if total is None else total,
                NOT_KNOWN if last is None else _behind(last),
                len(each.partitions),
                _seen(each.partitions),
            )
        )
    print_columns(("GROUP", "STATE", "LAG", "BEHIND", "PARTITIONS", "SEEN"), rows)


def _print_partitions(groups: Sequence[GroupLag]) -> None:
    rows = [
        (
            group.group_id,
            each.topic,
            each.partition,
            each.state,
            each.committed_offset,
            NOT_KNOWN if each.lag == UNKNOWN else each.lag,
            _behind(each),
            _seen([each]),
        )
        for group in groups
        for each in group.partitions
    ]
    titles = ("GROUP", "TOPIC", "PARTITION", "STATE", "CURRENT-OFFSET", "LAG", "BEHIND", "SEEN")
    print_columns(titles, rows)


def _as_json(group: GroupLag) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "lag": total_lag(group),
        "partitions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "state": each.state,
                "current_offset": each.committed_offset,
                "lag": None if each.lag == UNKNOWN else each.lag,
                "behind_seconds": None if each.behind_ms == UNKNOWN else each.behind_ms / 1_000,
                "behind_is_at_least": each.is_at_least,
                "completeness": each.completeness,
            }
            for each in group.partitions
        ],
    }
