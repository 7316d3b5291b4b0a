"""The handler of Metadata, on an image of the test's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import cast

from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerId
from kraft.server.config.node_config import NodeConfig
from kraft.server.handlers.metadata import CreationNoted, MetadataHandler
from tests.support.server.fake_controllers import FakeControllers


async def at_once(_: Iterable[str]) -> None:
    return


def metadata_handler(
    image: MetadataImage,
    controllers: FakeControllers,
    *,
    auto_create: bool = False,
    listener: str = "GRPC",
    controller: Callable[[Iterable[int]], int] = min,
    listed_though_fenced: Callable[[], Iterable[BrokerId]] = tuple,
    known_to_lead: Callable[[Iterable[str]], Awaitable[None]] = at_once,
    creation_noted: CreationNoted | None = None,
) -> MetadataHandler:
    topics = SimpleNamespace(auto_create_enabled=auto_create)
    return MetadataHandler(
        lambda: image,
        controllers.as_client(),
        cast(NodeConfig, SimpleNamespace(topics=topics)),
        listener,
        controller=controller,
        listed_though_fenced=listed_though_fenced,
        known_to_lead=known_to_lead,
        internal_topics=(),
        creation_noted=creation_noted,
    )
