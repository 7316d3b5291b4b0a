"""ACLs at real nodes: who is allowed what, from one test to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import structs

from kraft.client import Admin
from kraft.metadata.acl_filters import AclFilter
from kraft.metadata.acls import AclEntry
from kraft.model.access import Operation, ResourceType
from kraft.server.config.access_settings import STANDARD_AUTHORIZER
from tests.support.acl_entries import entry
from tests.support.waiting import until

AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:root"}
"""Settings of nodes that ask everybody but root, and whoever comes over gRPC without a login."""


def on_topic(name: str, operation: Operation, user: str) -> AclEntry:
    return entry(name, operation, principal=f"User:{user}")


def on_group(name: str, operation: Operation, user: str) -> AclEntry:
    return entry(name, operation, principal=f"User:{user}", resource_type=ResourceType.GROUP)


def on_id(name: str, operation: Operation, user: str) -> AclEntry:
    return entry(name, operation, principal=f"User:{user}", resource_type=ResourceType.TRANSACTIONAL_ID)


def on_cluster(operation: Operation, user: str) -> AclEntry:
    return entry("kafka-cluster", operation, principal=f"User:{user}", resource_type=ResourceType.CLUSTER)


class Rules:
    """Changes the ACLs of a cluster, and waits until each of its brokers asks by them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admins = [Admin(each) for each in bootstrap_servers.split(",")]

    def close(self) -> None:
        for admin in self._admins:
            admin.close()

    @contextmanager
    def allowed(self, *entries: AclEntry) -> Iterator[None]:
        """Create ACLs, and delete them in the end."""
        self._admins[0].create_acls(entries)
        try:
            self._until_known(lambda known: known.issuperset(entries))
            yield
        finally:
            self.withdraw(*entries)

    def withdraw(self, *entries: AclEntry) -> None:
        self._admins[0].delete_acls([AclFilter(**structs.asdict(each)) for each in entries])
        self._until_known(lambda known: known.isdisjoint(entries))

    def _until_known(self, holds: Callable[[set[AclEntry]], bool]) -> None:
        for admin in self._admins:
            until(partial(_has, admin, holds), "a broker has other ACLs")


def _has(admin: Admin, holds: Callable[[set[AclEntry]], bool]) -> bool:
    return holds(set(admin.describe_acls()))
