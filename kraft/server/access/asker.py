"""The client that sends a request, and what it may do by the ACLs of this moment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from functools import lru_cache, partial
from itertools import islice
from typing import Final

from msgspec import Struct, field

from kraft.metadata.authorizer import Authorizer, CurrentAuthorizer, Requester
from kraft.metadata.image import CurrentImage
from kraft.model.access import CLUSTER_NAME, OPERATIONS_ON, Operation, ResourceType, words
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.principal import Principal
from kraft.model.request_context import host_of
from kraft.rpc.on_behalf import Client
from kraft.server.access.audit import FAILURES_WRITTEN_MAX, Audit, AuditEvent
from kraft.server.access.group_askers import GroupAskers
from kraft.server.config.access_settings import AccessSettings

REFUSED_WITH: Final = {
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""Kafka's error of each type of resource."""

REQUESTERS_KEPT_MAX: Final = 4_096

ASKERS_KEPT_MAX: Final = 2_048
"""Connections whose asker is kept; all are made again when there are more."""

TOPICS_KEPT_MAX: Final = 128
"""Topics of which an asker keeps what it may: as many take some KiB."""

NAME_CHARACTERS_MAX: Final = 249
"""Characters of a name that a message repeats: that many a topic may have."""


RefusalNoted = Callable[[Operation, ResourceType, str, int], None]


class Asker(Struct, frozen=True):
    """A principal at a host, bound to the authorizer of the image that was current when its request began."""

    authorizer: Authorizer
    requester: Requester
    current: Callable[[], Authorizer]
    """Returns the authorizer of the current image."""

    readable: set[str] = field(default_factory=set)
    writable: set[str] = field(default_factory=set)
    """Topics that it may read or write, for the hot path, where each look-up by a shorter key counts."""

    noted: RefusalNoted | None = None
    """Tells the audit what the asker is refused. None: it is not told, or somebody else tells it."""

    def now(self) -> Asker:
        """Return the same asker by the ACLs of this moment; this very one if they are still those of the request."""
        current = self.current()
        return self if current is self.authorizer else Asker(current, self.requester, self.current, noted=self.noted)

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return self.authorizer.decide(self.requester, operation, resource_type, name).is_allowed

    def may_read(self, topic: str) -> bool:
        return topic in self.readable or self._kept(self.readable, Operation.READ, topic)

    def may_write(self, topic: str) -> bool:
        return topic in self.writable or self._kept(self.writable, Operation.WRITE, topic)

    def _kept(self, kept: set[str], operation: Operation, topic: str) -> bool:
        allowed = self.may(operation, ResourceType.TOPIC, topic)
        # A client can make up names, so longer ones would take any memory, and it is in no hurry to be refused.
        if allowed and len(topic) <= NAME_CHARACTERS_MAX:
            if len(kept) >= TOPICS_KEPT_MAX:
                kept.clear()
            kept.add(topic)
        return allowed

    def may_on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether it may on at least one resource, whatever its name."""
        return self.authorizer.may_on_any(self.requester, operation, resource_type)

    def require(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Raise the Refusal of the type of resource, unless the asker may."""
        if not self.may(operation, resource_type, name):
            raise self.refusal(operation, resource_type, name)

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> Refusal:
        """Return what a request is refused with. It names nothing that the request itself does not name."""
        self.is_refused(operation, resource_type, (name,))
        resource = "the cluster"
        if resource_type is not ResourceType.CLUSTER:
            resource = f"{words(resource_type)} '{name[:NAME_CHARACTERS_MAX]}'"
        problem = f"{self.requester.principal} has no {words(operation)} permission for {resource}"
        return Refusal(REFUSED_WITH[resource_type], problem)

    def is_refused(self, operation: Operation, resource_type: ResourceType, names: Collection[str]) -> None:
        """Have it noted that the asker is told that it may not. `refusal` does so itself."""
        if self.noted is None or not names:
            return
        *first, last = islice(names, FAILURES_WRITTEN_MAX + 1)
        for name in first:
            self.noted(operation, resource_type, name, 1)
        # No more than these have lines: the others are only counted, in one step.
        self.noted(operation, resource_type, last, len(names) - len(first))

    def operations_on_cluster(self) -> int:
        """Return the operations on the cluster, of which only those know who may describe it."""
        if not self.may_on_cluster(Operation.DESCRIBE):
            return 0
        return self.operations_on(ResourceType.CLUSTER, CLUSTER_NAME)

    def operations_on(self, resource_type: ResourceType, name: str) -> int:
        """Return the operations that the asker may do on a resource, one bit each (KIP-430)."""
        return sum(1 << each for each in OPERATIONS_ON[resource_type] if self.may(each, resource_type, name))


class Askers:
    """Makes the asker of each request, with the authorizer of the current image."""

    def __init__(self, image: CurrentImage, authorizers: CurrentAuthorizer) -> None:
        self._image = image
        self._audit: Audit | None = None
        self._listener = ""
        self._authorizers = authorizers
        self.of_groups: Final = GroupAskers(self.authorizer)
        self._acls = image().acls
        self._at_peers: dict[tuple[Principal, str], Asker] = {}
        """The askers of connections, by the ACLs of now."""

    def told_to(self, audit: Audit | None, listener: str) -> Askers:
        """Return what makes the askers of one listener, whose refusals the audit gets."""
        told = copy(self)
        told._audit, told._listener = audit, listener
        told._at_peers = {}
        return told

    def authorizer(self) -> Authorizer:
        """Return that of the current image: the same object as long as its ACLs are the same."""
        return self._authorizers.of(self._image().acls)

    def at(self, principal: Principal, peer: str) -> Asker:
        """Return the asker at an address with its port: the same object for each request, until the ACLs change."""
        acls = self._image().acls
        if acls is not self._acls:
            self._acls, self._at_peers = acls, {}
        key = principal, peer
        known = self._at_peers.get(key)
        if known is None:
            if len(self._at_peers) >= ASKERS_KEPT_MAX:
                self._at_peers.clear()
            self._at_peers[key] = known = self.of(principal, host_of(peer))
        return known

    def of(self, principal: Principal, host: str) -> Asker:
        """Return the asker at `host`, an address without its port."""
        noted = None if self._audit is None else partial(self._note, self._audit, Client(principal, host))
        return Asker(self.authorizer(), _requester(principal, host), self.authorizer, noted=noted)

    def _note(
        self, audit: Audit, client: Client, operation: Operation, resource_type: ResourceType, name: str, times: int
    ) -> None:
        # A longer name is not kept, neither here nor in a line.
        name = name[:NAME_CHARACTERS_MAX]
        audit(AuditEvent(client, self._listener, operation, resource_type, name, REFUSED_WITH[resource_type]), times)


def askers_of(settings: AccessSettings, image: CurrentImage) -> Askers | None:
    """Return what makes askers at a node with these settings; None if nobody is asked."""
    authorizers = settings.authorizer()
    return None if authorizers is None else Askers(image, authorizers)


@lru_cache(REQUESTERS_KEPT_MAX)
def _requester(principal: Principal, host: str) -> Requester:
    return Requester.of(principal, host)
