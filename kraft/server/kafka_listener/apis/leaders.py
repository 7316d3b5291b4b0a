"""Look-ups in the metadata for responses about partitions: names of topic ids, and current leaders (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from kraft.metadata.image import CurrentImage
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, TopicPartition
from kraft.server.handlers.list_offsets import LED_ELSEWHERE

NO_LEADER: Final = (-1, -1)


class Leaders:
    """Topic names, leaders and addresses for the clients of one listener; addresses are those of `listener`."""

    def __init__(self, image: CurrentImage, listener: str) -> None:
        self._image = image
        self._listener = listener

    def topic_name(self, topic: str, topic_id: UUID) -> str | None:
        """Return `topic`, which older versions send, or else the name of `topic_id`; None if the id is unknown."""
        if topic:
            return topic
        found = self._image().topic_by_id(topic_id)
        return None if found is None else found.topic

    def current_leader(self, topic: str, partition: int, error_code: ErrorCode) -> tuple[int, int]:
        """Return leader and leader epoch for a client that asked the wrong broker; otherwise NO_LEADER."""
        is_elsewhere = error_code in LED_ELSEWHERE
        state = self._image().partition(TopicPartition(topic, partition)) if is_elsewhere else None
        return NO_LEADER if state is None else (state.leader, state.leader_epoch)

    def endpoints(self, broker_ids: Iterable[int]) -> list[tuple[BrokerId, Endpoint, str]]:
        """Return id, address and rack of each broker that is registered and has this listener."""
        image = self._image()
        brokers = [image.broker(broker_id) for broker_id in sorted(set(broker_ids))]
        return [
            (broker.broker_id, endpoint, broker.rack)
            for broker in brokers
            if broker is not None and (endpoint := broker.endpoint(self._listener)) is not None
        ]
