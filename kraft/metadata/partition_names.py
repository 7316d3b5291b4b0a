"""Look-up of a partition by the name that an operator gives."""

from __future__ import annotations

from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.model.errors import ErrorCode, Refusal


def find_partition(image: MetadataImage, topic: str, partition: int) -> tuple[TopicImage, PartitionImage]:
    """Return the topic and the partition. Raises Refusal UNKNOWN_TOPIC_OR_PARTITION that names the missing one."""
    found = image.topic(topic)
    if found is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{topic[:300]}'")
    state = found.partitions.get(partition)
    if state is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{found.topic}' has no partition {partition}")
    return found, state
