"""Options by which commands of `kraft groups` name groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kraft.client import Admin, GroupDescription

GroupArguments = Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="Ids of groups.")]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", help="Same as GROUP. May be repeated.", show_default=False)
]
AllGroupsOption = Annotated[bool, typer.Option("--all-groups", help="All groups of the cluster.")]
OneGroupArgument = Annotated[str | None, typer.Argument(metavar="GROUP", help="Id of the group.")]
OneGroupOption = Annotated[str | None, typer.Option("--group", help="Same as GROUP.", show_default=False)]


def chosen_groups(positional: Sequence[str] | None, option: Sequence[str] | None, all_groups: bool) -> list[str] | None:
    """Return the ids that were named, each once; None for all groups. Raises BadParameter for none, or both."""
    named = list(dict.fromkeys([*(positional or ()), *(option or ())]))
    if all_groups:
        if named:
            raise typer.BadParameter("cannot be used with the id of a group: choose one", param_hint="--all-groups")
        return None
    if not named:
        raise typer.BadParameter("no group is given: name one, or use --all-groups", param_hint="GROUP")
    return named


def one_group(positional: str | None, option: str | None) -> str:
    """Return the id that was named. Raises BadParameter for none or two."""
    if positional is not None and option is not None and positional != option:
        raise typer.BadParameter(f"two groups are given, {positional} and {option}: name one", param_hint="--group")
    named = positional if positional is not None else option
    if named is None:
        raise typer.BadParameter("no group is given: name one", param_hint="GROUP")
    return named


def described(admin: Admin, group_ids: Sequence[str] | None) -> tuple[list[GroupDescription], list[str]]:
    """Return the groups, or all groups for None, and the named ones that do not exist."""
    from kraft.model.errors import ErrorCode, KraftError, Refusal

    found: list[GroupDescription] = []
    missing: list[str] = []
    wanted = [each.group_id for each in admin.list_groups()] if group_ids is None else group_ids
    for group_id, outcome in admin.describe_many_groups(wanted).items():
        if not isinstance(outcome, KraftError):
            found.append(outcome)
            continue
        try:
            # Its coordinator may have moved meanwhile.
            found += admin.describe_consumer_groups([group_id])
        except Refusal as refusal:
            if refusal.error_code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            # A group that was listed, and not named, was deleted meanwhile.
            if group_ids is not None:
                missing.append(group_id)
    return found, missing


def check_all_found(missing: Sequence[str]) -> None:
    """Raise Refusal GROUP_ID_NOT_FOUND if a named group does not exist. Called when the others were printed."""
    from kraft.model.errors import ErrorCode, Refusal

    if missing:
        names = ", ".join(map(repr, missing))
        are = "is no group" if len(missing) == 1 else "are no groups"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there {are} {names}")
