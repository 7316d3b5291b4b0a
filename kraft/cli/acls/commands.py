"""`kraft acls`: list, create and delete ACLs, and check what one principal may do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kraft.access.administrators import (
    access_settings,
    authorizer_of,
    loses_last_administrator,
    may_lose_last_administrator,
    visible_settings,
)
from kraft.access.purposes import Held, entries
from kraft.access.rights import exactly
from kraft.cli.acls.choices import (
    NO_RESOURCE,
    Actions,
    Holders,
    Pattern,
    PatternChoice,
    Resources,
    check_exist,
    check_principal,
    holders,
    operations,
    wanted_operations,
)
from kraft.cli.grouped_options import with_grouped_options
from kraft.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    Output,
    OutputFormat,
    Timeout,
    open_admin,
)
from kraft.cli.printing import fail, print_columns, print_json, say, say_columns
from kraft.metadata.acl_decisions import FILTERS_PER_REQUEST_MAX
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import Requester
from kraft.model.access import Operation, PatternType, ResourceType, words
from kraft.model.printable import counted

if TYPE_CHECKING:
    from kraft.client import Admin

app = typer.Typer(help="List, create and delete ACLs; check who may do what.", no_args_is_help=True)

ACLS_AT_ONCE: Final = FILTERS_PER_REQUEST_MAX
"""ACLs that one request creates or deletes."""

_ONLY_ALL: Final = "; an ACL of the operation 'all' was meant: for another, give --operation"

_TITLES: Final = ("Resource", "Name", "Pattern", "Principal", "Host", "Operation", "Permission")

Principal = Annotated[
    str | None, typer.Option("--principal", help="Those of this principal, such as User:alice.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Do it even if nobody may change ACLs afterwards.")]


@app.command("list")
@with_grouped_options
def list_acls(
    resources: Resources,
    principal: Principal = None,
    pattern: Pattern = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """List the ACLs, or those of some resources or of one principal.

    With --resource-pattern-type match, all that concern a resource of that name.
    """
    if principal is not None:
        check_principal(principal, "--principal")
    with open_admin(bootstrap_server, timeout_ms) as admin:
        found = _found(admin, _filters(resources, pattern, principal))
    _print(found, output)


@app.command("create")
@with_grouped_options
def create(
    given: Holders,
    actions: Actions,
    resources: Resources,
    pattern: Pattern = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    force: Force = False,
) -> None:
    """Create ACLs. One that is there already is no error.

    A denial wins over whatever allows it. Refused, without --force, if nobody could change ACLs any more.
    """
    held = holders(given)
    if not held:
        raise _nobody()
    wanted = wanted_operations(resources, actions)
    check_exist(wanted)
    created = entries(wanted, held, _pattern_of_new(pattern))
    with open_admin(bootstrap_server, timeout_ms) as admin:
        if not force:
            _check_administrators(admin, created=created)
        for part in _parts(created):
            admin.create_acls(part)
    _print(created, output)


@app.command("delete")
@with_grouped_options
def delete(
    given: Holders,
    actions: Actions,
    resources: Resources,
    principal: Principal = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the ACLs of --principal without asking.")] = False,
    pattern: Pattern = None,
    force: Force = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Delete ACLs, and print which ones.

    Without principals, all ACLs of the resources. With --principal, all of this principal, those that deny, too: they
    are shown before, and deleted after a yes. Refused, without --force, if it takes ALTER on the cluster from the last
    principal that has it and the broker has no super users: then nobody could change ACLs any more.
    """
    held = holders(given)
    _check_chosen(held, actions, resources, principal)
    with open_admin(bootstrap_server, timeout_ms) as admin:
        if held:
            found = entries(wanted_operations(resources, actions), held, _pattern_of_new(pattern))
        else:
            found = _found(admin, _filters(resources, pattern, principal))
        if not force:
            _check_administrators(admin, deleted=found)
        if principal is not None and found and not yes:
            _ask(found)
        deleted = [each for part in _parts(found) for each in admin.delete_acls([exactly(one) for one in part])]
    if not deleted:
        # As in Kafka's tool, the operation `all` is one of its own here, and not every one.
        only_all = held and not actions.are_chosen
        say(f"no ACL matches: nothing is deleted{_ONLY_ALL if only_all else ''}")
    _print(deleted, output)


@app.command("check")
@with_grouped_options
def check(
    principal: Annotated[str, typer.Option("--principal", help="Principal of the client, such as User:alice.")],
    operation: Annotated[str, typer.Option("--operation", metavar="NAME", help="What it wants to do.")],
    resources: Resources,
    host: Annotated[str, typer.Option("--host", help="Address of the client.")] = "127.0.0.1",
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    output: OutputFormat = Output.TABLE,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
) -> None:
    """Say whether a principal may do something, and why.

    A dry run: it names the ACL that says so, and nothing is done.

    The exit code is 1 if it may not.
    """
    check_principal(principal, "--principal")
    (wanted,), named = operations([operation]), resources.named()
    if len(named) != 1:
        raise typer.BadParameter("give one resource: --topic, --group, --transactional-id, --cluster or another")
    resource_type, name = named[0]
    with open_admin(bootstrap_server, timeout_ms) as admin:
        settings = access_settings(admin)
        concerning = AclFilter(resource_type=resource_type, resource_name=name, pattern_type=PatternType.MATCH)
        authorizer = authorizer_of(admin.describe_acls(concerning), settings)
    decision = authorizer.decide(Requester(principal, host), wanted, resource_type, name)
    if output is Output.JSON:
        said = {"allowed": decision.is_allowed, "reason": decision.reason.value}
        print_json({**said, "acl": None if decision.entry is None else _json(decision.entry)})
    else:
        may = "may" if decision.is_allowed else "may not"
        verb = "do everything with" if wanted is Operation.ALL else words(wanted)
        resource = "the cluster" if resource_type is ResourceType.CLUSTER else f"{words(resource_type)} {name!r}"
        print(f"{principal} at {host} {may} {verb} {resource}: {decision.reason.value}")
        if decision.entry is not None:
            print_columns(_TITLES, [_row(decision.entry)])
    if not decision.is_allowed:
        raise typer.Exit(1)


def _check_chosen(held: Sequence[Held], actions: Actions, resources: Resources, principal: str | None) -> None:
    """Raise BadParameter unless the options say which ACLs are to be deleted."""
    if principal is not None:
        check_principal(principal, "--principal")
        if held or actions.are_chosen:
            raise typer.BadParameter(
                "is for all ACLs of a principal: for single ones give --allow-principal or --deny-principal instead",
                param_hint="--principal",
            )
    elif not resources.named():
        # Whoever chooses operations means single ACLs.
        whole = "" if actions.are_chosen else "; for all ACLs of a principal give --principal"
        raise typer.BadParameter(f"{NO_RESOURCE}{whole}")
    elif not held and actions.are_chosen:
        raise _nobody()


def _ask(found: Sequence[AclEntry]) -> None:
    """Show what is to be deleted, and end the command unless the user wants it."""
    say_columns(_TITLES, [_row(each) for each in sorted(found, key=_row)])
    if not _is_asked_at_a_terminal():
        fail(f"nothing is deleted: give --yes to delete {counted(len(found), 'ACL')} like these")
    if not typer.confirm(f"Delete {counted(len(found), 'ACL')}?", err=True):
        fail("nothing is deleted")


def _is_asked_at_a_terminal() -> bool:
    return sys.stdin.isatty()


def _nobody() -> typer.BadParameter:
    return typer.BadParameter("nobody is given: name a principal with --allow-principal or --deny-principal")


def _pattern_of_new(pattern: PatternChoice | None) -> PatternType:
    """Return the pattern type of ACLs that are named exactly. Raises BadParameter."""
    chosen = pattern or PatternChoice.LITERAL
    if chosen in (PatternChoice.MATCH, PatternChoice.ANY):
        raise typer.BadParameter("is literal or prefixed for an ACL", param_hint="--resource-pattern-type")
    return chosen.type


def _filters(resources: Resources, pattern: PatternChoice | None, principal: str | None) -> list[AclFilter]:
    named = resources.named()
    if not named:
        return [AclFilter(pattern_type=(pattern or PatternChoice.ANY).type, principal=principal)]
    # As in Kafka's tool, a name is a literal one unless the option says otherwise.
    pattern_type = (pattern or PatternChoice.LITERAL).type
    return [
        AclFilter(resource_type=resource_type, resource_name=name, pattern_type=pattern_type, principal=principal)
        for resource_type, name in named
    ]


def _found(admin: Admin, filters: Sequence[AclFilter]) -> list[AclEntry]:
    return list(dict.fromkeys(each for one in filters for each in admin.describe_acls(one)))


def _check_administrators(admin: Admin, created: Sequence[AclEntry] = (), deleted: Sequence[AclEntry] = ()) -> None:
    if not any(each.resource_type is ResourceType.CLUSTER for each in (*created, *deleted)):
        return
    before = admin.describe_acls(AclFilter(resource_type=ResourceType.CLUSTER))
    gone = set(deleted)
    after = [each for each in (*before, *created) if each.resource_type is ResourceType.CLUSTER and each not in gone]
    if not may_lose_last_administrator(before, after):
        return
    nothing = (
        f"nothing is {'created' if created else 'deleted'}: afterwards no principal would have ALTER on the cluster"
    )
    settings = visible_settings(admin)
    if settings is None:
        fail(
            f"{nothing}, and you may not see whether the broker has super.users, which takes DESCRIBE_CONFIGS on the"
            " cluster: without them nobody could change ACLs any more: give --force to do it anyway"
        )
    if loses_last_administrator(before, after, settings):
        fail(
            f"{nothing}, and the broker has no super.users, so nobody could change ACLs any more: allow another"
            " principal first, or give --force"
        )


def _parts(of: Iterable[AclEntry]) -> Iterator[list[AclEntry]]:
    rest = iter(of)
    while part := list(islice(rest, ACLS_AT_ONCE)):
        yield part


def _print(of: Iterable[AclEntry], output: Output) -> None:
    ordered = sorted(of, key=_row)
    if output is Output.JSON:
        print_json([_json(each) for each in ordered])
    elif ordered:
        print_columns(_TITLES, [_row(each) for each in ordered])
        say(counted(len(ordered), "ACL"))
    else:
        say("no ACLs")


def _row(entry: AclEntry) -> tuple[str, ...]:
    return (
        words(entry.resource_type),
        entry.resource_name,
        words(entry.pattern_type),
        entry.principal,
        entry.host,
        words(entry.operation),
        words(entry.permission),
    )


def _json(entry: AclEntry) -> dict[str, Any]:
    keys = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
    return dict(zip(keys, _row(entry), strict=True))
