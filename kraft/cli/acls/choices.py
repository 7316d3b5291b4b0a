"""Options of `kraft acls`, and the resources, holders and operations that they choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Annotated, Any, Final

import typer

from kraft.access import purposes
from kraft.access.purposes import Held, Resource
from kraft.model.access import (
    CLUSTER_NAME,
    EVERY_USER,
    OPERATIONS_ON,
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    words,
)

OPERATIONS: Final = {each.name.replace("_", "").lower(): each for each in Operation if each > Operation.ANY}
"""By their names as Kafka's tool takes them, in any case: `DescribeConfigs`, `describe-configs`."""

_OPERATION_NAMES: Final = ", ".join(words(each).replace(" ", "-") for each in OPERATIONS.values())


class PatternChoice(StrEnum):
    """Pattern types, as in Kafka's tool."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"

    @property
    def type(self) -> PatternType:
        return PatternType[self.name]


def _names(option: str, help_: str) -> Any:
    return typer.Option(option, metavar="NAME", help=f"{help_} May be repeated.", show_default=False)


Pattern = Annotated[
    PatternChoice | None,
    typer.Option(
        "--resource-pattern-type",
        help="Names are whole (literal) or beginnings. [default: literal]",
        show_default=False,
    ),
]

NO_RESOURCE: Final = "no resource is given: name one with --topic, --group, --cluster or another"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources that options name."""

    topics: Annotated[list[str] | None, _names("--topic", "Topic; '*' is every topic.")] = None
    groups: Annotated[list[str] | None, _names("--group", "Group; '*' is every group.")] = None
    transactional_ids: Annotated[
        list[str] | None, _names("--transactional-id", "Transactional id; '*' is every one.")
    ] = None
    delegation_tokens: Annotated[list[str] | None, _names("--delegation-token", "Delegation token.")] = None
    users: Annotated[
        list[str] | None, _names("--user-principal", "User as a resource, for delegation tokens: User:NAME.")
    ] = None
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster itself.")] = False

    def named(self) -> list[Resource]:
        named = {
            ResourceType.TOPIC: self.topics,
            ResourceType.GROUP: self.groups,
            ResourceType.TRANSACTIONAL_ID: self.transactional_ids,
            ResourceType.DELEGATION_TOKEN: self.delegation_tokens,
            ResourceType.USER: self.users,
            ResourceType.CLUSTER: [CLUSTER_NAME] if self.cluster else None,
        }
        return [(resource_type, name) for resource_type, names in named.items() for name in names or ()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Who is allowed and who is denied, and from where."""

    allowed: Annotated[
        list[str] | None, _names("--allow-principal", "Principal to allow it, such as User:alice; User:* is everybody.")
    ] = None
    denied: Annotated[list[str] | None, _names("--deny-principal", "Principal to deny it.")] = None
    allow_hosts: Annotated[
        list[str] | None, _names("--allow-host", "Address from which it is allowed; by default, all are.")
    ] = None
    deny_hosts: Annotated[
        list[str] | None, _names("--deny-host", "Address from which it is denied; by default, all are.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """What is allowed or denied: operations, or those of a producer, a consumer or both."""

    operations: Annotated[
        list[str] | None,
        typer.Option(
            "--operation",
            metavar="NAME",
            help=f"One of {_OPERATION_NAMES}. May be repeated. [default: all]",
            show_default=False,
        ),
    ] = None
    producer: Annotated[
        bool, typer.Option("--producer", help="What producers need: write, describe, create on topics; transactions.")
    ] = False
    consumer: Annotated[
        bool, typer.Option("--consumer", help="What consumers need: read and describe on topics, read on groups.")
    ] = False
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="With --producer: idempotent writes, which older brokers ask for.")
    ] = False

    @property
    def are_chosen(self) -> bool:
        return bool(self.operations) or self.are_of_clients

    @property
    def are_of_clients(self) -> bool:
        return self.producer or self.consumer or self.idempotent


def holders(given: Holders) -> list[Held]:
    """Return who is allowed and who is denied, from where. Raises BadParameter."""
    found: list[Held] = []
    for permission, principals, hosts, option in (
        (PermissionType.ALLOW, given.allowed, given.allow_hosts, "--allow-principal"),
        (PermissionType.DENY, given.denied, given.deny_hosts, "--deny-principal"),
    ):
        for each in principals or ():
            check_principal(each, option)
        # As in Kafka's tool: a host alone is for everybody there.
        who = principals or ([EVERY_USER] if hosts else [])
        found += [(permission, principal, host) for principal, host in product(who, hosts or [WILDCARD])]
    return found


def check_principal(principal: str, option: str) -> None:
    """Raise BadParameter for one without a kind."""
    if ":" not in principal:
        raise typer.BadParameter(f"{principal!r} has no kind: write User:{principal}", param_hint=option)


def operations(names: Sequence[str]) -> list[Operation]:
    """Return the operations of these names. Raises BadParameter."""
    found = []
    for name in names:
        operation = OPERATIONS.get(name.replace("-", "").replace("_", "").replace(" ", "").lower())
        if operation is None:
            raise typer.BadParameter(f"{name!r} is not one of {_OPERATION_NAMES}", param_hint="--operation")
        found.append(operation)
    return found


def wanted_operations(resources: Resources, actions: Actions) -> list[tuple[Resource, Operation]]:
    """Return each resource with each operation that the options are about. Raises BadParameter."""
    given, named = operations(actions.operations or ()), resources.named()
    if not actions.are_of_clients:
        if not named:
            raise no_resource()
        return list(product(named, given or [Operation.ALL]))
    if given:
        raise typer.BadParameter("--producer and --consumer choose the operations: remove it", param_hint="--operation")
    return list(dict.fromkeys(_of_clients(resources, actions)))


def check_exist(wanted: Sequence[tuple[Resource, Operation]]) -> None:
    """Raises BadParameter if nobody ever asks for one of these operations on its resource: the ACL would do nothing."""
    unknown = purposes.never_asked(wanted)
    if unknown is None:
        return
    (resource_type, _), operation = unknown
    names = ", ".join(words(each).replace(" ", "-") for each in (Operation.ALL, *OPERATIONS_ON[resource_type]))
    raise typer.BadParameter(
        f"a {words(resource_type)} has no {words(operation).replace(' ', '-')}: use one of {names}",
        param_hint="--operation",
    )


def no_resource() -> typer.BadParameter:
    return typer.BadParameter(NO_RESOURCE)


def _of_clients(resources: Resources, actions: Actions) -> Iterator[tuple[Resource, Operation]]:
    topics, groups = resources.topics or [], resources.groups or []
    if actions.idempotent and not actions.producer:
        raise typer.BadParameter("is for producers: give --producer, too", param_hint="--idempotent")
    if actions.producer and not topics:
        raise typer.BadParameter("needs the topics to write to: give --topic", param_hint="--producer")
    if actions.consumer and not (topics and groups):
        raise typer.BadParameter("needs topics and groups: give --topic and --group", param_hint="--consumer")
    if actions.producer:
        yield from purposes.producer(topics, resources.transactional_ids or [], is_idempotent=actions.idempotent)
    if actions.consumer:
        yield from purposes.consumer(topics, groups)
