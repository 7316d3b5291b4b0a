"""A client, ACLs that may change, and handlers that note what guards let through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from msgspec.structs import replace as changed

from kraft.metadata.acls import AclEntry
from kraft.metadata.authorizer import CurrentAuthorizer
from kraft.metadata.image import MetadataImage
from kraft.model.principal import Principal
from kraft.server.access.asker import Asker, Askers
from tests.support.acl_entries import acls_of
from tests.support.cluster_images import cluster, with_topic
from tests.unit.server.access.cases import CASES


def run(answer: Awaitable[Any]) -> Any:
    async def awaited() -> Any:
        return await answer

    return asyncio.run(awaited())


class World:
    """An image whose ACLs may change, and a client."""

    def __init__(self, entries: Iterable[AclEntry] = ()) -> None:
        self.image: MetadataImage = changed(with_topic(cluster(1), [1]), acls=acls_of(entries))
        self.askers = Askers(self.metadata, CurrentAuthorizer(frozenset(), allow_if_no_acl=False))

    def metadata(self) -> MetadataImage:
        return self.image

    def change(self, entries: Iterable[AclEntry]) -> None:
        self.image = changed(self.image, acls=acls_of(entries))

    def asker(self) -> Asker:
        return self.askers.of(Principal("alice"), "10.0.0.7")


class Handler:
    """Notes what the guard lets through."""

    def __init__(self, case: str) -> None:
        self._case = CASES[case]
        self.requests: list[Any] = []

    async def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        return self._case.answer(request)
