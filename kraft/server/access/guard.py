"""Guards: what stands before the handler of an API, and lets through what the asker may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kraft.model.access import CLUSTER_NAME, Operation, ResourceType
from kraft.model.errors import Refusal
from kraft.server.access.asker import Asker
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import replace

Item = TypeVar("Item")


class Permission(NamedTuple):
    """What a request needs."""

    operation: Operation
    resource: ResourceType


Proceed = Callable[[Any], Awaitable[Any]]
"""Answers a request, without any further question."""

Guard = Callable[[Asker, Any, Proceed], Awaitable[Any]]
"""Answers a request: it asks, proceeds with what the asker may do, and adds Kafka's error for the rest. Raises Refusal
to refuse the whole request."""

ASKED_AT_ONCE: Final = 1_000
"""Decisions before other tasks have their turn: one that is not remembered takes some microseconds."""

NAME_FIELDS: Final = {ResourceType.GROUP: "group_id", ResourceType.TRANSACTIONAL_ID: "transactional_id"}
"""The field that names the only resource of a type, in requests that have one."""


def required(needs: Sequence[Permission]) -> Guard:
    """Return the guard of an API whose request needs all of these, of the cluster or of the resources it names."""

    async def guard(asker: Asker, request: Any, proceed: Proceed) -> Any:
        for operation, resource_type in needs:
            field = NAME_FIELDS.get(resource_type)
            asker.require(operation, resource_type, CLUSTER_NAME if field is None else getattr(request, field))
        return await proceed(request)

    return guard


class Asked(NamedTuple):
    """What the asker may, and what it may not, of the items of a request."""

    allowed: tuple[Any, ...]
    refused: tuple[Any, ...]


async def asked(items: Iterable[Item], may: Callable[[Item], bool]) -> Asked:
    """Ask for each of the items, in turns."""
    turns, allowed, refused = Turns(ASKED_AT_ONCE), list[Item](), list[Item]()
    for item in items:
        (allowed if may(item) else refused).append(item)
        await turns.done()
    return Asked(tuple(allowed), tuple(refused))


def part_by_part(
    permission: Permission,
    *,
    parts: str,
    name: Callable[[Any], str],
    refused: Callable[[Any, Refusal], Any],
    answers: str,
) -> Guard:
    """Return the guard of an API whose request has `parts`, with one resource each, and its response `answers`.

    `name` returns the name of a part's resource, `refused` the answer to a part.
    """
    operation, resource_type = permission

    async def guard(asker: Asker, request: Any, proceed: Proceed) -> Any:
        allowed, not_allowed = await asked(
            getattr(request, parts), lambda part: asker.may(operation, resource_type, name(part))
        )
        if not not_allowed:
            return await proceed(request)
        response = await proceed(replace(request, **{parts: allowed}))
        turns, more = Turns(ASKED_AT_ONCE), []
        for part in not_allowed:
            more.append(refused(part, asker.refusal(operation, resource_type, name(part))))
            await turns.done(1 + len(getattr(part, "partitions", ())))
        return replace(response, **{answers: (*getattr(response, answers), *more)})

    return guard


def topic_needs(operation: Operation) -> Permission:
    return Permission(operation, ResourceType.TOPIC)


def group_needs(operation: Operation) -> Permission:
    return Permission(operation, ResourceType.GROUP)
