"""From a partition's name, as operators give it, to the partition."""

from __future__ import annotations

from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.model.errors import ErrorCode, Refusal


def find_partition(image: MetadataImage, topic: str, partition: int) -> tuple[TopicImage, PartitionImage]:
    """Raises Refusal UNKNOWN_TOPIC_OR_PARTITION that says which of the two there is not."""
    found = image.topic(topic)
    if found is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{topic[:300]}'")
    state = found.partitions.get(partition)
    if state is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{found.topic}' has no partition {partition}")
    return found, state
