"""ACLs as fields of addresses and forms: filters, and what is to be created."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, TypeVar

from kraft.access import purposes
from kraft.access.words import (
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    UnknownName,
    named,
)
from kraft.console.forms import Form, WrongInput
from kraft.metadata.acl_filters import AclFilter
from kraft.model.access import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    WILDCARD,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    words,
)

if TYPE_CHECKING:
    from kraft.access.purposes import Right
    from kraft.metadata.acls import AclEntry

Name = TypeVar("Name", ResourceType, Operation, PatternType, PermissionType)

PURPOSES: Final = {
    "consumer": "Consumer: read topics, in groups",
    "producer": "Producer: write to topics, also idempotently",
    "idempotent": "Producer of a cluster older than Kafka 2.8: the same, with IdempotentWrite",
    "transactional": "Transactional producer: write to topics in transactions",
    "viewer": "Viewer: see all of the cluster, but no records",
    "administrator": "Administrator: everything",
    "operations": "Single operations on one resource",
}

NAMES_MAX: Final = 200
NAME_CHARS_MAX: Final = 1_000


def chosen(form: Form, name: str, among: tuple[Name, ...], default: Name) -> Name:
    """Return the choice of a field. Raises WrongInput."""
    text = form.text(name)
    if not text:
        return default
    try:
        return named(text, among, name)
    except UnknownName as error:
        raise WrongInput(str(error)) from None


def principal_in(form: Form) -> str:
    """Return the principal, `User:` before a bare name; empty if there is none. Raises WrongInput."""
    text = form.text("principal")
    if len(text) > NAME_CHARS_MAX:
        raise WrongInput(f"the principal is longer than {NAME_CHARS_MAX} letters")
    return text if not text or ":" in text else f"User:{text}"


def filter_in(form: Form) -> AclFilter:
    """Return the filter that the fields are; of a resource's name it finds all ACLs that concern it.

    Raises WrongInput.
    """
    pattern = form.text("pattern")
    exact = chosen(form, "pattern", PATTERN_TYPES, PatternType.LITERAL)
    resource = form.raw("resource") or None
    match_type = PatternType.MATCH if resource else PatternType.ANY
    return AclFilter(
        resource_type=chosen(form, "type", RESOURCE_TYPES, ResourceType.ANY),
        resource_name=resource,
        pattern_type=exact if pattern else match_type,
        principal=principal_in(form) or None,
        host=form.text("host") or None,
        operation=chosen(form, "operation", OPERATIONS, Operation.ANY),
        permission=chosen(form, "permission", PERMISSIONS, PermissionType.ANY),
    )


def fields_of(entry: AclEntry) -> dict[str, str]:
    """Return the fields that choose this ACL alone."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "type": words(entry.resource_type),
        "resource": entry.resource_name,
        "pattern": words(entry.pattern_type),
        "operation": words(entry.operation),
        "permission": words(entry.permission),
    }


def names_in(form: Form, name: str) -> list[str]:
    """Return names that are separated by commas or the ends of lines. Raises WrongInput."""
    texts = [text for value in form.all(name) for text in value.replace(",", "\n").split("\n")]
    found = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if len(found) > NAMES_MAX:
        raise WrongInput(f"{name} has more than {NAMES_MAX} names: create ACLs for a common beginning instead")
    return found


def wanted_entries(form: Form) -> list[AclEntry]:
    """Return the ACLs that a form describes. Raises WrongInput."""
    principal = principal_in(form)
    if not principal:
        raise WrongInput("name the principal, such as User:alice; User:* is everybody")
    rights = _rights(form)
    unknown = purposes.never_asked(rights)
    if unknown is not None:
        (resource_type, _), operation = unknown
        known = ", ".join(words(each) for each in (Operation.ALL, *OPERATIONS_ON[resource_type]))
        raise WrongInput(f"a {words(resource_type)} has no {words(operation)}: choose among {known}")
    permission = chosen(form, "permission", PERMISSIONS, PermissionType.ALLOW)
    hosts = names_in(form, "host") or [WILDCARD]
    held = [(permission, principal, host) for host in hosts]
    pattern = chosen(form, "pattern", PATTERN_TYPES, PatternType.LITERAL)
    return list(dict.fromkeys(purposes.entries(rights, held, pattern)))


def _rights(form: Form) -> list[Right]:
    purpose = form.text("purpose")
    topics, groups, ids = (names_in(form, each) for each in ("topics", "groups", "transactional-ids"))
    match purpose:
        case "consumer":
            _need(topics and groups, "a consumer needs topics and groups: name them")
            return purposes.consumer(topics, groups)
        case "producer" | "idempotent":
            _need(topics, "a producer needs topics: name them")
            return purposes.producer(topics, [], is_idempotent=purpose == "idempotent")
        case "transactional":
            _need(topics and ids, "a transactional producer needs topics and transactional ids: name them")
            return purposes.producer(topics, ids)
        case "viewer":
            return purposes.viewer()
        case "administrator":
            return purposes.administrator()
        case "operations":
            return _single(form)
        case _:
            raise WrongInput(f"purpose={purpose[:40]!r} is not one of {', '.join(PURPOSES)}")


def _single(form: Form) -> list[Right]:
    resource_type = chosen(form, "type", RESOURCE_TYPES, ResourceType.ANY)
    _need(resource_type is not ResourceType.ANY, "choose what the operations are on: a topic, a group, the cluster")
    names = [CLUSTER_NAME] if resource_type is ResourceType.CLUSTER else names_in(form, "resource")
    _need(names, f"name the {words(resource_type)}; * is every one")
    given = [each for value in form.all("operation") for each in value.split(",") if each.strip()]
    _need(given, "choose at least one operation")
    try:
        operations = [named(each.strip(), OPERATIONS, "operation") for each in given]
    except UnknownName as error:
        raise WrongInput(str(error)) from None
    return list(product([(resource_type, name) for name in names], operations))


def _need(has: object, problem: str) -> None:
    if not has:
        raise WrongInput(problem)
