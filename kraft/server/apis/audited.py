"""What the audit says of the APIs with which administrators change something: resources, and what became of them.

Values of configs, passwords and their salts are in no line: what is changed is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct

from kraft.model.access import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from kraft.model.errors import ErrorCode
from kraft.server.access.config_guards import protected


class Outcome(NamedTuple):
    """What became of one resource of a request."""

    resource_type: ResourceType
    resource_name: str
    error_code: int
    detail: str = ""


Outcomes = Callable[[Any, Any, int], Iterable[Outcome]]
"""Returns those of a request from its response, and the code with which all of it was answered. The response is None if
there is none that says more than this code."""


class Audited(Struct, frozen=True):
    """An API whose calls are audited."""

    operation: Operation
    outcomes: Outcomes


# --- resources of their own ------------------------------------------------------------------------------------------


def _each(resource_type: ResourceType, answers: str, name: str = "name") -> Outcomes:
    """Return the outcomes of an API whose response has an error for each resource."""

    def outcomes(request: Any, response: Any, code: int) -> Iterator[Outcome]:
        if response is None:
            yield Outcome(resource_type, "", code)
            return
        for each in getattr(response, answers):
            yield Outcome(resource_type, getattr(each, name) or "", each.error_code, _topic_id(each))

    return outcomes


def _topic_id(answer: Any) -> str:
    """Return the id of a topic that the answer does not name."""
    return "" if getattr(answer, "name", "") is not None else f"topic id {answer.topic_id}"


def _records(_: Any, response: Any, code: int) -> Iterator[Outcome]:
    if response is None:
        yield Outcome(ResourceType.TOPIC, "", code)
        return
    for topic in response.topics:
        for each in topic.partitions:
            yield Outcome(ResourceType.TOPIC, topic.name, each.error_code, f"partition {each.partition_index}")


def _offsets(request: Any, response: Any, code: int) -> Iterator[Outcome]:
    group = request.group_id
    if code or response is None:
        yield Outcome(ResourceType.GROUP, group, code)
        return
    for topic in response.topics:
        for each in topic.partitions:
            detail = f"offset of topic {topic.name}, partition {each.partition_index}"
            yield Outcome(ResourceType.GROUP, group, each.error_code, detail)


def _configs(request: Any, response: Any, code: int) -> Iterator[Outcome]:
    keys = {
        (each.resource_type, each.resource_name): ", ".join(config.name for config in each.configs[:_KEYS_NAMED_MAX])
        for each in request.resources
    }
    for each in response.responses:
        resource_type, name = protected(each)
        detail = keys.get((each.resource_type, each.resource_name), "")
        if resource_type is ResourceType.CLUSTER:
            detail = f"resource {each.resource_type} {each.resource_name!r}: {detail}"
        yield Outcome(resource_type, name, each.error_code, detail)


_KEYS_NAMED_MAX: Final = 20

# --- the cluster -----------------------------------------------------------------------------------------------------


def _cluster(error_code: int, detail: str) -> Outcome:
    return Outcome(ResourceType.CLUSTER, CLUSTER_NAME, error_code, detail)


def _created_acls(request: Any, response: Any, code: int) -> Iterator[Outcome]:
    for creation, result in zip(request.creations, response.results, strict=False):
        pattern = creation.resource_pattern_type
        yield _cluster(result.error_code, _acl(creation, creation.resource_type, creation.resource_name, pattern))


def _deleted_acls(request: Any, response: Any, code: int) -> Iterator[Outcome]:
    for wanted, result in zip(request.filters, response.filter_results, strict=False):
        for each in result.matching_acls:
            yield _cluster(each.error_code, _acl(each, each.resource_type, each.resource_name, each.pattern_type))
        if not result.matching_acls:
            name, pattern = wanted.resource_name_filter, wanted.pattern_type_filter
            detail = _written(
                wanted.principal_filter,
                wanted.host_filter,
                (wanted.permission_type, wanted.operation, wanted.resource_type_filter, pattern),
                name,
            )
            yield _cluster(result.error_code, f"nothing matches {detail}")


def _acl(acl: Any, resource_type: int, name: str, pattern: int) -> str:
    return _written(acl.principal, acl.host, (acl.permission_type, acl.operation, resource_type, pattern), name)


def _written(principal: str | None, host: str | None, numbers: tuple[int, int, int, int], name: str | None) -> str:
    """Return an ACL, or a filter whose None is any, in one line. Numbers may be unknown ones: nobody checked them."""
    kinds = (PermissionType, Operation, ResourceType, PatternType)
    permission, operation, resource_type, pattern = (
        kind(number).name if number in kind._value2member_map_ else str(number)
        for kind, number in zip(kinds, numbers, strict=True)
    )
    who, where = ("ANY" if each is None else each[:_TEXT_MAX] for each in (principal, host))
    what = "ANY" if name is None else name[:_TEXT_MAX]
    return f"{permission} {who} from {where}: {operation} on {pattern} {resource_type} {what}"


_TEXT_MAX: Final = 249


def _users(_: Any, response: Any, code: int) -> Iterator[Outcome]:
    for each in response.results:
        yield _cluster(each.error_code, f"user {each.user}")


def _quotas(_: Any, response: Any, code: int) -> Iterator[Outcome]:
    for each in response.entries:
        entity = ", ".join(f"{part.entity_type} {part.entity_name or '<default>'}" for part in each.entity)
        yield _cluster(each.error_code, entity)


def _features(request: Any, _: Any, code: int) -> Iterator[Outcome]:
    for each in request.feature_updates:
        yield _cluster(code, f"{each.feature} level {each.max_version_level}")


def _broker(request: Any, _: Any, code: int) -> Iterator[Outcome]:
    yield _cluster(code, f"broker {request.broker_id}")


def _moves(_: Any, response: Any, code: int) -> Iterator[Outcome]:
    if code:
        yield _cluster(code, "")
    for topic in response.responses:
        for each in topic.partitions:
            yield _cluster(each.error_code or code, f"topic {topic.name}, partition {each.partition_index}")


def _elections(_: Any, response: Any, code: int) -> Iterator[Outcome]:
    if code:
        yield _cluster(code, "")
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            yield _cluster(each.error_code or code, f"topic {topic.topic}, partition {each.partition_id}")


def _directories(_: Any, response: Any, code: int) -> Iterator[Outcome]:
    for topic in response.results:
        for each in topic.partitions:
            yield _cluster(each.error_code, f"topic {topic.topic_name}, partition {each.partition_index}")


def _transaction(request: Any, _: Any, code: int) -> Iterator[Outcome]:
    yield _cluster(code, f"producer {request.producer_id}, topic {request.topic}, partition {request.partition}")


def _markers(_: Any, response: Any, code: int) -> Iterator[Outcome]:
    for marker in response.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                detail = f"producer {marker.producer_id}, topic {topic.name}, partition {each.partition_index}"
                yield _cluster(each.error_code, detail)


def code_of(response: Any) -> int:
    """Return the code with which all of a request is answered."""
    return int(getattr(response, "error_code", ErrorCode.NONE))


CREATE_TOPICS: Final = Audited(Operation.CREATE, _each(ResourceType.TOPIC, "topics"))
DELETE_TOPICS: Final = Audited(Operation.DELETE, _each(ResourceType.TOPIC, "responses"))
CREATE_PARTITIONS: Final = Audited(Operation.ALTER, _each(ResourceType.TOPIC, "results"))
DELETE_RECORDS: Final = Audited(Operation.DELETE, _records)
DELETE_GROUPS: Final = Audited(Operation.DELETE, _each(ResourceType.GROUP, "results", "group_id"))
OFFSET_DELETE: Final = Audited(Operation.DELETE, _offsets)
CONFIGS: Final = Audited(Operation.ALTER_CONFIGS, _configs)
CREATE_ACLS: Final = Audited(Operation.ALTER, _created_acls)
DELETE_ACLS: Final = Audited(Operation.ALTER, _deleted_acls)
USERS: Final = Audited(Operation.ALTER, _users)
QUOTAS: Final = Audited(Operation.ALTER_CONFIGS, _quotas)
FEATURES: Final = Audited(Operation.ALTER, _features)
BROKER: Final = Audited(Operation.ALTER, _broker)
MOVES: Final = Audited(Operation.ALTER, _moves)
ELECTIONS: Final = Audited(Operation.ALTER, _elections)
DIRECTORIES: Final = Audited(Operation.ALTER, _directories)
ABORT_TRANSACTION: Final = Audited(Operation.ALTER, _transaction)
WRITE_TXN_MARKERS: Final = Audited(Operation.CLUSTER_ACTION, _markers)
