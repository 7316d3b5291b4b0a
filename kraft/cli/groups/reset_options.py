"""Options of `kraft groups reset-offsets`, and the target that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kraft.cli.groups.offset_files import read_offsets
from kraft.client.model.offset_reset import (
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToListed,
    ToOffset,
    ToTime,
)
from kraft.model.moments import parse_datetime, parse_duration

AllTopicsOption = Annotated[
    bool, typer.Option("--all-topics", help="All partitions of which the group has committed offsets.")
]
ToEarliestOption = Annotated[bool, typer.Option("--to-earliest", help="Reset to the log start offset.")]
ToLatestOption = Annotated[bool, typer.Option("--to-latest", help="Reset to the log end offset.")]
ToCurrentOption = Annotated[
    bool, typer.Option("--to-current", help="Reset to the committed offset, or if there is none to the log end offset.")
]
ToOffsetOption = Annotated[
    int | None, typer.Option("--to-offset", min=0, help="Reset to this offset.", show_default=False)
]
ToDatetimeOption = Annotated[
    str | None,
    typer.Option(
        "--to-datetime",
        metavar="YYYY-MM-DD[THH:MM[:SS.sss]]",
        help="Reset to the first record at or after this time; a date alone is its midnight. UTC, unless the time ends "
        "in an offset such as +02:00.",
        show_default=False,
    ),
]
ByDurationOption = Annotated[
    str | None,
    typer.Option(
        "--by-duration",
        metavar="PnDTnHnMnS",
        help="Reset to the first record that is not older than this, such as PT1H30M for 90 minutes.",
        show_default=False,
    ),
]
ShiftByOption = Annotated[
    int | None,
    typer.Option(
        "--shift-by",
        help="Move the committed offset by this many offsets: forward, or back if negative.",
        show_default=False,
    ),
]
FromFileOption = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help="Reset to the offsets in a CSV file, as --export and kafka-consumer-groups write it.",
        show_default=False,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show the new offsets. This is the default.")]
ExportOption = Annotated[bool, typer.Option("--export", help="Print the new offsets as CSV.")]

TargetOf = Callable[[str], Target]
"""The target of each group, by its id."""


def chosen_target(options: Mapping[str, Any], group_ids: Sequence[str] | None, now_ms: int) -> TargetOf:
    """Return the target that one of the options names; unset ones are None or False. Raises BadParameter."""
    given = [(option, value) for option, value in options.items() if value is not None and value is not False]
    if len(given) != 1:
        raise typer.BadParameter("exactly one is required", param_hint=", ".join(options))
    ((option, value),) = given
    if option == "--from-file":
        if group_ids is None:
            raise typer.BadParameter("cannot be used with --all-groups: name the groups", param_hint=option)
        listed = read_offsets(value, group_ids)
        return lambda group_id: ToListed(listed[group_id])
    try:
        target = _target(option, value, now_ms)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    return lambda _: target


def _target(option: str, value: Any, now_ms: int) -> Target:
    match option:
        case "--to-earliest":
            return ToEarliest()
        case "--to-latest":
            return ToLatest()
        case "--to-current":
            return ToCurrent()
        case "--to-offset":
            return ToOffset(value)
        case "--shift-by":
            return ShiftBy(value)
        case "--to-datetime":
            return ToTime(parse_datetime(value))
        case "--by-duration":
            return ToTime(max(0, now_ms - parse_duration(value)))
        case _:
            raise AssertionError(f"{option} is not an option that names a target")
