"""What a request needs, as the cases of the tests say it, and what their requests name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from kraft.metadata.acls import AclEntry
from kraft.model.access import ALLOWED_BY, CLUSTER_NAME, OPERATIONS_ON, Operation, ResourceType
from kraft.model.errors import ErrorCode
from tests.support.acl_entries import entry
from tests.support.cluster_images import ORDERS

NONE: Final = ErrorCode.NONE

TOPIC: Final = "orders"
"""The topic of every request. It exists in the image of the tests, with this id."""

TOPIC_ID: Final = ORDERS
UNKNOWN_ID: Final = UUID(int=999)
GROUP: Final = "billing"
TRANSACTION: Final = "payments"


class Need(Struct, frozen=True):
    """What a request needs; `code` is what one is told without it, None if something is left out instead."""

    operation: Operation
    resource_type: ResourceType
    name: str
    code: ErrorCode | None

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.resource_type.name}"


def on_topic(operation: Operation, code: ErrorCode | None = ErrorCode.TOPIC_AUTHORIZATION_FAILED) -> Need:
    return Need(operation, ResourceType.TOPIC, TOPIC, code)


def on_group(operation: Operation, code: ErrorCode | None = ErrorCode.GROUP_AUTHORIZATION_FAILED) -> Need:
    return Need(operation, ResourceType.GROUP, GROUP, code)


def on_id(operation: Operation, code: ErrorCode | None = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) -> Need:
    return Need(operation, ResourceType.TRANSACTIONAL_ID, TRANSACTION, code)


def on_cluster(operation: Operation, code: ErrorCode | None = ErrorCode.CLUSTER_AUTHORIZATION_FAILED) -> Need:
    return Need(operation, ResourceType.CLUSTER, CLUSTER_NAME, code)


EVERY_OPERATION: Final = {
    **OPERATIONS_ON,
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
}


def without(needs: Iterable[Need]) -> Iterator[AclEntry]:
    """Yield ACLs for everything but these needs, and but what implies them."""
    left_out = {(each.resource_type, each.operation) for each in needs} | {
        (each.resource_type, implying) for each in needs for implying in ALLOWED_BY.get(each.operation, ())
    }
    for resource_type, operations in EVERY_OPERATION.items():
        for operation in operations:
            if (resource_type, operation) not in left_out:
                yield entry("*", operation, resource_type=resource_type)


class Case(Struct, frozen=True):
    request: Any
    answer: Callable[[Any], Any]
    """Returns the handler's response to a request, which the guard may have made smaller."""

    needs: tuple[tuple[Need, ...], ...]
    """All of these are needed; of each, one of several alternatives."""

    note: str = ""
    """What is left out, or what else there is to say; for the documentation."""


ANSWERED: Final = object()


def whole(request: Any, *needs: Need) -> Case:
    """Return the case of an API whose handler is called or not, whatever it answers."""
    return Case(request, lambda _: ANSWERED, tuple((each,) for each in needs))


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

NOTHING: Final = SimpleNamespace()
OF_GROUP: Final = SimpleNamespace(group_id=GROUP)
OF_ID: Final = SimpleNamespace(transactional_id=TRANSACTION)


def of_topics(kinds: Any, response: Any, **more: Any) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        return response(
            **more,
            topics=tuple(
                kinds[0](name=topic.name, partitions=tuple(kinds[1](partition_index=0, error_code=NONE) for _ in [0]))
                for topic in request.topics
            ),
        )

    return answer
