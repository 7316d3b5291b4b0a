"""ListConfigResources: the resources that have configs. Source: KIP-1142."""

from __future__ import annotations

from collections.abc import Iterable

from kraft.metadata.image import MetadataImage
from kraft.model.configs import ConfigResource, ConfigResourceType


def list_config_resources(image: MetadataImage, types: Iterable[ConfigResourceType]) -> list[ConfigResource]:
    """Return the resources of each type, sorted by name."""
    return [
        ConfigResource(resource_type=resource_type, resource_name=name)
        for resource_type in types
        for name in _names(image, resource_type)
    ]


def _names(image: MetadataImage, resource_type: ConfigResourceType) -> list[str]:
    match resource_type:
        case ConfigResourceType.TOPIC:
            return sorted(image.topic_ids)
        case ConfigResourceType.BROKER:
            return [str(broker_id) for broker_id in sorted(image.brokers)]
        case ConfigResourceType.GROUP:
            return sorted(image.group_configs)
        case _:
            # Loggers and client metrics have no configs of their own yet.
            return []
