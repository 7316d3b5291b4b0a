"""Tells of topics that a consumer subscribes to and cannot read, which coordinators do not report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS
from kraft.client.cluster.metadata_cache import MISSING_TOPIC_GRACE_MS, MetadataCache
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.peers import Unreachable

log = logging.getLogger("kraft.client")


async def tell_of_missing_topics(
    group_id: str, topics: Iterable[str], metadata: MetadataCache, refused: Callable[[Refusal], None]
) -> None:
    """Log each of the topics that still does not exist after the time in which brokers learn of a new one.

    `refused` gets at once why the client may not know some.
    """
    try:
        missing, refusal = await _missing(topics, metadata)
        if refusal is not None:
            refused(Refusal(refusal.error_code, f"group {group_id}: {refusal.message}"))
        if missing:
            await asyncio.sleep(MISSING_TOPIC_GRACE_MS / 1000)
            missing, _ = await _missing(missing, metadata)
    except (Refusal, Unreachable):
        # The member's own requests report what is wrong with the brokers.
        return
    for topic in missing:
        log.warning("group %s: topic %r does not exist; it will be read once it is created", group_id, topic)


async def _missing(topics: Iterable[str], metadata: MetadataCache) -> tuple[list[str], Refusal | None]:
    """Return the topics that do not exist, and the first refusal of one that the client has no right to."""
    response = await metadata.fetch(metadata_of(sorted(topics)), ATTEMPT_MAX_MS)
    missing, refusal = [], None
    for each in response.topics:
        if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            missing.append(each.name or "")
        elif each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and refusal is None:
            refusal = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, each.error_message or f"topic '{each.name}'")
    return missing, refusal
