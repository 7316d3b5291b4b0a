"""Warns of topics that a consumer subscribes to and that do not exist, which coordinators do not report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS, MetadataCache
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.peers import Unreachable

log = logging.getLogger("kraft.client")


async def warn_of_missing_topics(group_id: str, topics: Iterable[str], metadata: MetadataCache) -> None:
    """Log each of the topics that still does not exist after the time in which brokers learn of a new one."""
    try:
        if missing := await _missing(topics, metadata):
            await asyncio.sleep(MISSING_TOPIC_GRACE_MS / 1000)
            missing = await _missing(missing, metadata)
    except (Refusal, Unreachable):
        # The member's own requests report what is wrong with the brokers.
        return
    for topic in missing:
        log.warning("group %s: topic %r does not exist; it will be read once it is created", group_id, topic)


async def _missing(topics: Iterable[str], metadata: MetadataCache) -> list[str]:
    response = await metadata.fetch(metadata_of(sorted(topics)), ATTEMPT_MAX_MS)
    return [each.name or "" for each in response.topics if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
