"""Requests for metadata, as clients and nodes of ours send them."""

from __future__ import annotations

from collections.abc import Iterable

from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic


def metadata_of(topics: Iterable[str] | None) -> MetadataRequest:
    """Return a request for these topics, or with None for all, that creates none."""
    asked = None if topics is None else tuple(MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in topics)
    return MetadataRequest(topics=asked, allow_auto_topic_creation=False)
