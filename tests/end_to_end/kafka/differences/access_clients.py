"""Clients that differ in nothing but their ACLs, and what there is for them to touch.

What APIs need is declared once, in the cases of the unit tests: for each need there is a client that may do everything
else, and one that may do nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from kraft.metadata.acls import AclEntry
from kraft.model.access import ALLOWED_BY, CLUSTER_NAME, WILDCARD, Operation, ResourceType
from tests.end_to_end.kafka.differences.peer import ROOT
from tests.support.acl_entries import DENY, PREFIXED, entry
from tests.unit.server.access.cases import CASES
from tests.unit.server.access.needs import GROUP, TOPIC, TRANSACTION, Need, on_cluster, on_id, on_topic, without

MISSING: Final = f"{TOPIC}-missing"
MISNAMED: Final = f"{TOPIC}!"
OTHER: Final = "other"
OTHER_MISSING: Final = "other-missing"
"""Topics: `orders` and `other` exist; the third name can be in an ACL, and no topic can have it."""

NO_GROUP: Final = f"{GROUP}-missing"
MEMBERS: Final = f"{GROUP}-members"
OTHER_GROUP: Final = "other-group"
OTHER_MEMBERS: Final = "other-members"
"""Groups: `billing` and `other-group` have offsets, two others a member each."""

NEW_TRANSACTION: Final = f"{TRANSACTION}-new"
OTHER_TRANSACTION: Final = "other-id"

_NAMES: Final = {
    ResourceType.TOPIC: (TOPIC, MISSING, MISNAMED),
    ResourceType.GROUP: (GROUP, NO_GROUP, MEMBERS),
    ResourceType.TRANSACTIONAL_ID: (TRANSACTION, NEW_TRANSACTION),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
}
"""The resources that ACLs name. Those that begin with `other` have none of their own."""

_HERE, _ELSEWHERE = "127.0.0.1", "10.0.0.8"

Entries = Iterable[AclEntry]


def _named(user: str, operation: Operation = Operation.ALL, host: str = WILDCARD) -> Iterator[AclEntry]:
    for resource_type, names in _NAMES.items():
        for name in names:
            yield entry(name, operation, principal=f"User:{user}", host=host, resource_type=resource_type)


def _everywhere(user: str) -> Iterator[AclEntry]:
    for resource_type in _NAMES:
        name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else WILDCARD
        yield entry(name, Operation.ALL, principal=f"User:{user}", resource_type=resource_type)


def _denied(user: str, operation: Operation = Operation.ALL) -> Iterator[AclEntry]:
    yield from _everywhere(user)
    for each in _named(user, operation):
        yield replace(each, permission=DENY)


def _prefixed(user: str) -> Iterator[AclEntry]:
    for resource_type, (name, *_) in _NAMES.items():
        prefix = name if resource_type is ResourceType.CLUSTER else name[:4]
        yield entry(prefix, Operation.ALL, principal=f"User:{user}", resource_type=resource_type, pattern_type=PREFIXED)


KINDS: Final[dict[str, Callable[[str], Entries]]] = {
    "none": lambda _: (),
    "exact": _named,
    "deny": _denied,
    "prefixed": _prefixed,
    "wildcard": _everywhere,
    "host": partial(_named, host=_HERE),
    "elsewhere": partial(_named, host=_ELSEWHERE),
    ROOT: lambda _: (),
}
"""The seven kinds of ACLs that the matrix is about, and one of another host, by the name of their client."""


PARTLY_DENIED: Final[dict[str, Callable[[str], Entries]]] = {
    "deny-read": partial(_denied, operation=Operation.READ),
    "deny-describe": partial(_denied, operation=Operation.DESCRIBE),
    "deny-prefixed": lambda user: (*_everywhere(user), *(replace(each, permission=DENY) for each in _prefixed(user))),
}
"""What is denied implies nothing: who may not read may describe, and who may not describe may read."""


def _words(need: Need) -> str:
    return f"{need.resource_type.name}-{need.operation.name}".lower().replace("_", "-")


def name_without(alternatives: tuple[Need, ...]) -> str:
    return f"without-{'-or-'.join(sorted(map(_words, alternatives)))}"


def name_with_only(need: Need) -> str:
    return f"only-{_words(need)}"


def _without(user: str, alternatives: tuple[Need, ...]) -> Iterator[AclEntry]:
    for each in without(alternatives):
        name = CLUSTER_NAME if each.resource_type is ResourceType.CLUSTER else WILDCARD
        yield entry(name, each.operation, principal=f"User:{user}", resource_type=each.resource_type)


def _only(user: str, need: Need) -> Iterator[AclEntry]:
    return (each for each in _named(user, need.operation) if each.resource_type is need.resource_type)


NOTED: Final[dict[str, tuple[tuple[Need, ...], ...]]] = {
    "InitProducerId": ((on_cluster(Operation.IDEMPOTENT_WRITE), on_topic(Operation.WRITE)),),
    "FindCoordinator": ((on_id(Operation.DESCRIBE),),),
    "Metadata": ((on_cluster(Operation.CREATE), on_topic(Operation.CREATE)),),
    "<ApiKey.ADD_PARTITIONS_TO_TXN: 24>": ((on_cluster(Operation.CLUSTER_ACTION),),),
}
"""What requests of some APIs need that the request of the unit tests' case does not: its note says so."""


def needs_of(api: str) -> tuple[tuple[Need, ...], ...]:
    declared = CASES[api].needs if api in CASES else ()
    return (*declared, *NOTED.get(api, ()))


def _declared() -> Iterator[tuple[Need, ...]]:
    for api in CASES:
        for alternatives in needs_of(api):
            yield alternatives
            yield from ((each,) for each in alternatives)


WITHOUT: Final = {name_without(each): each for each in sorted(_declared(), key=name_without)}
"""The needs that a client lacks, by its name."""

ONLY: Final = {name_with_only(each): each for each in sorted({one for each in _declared() for one in each}, key=_words)}


def acls() -> list[AclEntry]:
    """Return those of all clients."""
    found: list[AclEntry] = []
    for user, kind in {**KINDS, **PARTLY_DENIED}.items():
        found += kind(user)
    for user, alternatives in WITHOUT.items():
        found += _without(user, alternatives)
    for user, need in ONLY.items():
        found += _only(user, need)
    return found


def users() -> list[str]:
    return [*KINDS, *PARTLY_DENIED, *WITHOUT, *ONLY]


def users_of(api: str) -> list[str]:
    """Return the clients that send the requests of an API: all but those that have only what others need."""
    enough = {one for alternatives in needs_of(api) for each in alternatives for one in _implying(each)}
    return [*KINDS, *PARTLY_DENIED, *WITHOUT, *(name for name, need in ONLY.items() if _kind(need) in enough)]


def _implying(need: Need) -> Iterator[tuple[ResourceType, Operation]]:
    """Yield what an ACL may be for that is enough."""
    for operation in (need.operation, *ALLOWED_BY.get(need.operation, ())):
        yield need.resource_type, operation


def _kind(need: Need) -> tuple[ResourceType, Operation]:
    return need.resource_type, need.operation


def lacks_a_need(user: str, needs: Iterable[tuple[Need, ...]]) -> bool:
    """Return whether one of those in WITHOUT lacks all alternatives of some need."""
    allowed = {(each.resource_type, each.operation) for each in _without(user, WITHOUT[user])}
    return any(all(_kind(each) not in allowed for each in one) for one in needs)


def is_refused(api: str, user: str) -> bool:
    """Return whether a client may not do what the API is for."""
    return user in ("none", "deny", "elsewhere") or (user in WITHOUT and lacks_a_need(user, needs_of(api)))
